"""Imports every module with families, which fills `FAMILIES`."""

from practicum_envs.office.families import (  # noqa: F401 - each fills FAMILIES
    admin_families,
    business_families,
    data_science_families,
    finance_families,
    first_steps,
    human_resources_families,
    machine_learning_families,
    project_management_families,
    quality_families,
    research_families,
    software_engineering_families,
)
from practicum_envs.office.office_plan import FAMILIES, Family


def families() -> dict[str, Family]:
    """Every family by name."""
    return dict(FAMILIES)
