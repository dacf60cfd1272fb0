"""A training run as queues, event by event: samplers, sessions of environments, a learner.

Episodes take turns: a replica writes a turn's tokens, the environment answers, and so on until the
last. A replica writes one token of each of its rows at a time, so rows slow each other down, and it
reads what it is told before it goes on. The learner takes the steps in their order, each when all
of its episodes are there; the episodes of the next `staleness` steps go on meanwhile
(`training/overlapped_steps.py`). The same seed gives the same numbers.
"""

import heapq
import itertools
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

Doubles = NDArray[np.float64]


LOOK_TOKENS = 256.0
"""Tokens after which a replica's speed is taken anew, since its contexts have grown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """What a step has to do. A spread is a standard deviation by its mean (gamma distributions)."""

    tasks: int
    group: int
    turns: int
    turn_tokens: float
    turn_spread: float = 0.0
    most_turn_tokens: int = 1 << 20
    prompt_tokens: int = 0
    """Read once by a group."""
    reply_tokens: int = 0
    """What an environment answers a turn with."""
    environment_s: float = 0.0
    """Seconds of an answer."""
    environment_spread: float = 0.0

    @property
    def episodes(self) -> int:
        """Episodes of a step."""
        return self.tasks * self.group

    def draw(self, seed: int, step: int) -> tuple[Doubles, Doubles]:
        """Tokens and seconds of each turn of the step's episodes."""
        rng, size = np.random.default_rng([seed, step]), (self.episodes, self.turns)
        tokens = np.rint(_gamma(rng, self.turn_tokens, self.turn_spread, size))
        seconds = _gamma(rng, self.environment_s, self.environment_spread, size)
        return np.clip(tokens, 1, self.most_turn_tokens).astype(np.float64), seconds


def _gamma(rng: np.random.Generator, mean: float, spread: float, size: tuple[int, int]) -> Doubles:
    if not spread or not mean:
        return np.full(size, mean, np.float64)
    return rng.gamma(1 / spread**2, mean * spread**2, size)


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplerRates:
    """What one replica takes for a token of each row that it has."""

    step_s: float = 0.0
    """However few rows there are: kernels are launched, devices wait for each other."""
    weights_s: float = 0.0
    """The weights are read, or else, if that takes longer, all rows are computed."""
    row_s: float = 0.0
    """One row is computed."""
    context_s: float = 0.0
    """For each token that rows have behind them: their keys and values are read."""
    told_s: float = 0.0
    """For each token that is read; nothing is written meanwhile."""
    most_rows: int = 1 << 20
    """Rows at once; more wait."""

    def seconds(self, rows: int, context: float) -> float:
        """Of a token of each row, with so many tokens behind all of them together."""
        computed = max(self.weights_s, self.row_s * rows)
        return self.step_s + computed + self.context_s * context


