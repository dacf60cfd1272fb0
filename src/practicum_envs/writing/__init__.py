"""The `writing` environment: texts for briefs whose demands can be checked."""
