"""`Policy`: a model that samples and learns, for a loop of your own.

`train` decides what is sampled, what is learned from and when; here your code does. One end acts
(`sample`, `roll_out`, `evaluate`), the other is updated (`update`) and publishes its weights to the
first under a version, which every sampled token names.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from practicum.agents.rollout import run_groups
from practicum.api import EnvLike, config_of
from practicum.assemble.build_policy import build_policy, fitting_plan
from practicum.assemble.build_stages import with_own_options
from practicum.assemble.driver import open_run_environment
from practicum.assemble.policies import evaluate_policy, sampling_params, trained_policy
from practicum.assemble.updates import Advantages, lesson_of
from practicum.core.capabilities import Closable, SamplesElsewhere
from practicum.core.checkpoint import EvalReport
from practicum.core.errors import UserError
from practicum.core.interfaces import UpdateReport
from practicum.core.sample import Group
from practicum.core.sampling import Actions, Completion, SamplingRequest
from practicum.core.task import Task
from practicum.core.trace import Message
from practicum.training.algorithms.build_algorithms import build_algorithm
from practicum.training.overlapped_steps import mark_on_policy


class Policy:
    """A model with a fresh adapter, at one environment.

    Example:
        ```
        policy = pr.Policy(MyEnvironment, model="tiny", algorithm={"lr": 5e-4})
        tasks = policy.environment.tasks("train", seed=0)
        for step in range(40):
            groups = await policy.roll_out(list(islice(tasks, 8)), group_size=8)
            await policy.update(groups)
        policy.save("adapter")
        ```

    Args:
        env: As `train` takes it: a class, a name, `FILE.py:Name`, `module:Name`.
        options: Keys of the config, as `train` takes them. Those that say how long a run is, how it
            is evaluated and what it keeps do nothing here.
    """

    def __init__(self, env: EnvLike, **options: Any) -> None:
        self.config = with_own_options(config_of(env, options))
        if self.config.all_stages[0].algorithm.is_offline:
            raise UserError(
                f"algorithm {self.config.all_stages[0].algorithm.name!r} learns from recorded "
                "examples, and a Policy from episodes it makes; name grpo, ppo or another that "
                "acts, or use pr.train"
            )
        environment = open_run_environment(self.config)
        assert environment is not None  # an algorithm that acts has seen to that
        self.environment = environment
        self._live = build_policy(self.config, fitting_plan(self.config))
        self._rollouts = 0
        self._updates = 0

    @property
    def version(self) -> str:
        """The weights that the next token will be sampled from."""
        return self._live.sampler.fingerprint()

    async def sample(
        self,
        messages: str | Sequence[Message],
        *,
        actions: Actions = (),
        seed: int = 0,
        temperature: float | None = None,
    ) -> Completion:
        """The model's next turn, with its tokens, their log-probabilities and the version.

        Args:
            messages: The conversation so far; a text is a user's message.
            actions: What the turn must be one of, if given.
            seed: The same one draws the same turn from the same weights.
            temperature: The config's unless given; 0 takes the likeliest tokens.
        """
        if isinstance(messages, str):
            messages = [Message(role="user", content=messages)]
        params = self._params(temperature, seed)
        prompt = self._live.codec.open(messages)
        request = SamplingRequest(prompt_ids=prompt, params=params, actions=actions)
        return await self._live.sampler.sample(request)

    async def roll_out(
        self, tasks: Sequence[Task], group_size: int = 1, *, temperature: float | None = None
    ) -> list[Group]:
        """`group_size` scored episodes of each task, all at once, with what `update` needs.

        Other draws are made each time, and the same ones in a program that does the same.
        """
        self._rollouts += 1
        handle = trained_policy(self.config.model.name, self._live, self._params(temperature))
        return await run_groups(
            handle.parts(self.environment, self.config, learns=True),
            tasks,
            group_size,
            label=f"{self.version[:16]}/{self._rollouts}",
            seed=self.config.seed,
        )

    async def update(
        self, groups: Sequence[Group], advantages: Advantages | None = None
    ) -> UpdateReport | None:
        """Learn from groups of episodes, and publish; None where there was nothing to learn.

        The event loop goes on meanwhile, and so do rollouts: from the next token on with the new
        weights. Tokens of earlier versions count with their importance ratio, as the algorithm
        has it.

        Args:
            groups: What `roll_out` gave.
            advantages: For each group a number for each of its `usable` episodes, or one for each
                turn of these; unless given they are the algorithm's, which leaves out the groups
                whose episodes are all worth the same.
        """
        return await self._live.learner.beside_loop(partial(self._update, groups, advantages))

    def _update(
        self, groups: Sequence[Group], advantages: Advantages | None
    ) -> UpdateReport | None:
        learner = self._live.learner
        if advantages is None:
            stage = self.config.all_stages[0]
            algorithm = build_algorithm(stage.algorithm, self.config.rollouts)
            groups = [group for group in groups if algorithm.is_informative(group)]
        if not groups:
            return None
        seed = (self.config.seed, self._updates)
        lesson = lesson_of(groups, self.config, learner, seed=seed, advantages=advantages)
        if not lesson.batches:
            return None
        self._updates += 1
        batches = mark_on_policy(lesson.batches, groups, learner.fingerprint())
        return learner.update(batches, lesson.algorithm)

    def publish(self) -> str:
        """Let the sampling end go on with the weights as they are; their version.

        `update` and `load` have done it already. It is for code that changes weights itself.
        """
        return self._live.learner.publish()

    async def evaluate(self, n: int = 100, *, temperature: float = 0.0) -> EvalReport:
        """Held-out scores with 95 % intervals; see `evaluate` for runs."""
        asked = self.config.eval.model_copy(update={"n": n, "temperature": temperature})
        config = self.config.model_copy(update={"eval": asked})
        handle = trained_policy(self.config.model.name, self._live, self._params(temperature))
        done = await evaluate_policy(handle, self.environment, config, lambda episode: None)
        return done.report

    def save(self, folder: str | Path) -> None:
        """Write the adapter, with what `load` needs to go on; `export` and `serve` take it too."""
        place = Path(folder)
        place.mkdir(parents=True, exist_ok=True)
        self._live.learner.save(place)

    def load(self, folder: str | Path) -> None:
        """Go on from what `save` wrote, with the optimizer as it was."""
        if not Path(folder).is_dir():
            raise UserError(f"{folder} is no folder; give one that Policy.save has written")
        self._live.learner.load(Path(folder))

    async def close(self) -> None:
        """Close the environment, and end the replicas that sample elsewhere."""
        if isinstance(self._live, SamplesElsewhere):
            self._live.close()
        if isinstance(self.environment, Closable):
            await self.environment.close()

    def _params(self, temperature: float | None, seed: int = 0) -> Any:
        rollouts = self.config.rollouts
        given = rollouts.temperature if temperature is None else temperature
        return replace(sampling_params(rollouts, given), seed=seed)
