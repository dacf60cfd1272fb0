"""`TrainableModel(NAME, peft_config)`: one local model that executes tasks and learns from them."""

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count, islice
from pathlib import Path
from typing import Any

from practicum.api import run_to_end
from practicum.assemble.build_policy import fitting_plan
from practicum.assemble.environments import choose_task, open_environment
from practicum.assemble.policies import play_once, sampling_params, trained_policy
from practicum.assemble.shared_policy import LearnedStep, SharedPolicy
from practicum.compat.art.local import METHODS, PEFT
from practicum.core.capabilities import Closable
from practicum.core.config.config_sections import EnvConfig
from practicum.core.config.foreign_config import BASE
from practicum.core.config.parse_config import apply_overrides, build_config
from practicum.core.config.run_config import RunConfig
from practicum.core.errors import UserError
from practicum.core.interfaces import Environment
from practicum.core.sample import Episode, Group
from practicum.core.score import Score
from practicum.core.task import Task

OFFICE: Mapping[str, Any] = BASE["env"]
"""A made-up company with the services of TheAgentCompany, which itself is a test set."""

USUAL = {"task_type": "CAUSAL_LM", "peft_type": "LORA", "bias": "none", "inference_mode": False}
"""What else an adapter's config may say: it is always so here."""

_drawn = count()


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutedTask:
    """A task as the model executed it."""

    task: Task
    episode: Episode
    step: int
    """Steps that the model had learned by then."""

    @property
    def reward(self) -> float | None:
        """Its score from evidence; None where the episode failed and counts for nothing."""
        return self.episode.score.value

    @property
    def success(self) -> bool | None:
        """Whether the task is done; None where nobody can say."""
        return self.episode.outcome.success if self.episode.outcome else None

    @property
    def messages(self) -> tuple[Any, ...]:
        """What was said, shown and done."""
        return tuple(self.episode.trace.messages())


def sample_professional_tasks(
    n: int = 4,
    attempts: int = 4,
    *,
    env: str | Mapping[str, Any] = OFFICE,
    seed: int | None = None,
) -> list[Task]:
    """Tasks to practise on, each as often as it is to be tried: GRPO compares the attempts.

    Args:
        n: Different tasks.
        attempts: How often each is in the list.
        env: An environment's name, or its name and options; the office unless given.
        seed: Which tasks; others at every call unless given.
    """
    if n < 1 or attempts < 1:
        raise UserError(f"n={n} and attempts={attempts} are counts; give 1 or more of each")
    environment = open_environment(_env_config(env))
    try:
        drawn = islice(environment.tasks("train", next(_drawn) if seed is None else seed), n)
        return [task for task in drawn for _ in range(attempts)]
    finally:
        if isinstance(environment, Closable):
            run_to_end(environment.close())


def compute_reward(result: ExecutedTask) -> float | None:
    """The score of an executed task from its evidence; None where it counts for nothing."""
    return result.reward


class TrainableModel:
    """A local model with an adapter: the same weights execute tasks and are trained.

    Example:
        ```
        model = TrainableModel("tiny", {"r": 8, "lora_alpha": 16}, env="math")
        for _ in range(10):
            tasks = sample_professional_tasks(env="math")
            results = [await model.execute_task(task) for task in tasks]
            rewards = [compute_reward(result) for result in results]
            await model.train(results, rewards)
        ```

    Args:
        model: A known name, a hub id, a folder or a .gguf file.
        peft_config: The adapter, as `peft.LoraConfig` has it or as a dictionary.
        env: Where tasks are executed; the office unless given.
        name: Its folder in `runs_dir`. One that is there goes on; a new one unless given.
        runs_dir: Folder of the folder that holds the checkpoints.
        overrides: Words as `practicum train` takes them, such as `algorithm.lr=1e-4`.
    """

    def __init__(
        self,
        model: str,
        peft_config: Any = None,
        *,
        env: str | Mapping[str, Any] = OFFICE,
        name: str = "",
        runs_dir: str | Path = "runs",
        overrides: Sequence[str] = (),
    ) -> None:
        values = {"model": model, "env": env, "lora": read_peft(peft_config), "steps": 1}
        if env is OFFICE:
            values["rollouts"] = BASE["rollouts"]
        self.config: RunConfig = build_config(apply_overrides(values, overrides), "TrainableModel")
        if self.config.algorithm.name not in METHODS:
            raise UserError(
                f"algorithm {self.config.algorithm.name!r} does not learn from attempts and their "
                f"rewards alone; choose one of {', '.join(METHODS)}"
            )
        self._environment: Environment = open_environment(self.config.env)
        fitting_plan(self.config)  # refused before anything is written
        self.folder = Path(runs_dir) / (name or _free_name(Path(runs_dir)))
        self._policy = SharedPolicy(self.config, self.folder)
        self._executed = count()
        self._under_way = 0

    @property
    def step(self) -> int:
        """Steps that were trained; each is a checkpoint in `folder`."""
        return self._policy.step

    async def execute_task(self, task: Task | str) -> ExecutedTask:
        """Let the model do a task as it is now; a text is a task's id, or what makes one."""
        if isinstance(task, str):
            task = choose_task(self.config.env, self._environment, task)
        rollouts, number = self.config.rollouts, next(self._executed)
        params = sampling_params(rollouts, rollouts.temperature)
        handle = trained_policy(self.config.model.name, self._policy.policy, params)
        self._under_way += 1
        try:
            episode = await play_once(
                handle, self._environment, task, self.config, self.config.seed + number
            )
        finally:
            self._under_way -= 1
        trace = replace(episode.trace, id=f"{self.folder.name}/{self.step}/{number}")
        return ExecutedTask(task=task, episode=replace(episode, trace=trace), step=self.step)

    async def train(
        self,
        trajectory_groups: Iterable[ExecutedTask | Iterable[ExecutedTask]],
        rewards: Iterable[float | Iterable[float | None] | None] | None = None,
    ) -> LearnedStep:
        """One step of GRPO, or of the algorithm in `overrides`; it is saved in `folder`.

        Args:
            trajectory_groups: What was executed since the last step: the attempts at each task, or
                all in one list.
            rewards: A reward for each, in the same order; their own scores unless given.
        """
        results = list(_flat(trajectory_groups, ExecutedTask))
        given = [r.reward for r in results] if rewards is None else list(_flat(rewards))
        self._check(results, given)
        groups = _as_groups(results, given)

        if groups and all(len(group.episodes) == 1 for group in groups):
            raise UserError(
                f"each of {len(groups)} tasks was executed once, and {self.config.algorithm.name} "
                "compares attempts at the same task; execute each several times, as "
                "sample_professional_tasks(n=4, attempts=4) lists them"
            )
        return await self._policy.learn(lambda turns, step: groups, self.config)

    def _check(self, results: Sequence[ExecutedTask], rewards: Sequence[Any]) -> None:
        if len(results) != len(rewards):
            raise UserError(
                f"there are {len(results)} executed tasks and {len(rewards)} rewards; give one "
                "reward for each"
            )
        if not results:
            raise UserError("nothing was executed; give what execute_task returned")
        for reward in rewards:
            if reward is not None and not isinstance(reward, int | float):
                raise UserError(f"a reward is a number, and {reward!r} is none")
        if any(result.step != self.step for result in results):
            raise UserError(
                "a task was executed before the model last learned, so its tokens are not the "
                "present model's; execute tasks again after each train"
            )
        if self._under_way:
            raise UserError("tasks are still being executed; await them all before train")

    async def close(self) -> None:
        """Let go of the folder and of the environment."""
        await self._policy.close()
        if isinstance(self._environment, Closable):
            await self._environment.close()


