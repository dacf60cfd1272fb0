"""An HTTP server for any environment: OpenEnv, Practicum's own client, LifelongAgentBench."""
