"""Imports every module with families, which fills `FAMILIES`."""

from practicum.environments.office.families import (admin_families, data_science_families, finance_families, first_steps)
from practicum.environments.office.office_plan import FAMILIES, Family

MODULES = (first_steps, admin_families, data_science_families, finance_families)


def families() -> dict[str, Family]:
    """Every family by name."""
    return dict(FAMILIES)
