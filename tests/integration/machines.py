"""Whether tests that need a real machine sandbox can have one."""

import asyncio
from functools import cache

from practicum.core.command import SandboxSpec
from practicum.core.errors import EnvironmentFailure, UserError
from practicum.sandboxes.opening import open_sandboxes


@cache
def why_no_machine() -> str | None:
    """Why no machine can be had here; None when one can."""

    async def attempt() -> None:
        sandboxes = open_sandboxes()
        try:
            box = await sandboxes.open(SandboxSpec(profile="machine"))
            await box.close()
        finally:
            await sandboxes.close()

    try:
        asyncio.run(attempt())
    except (UserError, EnvironmentFailure) as error:
        return str(error)
    return None
