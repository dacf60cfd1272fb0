"""Nouns and contracts of Practicum.

Everything else depends on this folder; it depends on nothing, does no I/O and never loads torch.
Records are plain frozen dataclasses, so that the parts that run beside a GPU need only numpy;
pydantic appears in `core/config` and where records are read from or written to disk (`store`).
"""
