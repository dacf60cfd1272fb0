"""Every family of programming tasks, by name."""

from functools import cache

from practicum_envs.code.families.class_families import CLASSES
from practicum_envs.code.families.date_families import DATES
from practicum_envs.code.families.drafting import Family
from practicum_envs.code.families.graph_families import GRAPHS
from practicum_envs.code.families.list_families import LISTS
from practicum_envs.code.families.number_families import NUMBERS
from practicum_envs.code.families.parsing_families import PARSING
from practicum_envs.code.families.sql_families import SQL
from practicum_envs.code.families.string_families import STRINGS
from practicum_envs.code.families.text_tool_families import TEXT_TOOLS

SHELVES = (LISTS, STRINGS, NUMBERS, PARSING, DATES, GRAPHS, CLASSES, SQL, TEXT_TOOLS)


@cache
def code_families() -> dict[str, Family]:
    """All families by their names."""
    return {one.name: one for shelf in SHELVES for one in shelf.families}
