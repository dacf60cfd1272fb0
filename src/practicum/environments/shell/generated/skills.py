"""The skills that generated tasks are composed of, in the order in which a story uses them."""

__all__ = ["SKILLS", "STAGE"]

STAGES = (
    ("groupadd", "addgroup"),
    ("useradd",),
    ("usermod", "gpasswd", "chsh", "chage"),
    ("mkdir",),
    ("touch", "echo", "tee", "exit", "cat", "cp"),
    ("sed", "vi", "cd"),
    ("grep", "awk", "wc", "find", "ls"),
    ("mv", "rm"),
    ("chown", "chgrp"),
    ("chmod",),
    ("ln", "tar", "gzip", "zip"),
    ("sleep", "kill"),
)
"""Accounts come first, then what is made, then what is done to it: later steps can build on
earlier ones. `chmod` follows `chown`, which clears set-id bits."""

STAGE = {skill: stage for stage, skills in enumerate(STAGES) for skill in skills}
"""Place of each skill in a story."""

SKILLS = tuple(sorted(STAGE))
"""Every skill: 29 of the usual shell work, and archives and processes."""
