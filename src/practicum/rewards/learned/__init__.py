"""A reward learned from people's labels, and what chooses the traces they are asked about."""
