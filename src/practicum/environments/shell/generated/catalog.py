"""All templates, by the side of the wall they are on."""

from practicum.core.task import Split
from practicum.environments.shell.generated import (
    accounts,
    archives,
    combined,
    editing,
    files,
    finding,
    groups,
    links,
    permissions,
    processes,
    text,
    writing,
)
from practicum.environments.shell.generated.step import Template

__all__ = ["TEMPLATES", "templates_of"]

FAMILIES = (
    accounts,
    archives,
    combined,
    editing,
    files,
    finding,
    groups,
    links,
    permissions,
    processes,
    text,
    writing,
)

TEMPLATES: tuple[Template, ...] = tuple(
    template for family in FAMILIES for template in family.TEMPLATES
)


def templates_of(split: Split) -> tuple[Template, ...]:
    """The templates that tasks of one split are composed of; no other split uses them."""
    return tuple(template for template in TEMPLATES if template.split == split)
