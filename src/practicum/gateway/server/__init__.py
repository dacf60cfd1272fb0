"""The gateway as an HTTP server: routes, limits, streaming, control. Needs the extra `gateway`."""
