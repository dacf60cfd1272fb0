"""Which optional parts of Practicum are installed, read from package metadata alone."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import metadata

__all__ = ["Extra", "find_extras", "installed_version"]

EXTRA_REQUIREMENT = re.compile(r"""^([A-Za-z0-9._-]+)[^;]*;.*extra\s*==\s*["']([^"']+)["']""")
"""A line of metadata such as `torch==2.13.0; extra == 'train'`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Extra:
    """One extra: its packages with their versions, None for one that is missing."""

    name: str
    packages: dict[str, str | None]

    @property
    def is_installed(self) -> bool:
        """Whether every package of it is here."""
        return all(version is not None for version in self.packages.values())

    @property
    def install_command(self) -> str:
        """What to type to get it."""
        return f"pip install 'practicum[{self.name}]'"


def find_extras(requirements: Sequence[str] | None = None) -> tuple[Extra, ...]:
    """Every extra that Practicum declares; no package is imported."""
    lines = metadata.requires("practicum") if requirements is None else requirements
    found: dict[str, dict[str, str | None]] = {}
    for line in lines or ():
        match = EXTRA_REQUIREMENT.match(line)
        if match:
            package, extra = match.groups()
            found.setdefault(extra, {})[package] = installed_version(package)
    return tuple(Extra(name=name, packages=packages) for name, packages in found.items())


def installed_version(package: str) -> str | None:
    """The version of an installed package."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None
