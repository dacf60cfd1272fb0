"""The services of a company, in the order of their ports."""

from practicum.environments.office.services import gitlab, rocketchat

SERVICES = (rocketchat.SERVICE, gitlab.SERVICE)
PORTS = tuple(service.port for service in SERVICES)
