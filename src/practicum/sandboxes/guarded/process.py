"""Commands as plain processes of the host: nothing is isolated, so it must be asked for twice.

Only limits hold: time, output, and, where cgroups can be made, memory, processes and processor
time. A command can read, change and end whatever its user can. Nothing guards a checker either.
"""

import os
import sys
from collections.abc import Mapping

from practicum.core.errors import UserError
from practicum.sandboxes.guarded.sandboxes import GuardedSandboxes

__all__ = ["ALLOW_VARIABLE", "ProcessSandboxes"]

ALLOW_VARIABLE = "PRACTICUM_ALLOW_UNSAFE_SANDBOX"


class ProcessSandboxes(GuardedSandboxes):
    """The kind `process`; `UserError` unless the environment allows it as well."""

    def __init__(self, environment: Mapping[str, str] | None = None) -> None:
        environment = os.environ if environment is None else environment
        if environment.get(ALLOW_VARIABLE) != "1":
            raise UserError(
                "sandboxes of kind 'process' isolate nothing: commands of the model would run as "
                "you; allowed without further word are 'auto', 'bubblewrap', 'landlock', 'docker' "
                f"and 'podman'; if this machine may be lost, type: export {ALLOW_VARIABLE}=1"
            )
        if sys.platform != "linux":
            raise UserError(
                f"sandboxes of kind 'process' do not run on {sys.platform}; they need Linux; "
                "set the kind to docker or podman"
            )
        super().__init__("process", confines=False)
