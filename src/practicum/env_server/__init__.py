"""Any environment behind one HTTP server, many episodes at once.

This folder knows environments only by their contract. What it speaks: OpenEnv's `reset`, `step` and
`state` (over HTTP and WebSocket) with a little more for Practicum's own client, and on request the
routes of a LifelongAgentBench task server. `practicum env serve` starts it.
"""

from practicum.env_server.settings import ServerSettings

__all__ = ["ServerSettings"]
