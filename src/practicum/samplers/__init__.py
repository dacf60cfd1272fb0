"""Samplers in other processes: replicas, who asks which of them, and how weights reach them."""
