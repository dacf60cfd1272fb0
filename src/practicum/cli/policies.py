"""What a user means by a policy: a run, a checkpoint, a model, `reference` or `random`."""

from collections.abc import Sequence
from pathlib import Path

from practicum.assemble import (
    SCRIPTED_POLICIES,
    Player,
    base_of_adapter,
    load_player,
    scripted_player,
)
from practicum.core.config import ModelConfig, RunConfig, apply_overrides, build_config
from practicum.core.errors import UserError
from practicum.core.interfaces import Environment
from practicum.store import Resolved, RunDir, list_runs, resolve_checkpoint

__all__ = ["open_player", "policy_config"]

RUNS = Path("runs")
"""Where a run is looked for when only its name is given."""


def find_checkpoint(policy: str) -> Resolved | None:
    """The checkpoint a word names; None when it names a model or a scripted policy instead."""
    if policy in SCRIPTED_POLICIES:
        return None
    path = Path(policy)
    places = (path, RUNS / path)
    candidates = [folder for place in places for folder in (place, place.parent)]
    candidates.append(path.parent.parent)
    named_run = policy.split("/")[0] == "latest" or any(RunDir.is_run(p) for p in candidates)
    if named_run or (path / "manifest.json").exists() or _is_among_runs(path):
        return resolve_checkpoint(policy, RUNS)
    return None


def _is_among_runs(path: Path) -> bool:
    """Whether a path that is not there would be a run's: it could also be a hub id."""
    if path.exists() or len(path.parts) < 2:
        return False
    return path.parent == RUNS or bool(list_runs(path.parent))


def policy_config(policy: str, env: str | None, overrides: Sequence[str]) -> RunConfig:
    """The config to act under: the run's own where the policy is one, otherwise the defaults."""
    found = find_checkpoint(policy)
    run = found.run if found is not None else None
    if run is not None:
        values = run.config().model_dump()
        if env is not None and env != values["env"]["name"]:
            values["env"] = {"name": env}
    elif env is None:
        raise UserError(f"say where {policy!r} is to act: add --env math")
    else:
        values = {"env": {"name": env}}
    if found is not None:
        values["model"] = {
            **(values.get("model") or {}),
            "name": base_of_adapter(found.checkpoint.path),
        }
    elif policy not in SCRIPTED_POLICIES:
        values["model"] = {"name": policy}
    return build_config(apply_overrides(values, overrides), "the command line")


def open_player(policy: str, config: RunConfig, environment: Environment) -> Player:
    """Load what a word names, ready to act."""
    if policy in SCRIPTED_POLICIES:
        return scripted_player(policy, environment)
    found = find_checkpoint(policy)
    temperature = config.eval.temperature
    if found is None:
        model = config.model if config.model.name == policy else ModelConfig(name=policy)
        return load_player(model, None, config.rollouts, temperature)
    base = base_of_adapter(found.checkpoint.path)
    model = config.model.model_copy(update={"name": base})
    return load_player(model, found.checkpoint.path, config.rollouts, temperature)
