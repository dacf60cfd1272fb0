"""Sandboxes without namespaces: Landlock, a system call filter, limits, and a user of their own.

For machines where namespaces are forbidden and nothing can be installed. Each command confines
itself before it starts: it may read and run the system's programs, change files in one folder,
and open no socket. What is weaker than in namespaces:

* Disk space is looked at ten times a second and not limited by the kernel, and files that are
  deleted but still open are not seen.
* That a host file exists, its size and its times can be seen; its content cannot. The time of a
  file that everyone may write can be set to now.
* Without root the sandbox has the host's user: changes of modes, owners and times by name are
  forbidden to it altogether, also in its own folder.
* Without cgroups memory, too, is looked at ten times a second.
"""

from practicum.core.errors import UserError
from practicum.sandboxes.guarded.confinement import why_no_landlock
from practicum.sandboxes.guarded.sandboxes import GuardedSandboxes
from practicum.sandboxes.syscalls import native_architecture

__all__ = ["LandlockSandboxes", "why_no_landlock"]


class LandlockSandboxes(GuardedSandboxes):
    """The kind `landlock`; `UserError` where this machine cannot hold one."""

    def __init__(self) -> None:
        native_architecture()
        reason = why_no_landlock()
        if reason is not None:
            raise UserError(
                f"sandboxes of kind 'landlock' cannot be had: {reason}; other kinds are "
                "'bubblewrap', 'docker' and 'podman'; type `practicum doctor --sandbox` to see "
                "which work here"
            )
        super().__init__("landlock", confines=True)
