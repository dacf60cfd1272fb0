"""Client of environments on a server: Practicum's own protocol, or plain OpenEnv."""
