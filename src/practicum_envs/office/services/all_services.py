"""The services of a company."""

from practicum_envs.office.services import api_server, gitlab, owncloud, plane, rocketchat

SERVICES = (api_server.SERVICE, rocketchat.SERVICE, plane.SERVICE, owncloud.SERVICE, gitlab.SERVICE)
PORTS = tuple(service.port for service in SERVICES)
