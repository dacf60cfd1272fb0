"""The gateway as an HTTP server: routes, limits and who may ask. Needs the extra `gateway`."""

from practicum.gateway.server.gateway import Gateway
from practicum.gateway.server.settings import GatewaySettings

__all__ = ["Gateway", "GatewaySettings"]
