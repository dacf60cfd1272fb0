"""Where untrusted commands run."""

from practicum.sandboxes.fake import FakeSandbox, RanCommand

__all__ = ["FakeSandbox", "RanCommand"]