def read_peft(given: Any) -> dict[str, Any]:
    """The adapter's config as ours.

    >>> read_peft({"r": 8, "lora_alpha": 16, "target_modules": ["q_proj", "v_proj"]})
    {'preset': 'full', 'r': 8, 'alpha': 16, 'targets': ['q_proj', 'v_proj']}
    """
    if given is None:
        return {"preset": "full"}
    if dataclasses.is_dataclass(given) and not isinstance(given, type):
        usual = vars(type(given)())
        asked = {k: v for k, v in vars(given).items() if k in PEFT or v != usual.get(k)}
    elif isinstance(given, Mapping):
        asked = dict(given)
    else:
        raise UserError(
            f"peft_config is a {type(given).__name__}; give a peft.LoraConfig, or a dictionary "
            f"with {', '.join(PEFT)}"
        )
    odd = [k for k, v in asked.items() if k not in PEFT and USUAL.get(k, ...) != v]
    if odd:
        raise UserError(
            f"peft_config.{odd[0]} = {asked[odd[0]]!r} is not used here; leave it out, and give "
            f"any of {', '.join(PEFT)}"
        )
    ours = {PEFT[k]: v for k, v in asked.items() if k in PEFT and v is not None}
    targets = ours.get("targets")
    if isinstance(targets, str):  # all-linear, or a pattern
        if targets != "all-linear":
            raise UserError(
                f"peft_config.target_modules = {targets!r} is a pattern; list the names instead"
            )
        del ours["targets"]
    elif targets is not None:
        ours["targets"] = sorted(targets) if isinstance(targets, set) else list(targets)
    return {"preset": "full", **ours}


def _env_config(env: str | Mapping[str, Any]) -> EnvConfig:
    found = build_config({"env": dict(env) if isinstance(env, Mapping) else env}).env
    assert found is not None
    return found


def _flat(given: Any, one: type | None = None) -> Iterable[Any]:
    """The entries of a list, or of a list of lists."""
    for entry in given:
        inner = isinstance(entry, Iterable) and not isinstance(entry, str)
        for part in entry if inner else (entry,):
            if one is not None and not isinstance(part, one):
                raise UserError(
                    f"a trajectory is a {type(part).__name__}; give what execute_task returned"
                )
            yield part


def _as_groups(results: Sequence[ExecutedTask], rewards: Sequence[Any]) -> list[Group]:
    """The attempts at each task, scored by the rewards."""
    found: dict[str, list[Episode]] = {}
    for result, reward in zip(results, rewards, strict=True):
        episode = result.episode
        if reward is not None and reward != result.reward:
            score = Score(components={"reward": float(reward)})
            episode = Episode(trace=episode.trace, outcome=None, score=score)
        elif reward is None:
            continue  # it counts for nothing
        found.setdefault(result.task.id, []).append(episode)
    tasks = {result.task.id: result.task for result in results}
    return [Group(task=tasks[key], episodes=tuple(each)) for key, each in found.items()]


def _free_name(runs_dir: Path) -> str:
    return next(name for n in count(1) if not (runs_dir / (name := f"model-{n}")).exists())
