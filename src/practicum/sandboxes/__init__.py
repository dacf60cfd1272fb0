"""Where untrusted commands run."""

from practicum.sandboxes.fake import FakeSandbox, FakeSandboxes, RanCommand
from practicum.sandboxes.opening import KINDS, CheckedSandboxes, open_sandboxes

__all__ = [
    "KINDS",
    "CheckedSandboxes",
    "FakeSandbox",
    "FakeSandboxes",
    "RanCommand",
    "open_sandboxes",
]