@dataclass(frozen=True, slots=True, kw_only=True)
class LearnerRates:
    """What an update takes."""

    ranks: int = 1
    update_s: float = 0.0
    """However few tokens there are, for each optimizer step."""
    token_s: float = 0.0
    """For each unique token of a rank."""
    minibatches: int = 1
    """Optimizer steps of a step, whose episodes they divide."""
    cuts_episodes: bool = True
    """Whether ranks have even shares of the tokens, as ours; else each has whole episodes."""

    def seconds(self, loads: Doubles) -> float:
        """Of an update from episodes with so many tokens."""
        parts = np.array_split(loads, self.minibatches)
        return sum(self.update_s + self.token_s * self._largest(part) for part in parts)

    def _largest(self, loads: Doubles) -> float:
        """Tokens of the rank that has most: the longest episode left goes to the idlest rank."""
        if self.cuts_episodes or self.ranks == 1:
            return float(loads.sum()) / self.ranks
        ranks = [0.0] * self.ranks
        for load in sorted(loads.tolist(), reverse=True):
            heapq.heapreplace(ranks, ranks[0] + load)
        return max(ranks)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    """Who does the work."""

    replicas: int
    sampler: SamplerRates
    learner: LearnerRates
    sessions: int = 0
    """Episodes that environments have room for at once; 0 for as many as there are."""
    publish_s: float = 0.0
    """From an update's end until replicas may sample from it; the learner waits."""
    load_s: float = 0.0
    """For which a replica stands still, to take new weights."""
    staleness: int = 0
    is_shared: bool = False
    """Whether learner and replicas are on the same devices, and replicas stop for an update."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Simulated:
    """What happened after the first steps, in which queues fill."""

    steps: int
    seconds: float
    episodes: int
    tokens: float
    """Sampled tokens of those episodes."""
    sampler_busy: float
    """Share of the time in which a replica had work, on average."""
    learner_busy: float
    waited_s: float
    """Seconds of a step in which the learner had nothing to learn from."""
    update_s: float
    staleness_mean: float
    """Updates that a token is old when it is learned from."""
    staleness_max: int
    started: int
    trained: int
    """Episodes, from the beginning; each is trained on once."""

    @property
    def step_s(self) -> float:
        """Seconds of a step."""
        return self.seconds / self.steps

    @property
    def episodes_per_s(self) -> float:
        """Episodes that were learned from."""
        return self.episodes / self.seconds


def simulate(fleet: Fleet, work: Work, *, steps: int = 6, seed: int = 0) -> Simulated:
    """So many steps of a run, after as many as its staleness and one."""
    return _Run(fleet, work, seed, warm=fleet.staleness + 1, steps=steps).result()


@dataclass(eq=False, slots=True)
class _Episode:
    step: int
    tokens: list[float]
    waits: list[float]
    replica: "_Replica | None" = None
    turn: int = 0
    context: float = 0.0
    aged: list[tuple[int, float]] = field(default_factory=list)
    """Version and tokens of each turn."""


@dataclass(eq=False, slots=True)
class _Step:
    left: int
    loads: Doubles
    episodes: list[_Episode]


class _Replica:
    """Rows that all get a token at a time; `made` counts the tokens of a row that was always in."""

    def __init__(self, run: "_Run", number: int) -> None:
        self._run, self._number, self._rates = run, number, run.fleet.sampler
        self._rows: list[tuple[float, int, _Episode]] = []
        self._waiting: deque[tuple[_Episode, float, float]] = deque()
        self._order = itertools.count()
        self._made = self._aim = self._context = self._debt = self._moved = 0.0
        self._token_s, self._ticket = self._rates.seconds(1, 0.0), 0
        self.busy_s = 0.0

    def ask(self, episode: _Episode, told: float, tokens: float) -> None:
        self._run.load[self._number] += 1
        self._move()
        self._waiting.append((episode, told, tokens))
        self._fill()

    def pause(self, seconds: float) -> None:
        self._move()
        self._debt += seconds
        self._plan()

    def _fill(self) -> None:
        while self._waiting and len(self._rows) < self._rates.most_rows:
            episode, told, tokens = self._waiting.popleft()
            self._debt += told * self._rates.told_s
            episode.context += told
            self._context += episode.context
            episode.aged.append((self._run.version, tokens))
            heapq.heappush(self._rows, (self._made + tokens, next(self._order), episode))
        self._plan()

    def _move(self) -> None:
        """Up to now."""
        elapsed, self._moved = self._run.now - self._moved, self._run.now
        if self._rows:
            self.busy_s += elapsed
        paid = min(self._debt, elapsed)
        self._debt -= paid
        if self._rows:
            made = (elapsed - paid) / self._token_s
            self._made += made
            self._context += made * len(self._rows)

    def _plan(self) -> None:
        """When to look again: a row is done, or contexts have grown."""
        self._ticket += 1
        if not self._rows:
            return
        self._token_s = self._rates.seconds(len(self._rows), self._context)
        ahead = max(0.0, min(self._rows[0][0] - self._made, LOOK_TOKENS))
        self._aim = self._made + ahead
        ticket = self._ticket
        self._run.at(self._debt + ahead * self._token_s, lambda: self._look(ticket))

    def _look(self, ticket: int) -> None:
        if ticket != self._ticket:
            return  # something else has happened since
        self._move()
        self._made = max(self._made, self._aim)  # seconds are rounded
        done: list[_Episode] = []
        while self._rows and self._rows[0][0] <= self._made + 1e-9:
            episode = heapq.heappop(self._rows)[2]
            episode.context += episode.tokens[episode.turn]
            self._context = max(0.0, self._context - episode.context)
            done.append(episode)
        self._run.load[self._number] -= len(done)
        self._fill()
        for episode in done:
            self._run.answer(episode)


class _Run:
    """The clock, and what is where."""

    def __init__(self, fleet: Fleet, work: Work, seed: int, *, warm: int, steps: int) -> None:
        self.fleet, self.work = fleet, work
        self._seed, self._warm, self._last = seed, warm, warm + steps
        self.now, self.version = 0.0, 0
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._order = itertools.count()
        self.load = np.zeros(fleet.replicas, np.int64)  # (replicas,)
        self._replicas = [_Replica(self, number) for number in range(fleet.replicas)]
        self._free = fleet.sessions or 1 << 60
        self._outside: deque[_Episode] = deque()
        self._steps: dict[int, _Step] = {}
        self._begun = self._done = self._trained = self._started = 0
        self._is_learning = False
        self._idle_from, self._waits, self._updates = 0.0, [0.0], [0.0]
        self._marks: list[tuple[float, float]] = []
        self._ages: list[tuple[int, float]] = []

    def at(self, delay: float, action: Callable[[], None]) -> None:
        heapq.heappush(self._events, (self.now + delay, next(self._order), action))

    def result(self) -> Simulated:
        self._begin_steps()
        while self._events and self._done < self._last:
            self.now, _, action = heapq.heappop(self._events)
            action()
        (start, busy), (end, busy_then) = self._marks[self._warm - 1], self._marks[self._last - 1]
        seconds, steps = float(end - start), self._last - self._warm
        learning = self._updates[1 + self._warm :]
        ages = np.array([age for age, _ in self._ages])
        weights = np.array([tokens for _, tokens in self._ages])
        return Simulated(
            steps=steps,
            seconds=seconds,
            episodes=steps * self.work.episodes,
            tokens=float(weights.sum()),
            sampler_busy=(busy_then - busy) / (seconds * self.fleet.replicas),
            learner_busy=sum(learning) / seconds,
            waited_s=float(np.mean(self._waits[1 + self._warm :])),
            update_s=float(np.mean(learning)),
            staleness_mean=float((ages * weights).sum() / weights.sum()),
            staleness_max=int(ages.max()),
            started=self._started,
            trained=self._trained,
        )

    def _begin_steps(self) -> None:
        """The episodes of the steps that may go on now."""
        while self._begun < min(self._last, self._done + 1 + self.fleet.staleness):
            tokens, waits = self.work.draw(self._seed, self._begun)  # (episodes, turns)
            episodes = [
                _Episode(self._begun, *pair)
                for pair in zip(tokens.tolist(), waits.tolist(), strict=True)
            ]
            told = self.work.prompt_tokens / self.work.group
            loads = tokens.sum(1) + self.work.turns * self.work.reply_tokens + told
            self._steps[self._begun] = _Step(len(episodes), loads, episodes)
            self._begun += 1
            self._outside.extend(episodes)
        self._open()

    def _open(self) -> None:
        while self._free and self._outside:
            self._free -= 1
            self._started += 1
            episode = self._outside.popleft()
            episode.replica = self._replicas[int(self.load.argmin())]
            shared = self.work.prompt_tokens / self.work.group
            episode.context = self.work.prompt_tokens - shared  # the group's, read already
            episode.replica.ask(episode, shared, episode.tokens[0])

    def answer(self, episode: _Episode) -> None:
        """The environment's turn."""
        self.at(episode.waits[episode.turn], lambda: self._go_on(episode))

    def _go_on(self, episode: _Episode) -> None:
        episode.turn += 1
        if episode.turn < self.work.turns:
            assert episode.replica is not None
            tokens = episode.tokens[episode.turn]
            episode.replica.ask(episode, self.work.reply_tokens, tokens)
            return
        self._free += 1
        self._steps[episode.step].left -= 1
        self._open()
        self._learn()

    def _learn(self) -> None:
        """Begin the next update, if its episodes are there."""
        step = self._steps.get(self._done)
        if self._is_learning or step is None or step.left:
            return
        self._is_learning = True
        seconds = self.fleet.learner.seconds(step.loads)
        self._waits.append(self.now - self._idle_from)
        self._updates.append(seconds)
        if self.fleet.is_shared:
            for replica in self._replicas:
                replica.pause(seconds)
        self.at(seconds + self.fleet.publish_s, self._publish)

    def _publish(self) -> None:
        step = self._steps.pop(self._done)
        self._trained += len(step.episodes)
        if self._done >= self._warm:
            for episode in step.episodes:
                self._ages += [(self._done - version, tokens) for version, tokens in episode.aged]
        self._done += 1
        self.version = self._done
        for replica in self._replicas:
            replica.pause(self.fleet.load_s)
        self._marks.append((self.now, sum(replica.busy_s for replica in self._replicas)))
        self._is_learning, self._idle_from = False, self.now
        self._begin_steps()
        self._learn()
