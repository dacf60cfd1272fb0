"""Where untrusted commands run."""

from practicum.sandboxes.fake import FakeSandbox, FakeSandboxes, RanCommand

__all__ = ["FakeSandbox", "FakeSandboxes", "RanCommand"]
