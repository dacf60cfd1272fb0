"""Steps from which nothing can be learned, whatever the policy does, and why.

Pure functions of a step's metrics, so that training and the views of a run say the same. What a
policy cannot do yet is not among it: that is what `alarms` tells, after some steps.
"""

from collections.abc import Mapping

from practicum.core.task import JSON


def why_idle(metrics: Mapping[str, JSON]) -> str:
    """What keeps every episode of a step from teaching anything; empty where nothing does.

    >>> why_idle({"episodes": 8, "sampled_tokens": 0})[:60]
    'the model was not called in any of the 8 episodes, so that n'
    """
    episodes = _number(metrics, "episodes")
    if not episodes:
        return ""
    if _number(metrics, "sampled_tokens") == 0.0:
        return (
            f"the model was not called in any of the {episodes:.0f} episodes, so that nothing can "
            "be learned: let the agent send its requests to the client, or to OPENAI_BASE_URL, "
            "that it is given (docs/agents.md)"
        )
    if _number(metrics, "timed_out_episodes") == episodes:
        return (
            f"all {episodes:.0f} episodes were cut off at agent.deadline_s and have failed: raise "
            "agent.deadline_s, or lower rollouts.max_turns or rollouts.max_tokens"
        )
    return ""


def why_all_alike(metrics: Mapping[str, JSON]) -> str:
    """Why it is likely that the reward pays everything the same; empty where it is not.

    Where all have succeeded, or all have failed and were paid nothing for it, equal scores are what
    one expects, and no sign of anything.
    """
    episodes, groups = _number(metrics, "episodes"), _number(metrics, "groups")
    spread, paid = _number(metrics, "score_spread"), _number(metrics, "reward")
    success = _number(metrics, "success")
    if not episodes or (groups or 0.0) < 2 or spread is None or spread > 1e-9 or paid is None:
        return ""
    if success == 1.0 or (success == 0.0 and paid <= 0.0):
        return ""
    known = "solved or not" if success else "and none succeeded"
    known = "and whether one succeeded is not known" if success is None else known
    return (
        f"the reward paid {paid:.3g} for each of the {episodes:.0f} episodes, {known}, so that "
        "nothing was learned: see what they wrote with practicum traces list --store and the run's "
        "folder, and write a reward that tells them apart, such as reward=FILE.py:FUNCTION"
    )


def _number(metrics: Mapping[str, JSON], name: str) -> float | None:
    value = metrics.get(name)
    return float(value) if isinstance(value, int | float) else None
