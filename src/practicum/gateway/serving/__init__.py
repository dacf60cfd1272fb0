"""`practicum serve`: the gateway's dialects for production, over models that can be swapped."""
