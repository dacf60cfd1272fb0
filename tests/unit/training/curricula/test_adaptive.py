"""The adaptive sampler over simulated groups."""

import json
import math
import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import count, pairwise

import pytest
from tests.unit.training.curricula.simulated_groups import (
    Learner,
    level_tasks,
    make_group,
    make_task,
)

from practicum.core.config.curriculum_config import AdaptiveConfig
from practicum.core.task import Task
from practicum.training.curricula.adaptive import AdaptivePicker
from practicum.training.curricula.measured_tasks import MeasuredTasks
from practicum.training.curricula.task_sources import (
    LevelStreams,
    LookAhead,
    TaskCatalogue,
    TaskSource,
)

SEEDS = range(5)
STEPS, TASKS = 60, 8


def few_tasks(seed: int, number: int = 100) -> Iterator[Task]:
    tasks = [make_task(str(n)) for n in range(number)]
    rng = random.Random(seed)
    while True:
        rng.shuffle(tasks)
        yield from tasks


def mixed_skills(seed: int) -> Iterator[Task]:
    rng = random.Random(seed)
    return (make_task(f"s{n}", skill=str(rng.randrange(10))) for n in count())


def by_skill(task: Task) -> str:
    return f"skill_{task.data['skill']}"


def of_skill(task: Task) -> str:
    return str(task.data["skill"])


def of_level(task: Task) -> str:
    return str(task.level)


def of_id(task: Task) -> str:
    return task.id


def adaptive(source: TaskSource, seed: int = 0, **options: float) -> MeasuredTasks:
    return MeasuredTasks(source, AdaptivePicker(AdaptiveConfig.model_validate(options), seed))


def mostly_flat(kinds: int) -> dict[str, float]:
    """Two fifths never solved, two fifths always, one fifth to be learned."""
    part = 2 * kinds // 5
    odds = [-math.inf] * part + [math.inf] * part + [-1.0] * (kinds - 2 * part)
    return {str(n): value for n, value in enumerate(odds)}


def learn(tasks: Callable[[int], list[Task]], observe: Callable, learner: Learner, of) -> Learner:
    for _ in range(STEPS):
        for task in tasks(TASKS):
            observe(learner.attempt(task, of(task)))
    return learner


def learned(learner: Learner) -> float:
    """Mean success over what can be learned."""
    return sum(learner.chance(k) for k, v in learner.skill.items() if math.isfinite(v)) / sum(
        math.isfinite(v) for v in learner.skill.values()
    )


def levels(of: Mapping[int, int]) -> LevelStreams:
    return LevelStreams({level: partial(level_tasks, level) for level in of})


CASES = {
    "levels": (lambda seed: levels(dict.fromkeys(range(10), 1)), of_level, 10),
    "skills": (lambda seed: LookAhead(partial(mixed_skills, seed), by_skill), of_skill, 10),
    "tasks": (lambda seed: TaskCatalogue(partial(few_tasks, seed)), of_id, 100),
}


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("case", CASES)
def test_four_fifths_flat_tasks_give_half_as_many_flat_groups_as_uniform_draws(
    case: str, seed: int
) -> None:
    make_source, of, kinds = CASES[case]
    curriculum = adaptive(make_source(seed), seed)
    skill = mostly_flat(kinds)
    chosen = learn(
        curriculum.next_tasks, curriculum.observe, Learner(seed, dict(skill), rate=0.02), of
    )
    source, rng = make_source(seed), random.Random(seed)

    def uniform(number: int) -> list[Task]:
        drawn = [source.take(rng.choice(source.buckets())) for _ in range(number)]
        return [one.task for one in drawn if one is not None]

    even = learn(uniform, lambda group: None, Learner(seed, dict(skill), rate=0.02), of)
    assert chosen.groups == even.groups == STEPS * TASKS
    assert even.flat / even.groups > 0.75
    assert 2 * chosen.flat <= even.flat
    assert learned(chosen) >= learned(even)
    metrics = curriculum.metrics()
    assert abs(metrics["uniform_flat_share"] - even.flat / even.groups) < 0.15


@pytest.mark.parametrize("seed", SEEDS)
def test_a_level_that_becomes_possible_is_found_and_learned(seed: int) -> None:
    """Levels open one after the other: level n + 1 is impossible until n is learned."""
    curriculum = adaptive(levels({1: 1, 2: 1, 3: 1, 4: 1}), seed)
    learner = Learner(seed, {"1": -1.0, "2": -20.0, "3": -20.0, "4": -20.0}, rate=0.08)
    for _ in range(150):
        for task in curriculum.next_tasks(TASKS):
            curriculum.observe(learner.attempt(task, str(task.level)))
            for level in (1, 2, 3):
                if learner.chance(str(level)) > 0.8 and learner.skill[str(level + 1)] == -20.0:
                    learner.skill[str(level + 1)] = -1.0
    assert all(learner.chance(str(level)) > 0.8 for level in (1, 2, 3, 4))


def test_no_bucket_waits_longer_than_its_turn_to_be_explored() -> None:
    curriculum = adaptive(levels(dict.fromkeys(range(1, 6), 1)), explore=0.1)
    drawn: list[int] = []
    for _ in range(400):
        (task,) = curriculum.next_tasks(1)
        drawn.append(task.level)
        # Only level 1 is ever worth anything.
        solved = [task.level == 1 and n % 2 == 0 for n in range(8)]
        curriculum.observe(make_group(task, solved))
    for level in range(1, 6):
        at = [-1, *(n for n, one in enumerate(drawn) if one == level), len(drawn)]
        assert max(b - a for a, b in pairwise(at)) <= 5 * 10
    assert Counter(drawn)[1] > 200


def test_a_forgotten_level_is_replayed_until_it_is_mastered_again() -> None:
    curriculum = adaptive(levels({1: 1, 2: 1}), min_episodes=16, replay=0.3)
    rng = random.Random(0)

    def play(groups: int, chance: float) -> Counter[int]:
        """Level 1 succeeds with this chance, and level 2 always has variance."""
        drawn: Counter[int] = Counter()
        for _ in range(groups):
            (task,) = curriculum.next_tasks(1)
            drawn[task.level] += 1
            even = [n % 2 == 0 for n in range(8)]
            curriculum.observe(
                make_group(task, even if task.level == 2 else [rng.random() < chance] * 8)
            )
        return drawn

    play(200, 1.0)
    assert (curriculum.metrics()["mastered"], curriculum.metrics()["forgotten"]) == (1, 0)
    before = play(200, 1.0)[1]
    play(300, 0.0)
    assert (curriculum.metrics()["mastered"], curriculum.metrics()["forgotten"]) == (0, 1)
    after = play(200, 0.0)[1]
    assert after >= 200 * 0.25 > before
    play(200, 1.0)
    assert (curriculum.metrics()["mastered"], curriculum.metrics()["forgotten"]) == (1, 0)


def run_on(curriculum: MeasuredTasks, learner: Learner, of, steps: int) -> list[str]:
    drawn = []
    for _ in range(steps):
        tasks = curriculum.next_tasks(3)
        drawn += [task.id for task in tasks]
        for task in tasks:
            curriculum.observe(learner.attempt(task, of(task)))
    return drawn


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("killed_at", [0, 1, 17, 40])
def test_a_resumed_curriculum_draws_what_an_uninterrupted_one_draws(
    case: str, killed_at: int
) -> None:
    make_source, of, kinds = CASES[case]
    whole, learner = adaptive(make_source(3), 3), Learner(3, mostly_flat(kinds))
    run_on(whole, learner, of, killed_at)
    saved, skills = json.dumps(whole.state()), dict(learner.skill)
    dice = learner.rng.getstate()
    expected = run_on(whole, learner, of, 25)
    resumed, again = adaptive(make_source(3), 3), Learner(3, skills)
    again.rng.setstate(dice)
    resumed.restore(json.loads(saved))
    assert json.dumps(resumed.state()) == saved
    assert run_on(resumed, again, of, 25) == expected
    assert json.dumps(resumed.state()) == json.dumps(whole.state())
    assert resumed.metrics() == whole.metrics()


def test_another_seed_draws_other_tasks() -> None:
    one, two = (
        run_on(adaptive(CASES["levels"][0](0), seed), Learner(0, mostly_flat(10)), of_level, 30)
        for seed in (0, 1)
    )
    assert one != two


def test_one_task_is_not_drawn_twice_into_a_step() -> None:
    curriculum = adaptive(TaskCatalogue(partial(few_tasks, 0, 6)))
    for _ in range(20):
        tasks = curriculum.next_tasks(6)
        assert len({task.id for task in tasks}) == 6
        for task in tasks:
            curriculum.observe(make_group(task, [task.id == "0", False]))


def test_more_than_ten_buckets_are_reported_by_the_ten_with_most_groups() -> None:
    curriculum = adaptive(TaskCatalogue(partial(few_tasks, 0)))
    run_on(curriculum, Learner(0, mostly_flat(100)), of_id, 60)
    metrics = curriculum.metrics()
    assert sum(key.startswith("mastery_") for key in metrics) == 10
    assert metrics["buckets"] == 100
    assert 0.0 < sum(v for k, v in metrics.items() if k.startswith("draws_")) <= 1.0


def test_while_nothing_is_solved_the_easiest_level_goes_first_and_then_the_next() -> None:
    """Every level pays something by chance; level 1 is solved half of the time later on."""
    source = levels({1: 1, 2: 1, 3: 1})
    curriculum = MeasuredTasks(source, AdaptivePicker(AdaptiveConfig(), 0, ordered=True))

    def play(groups: int, solved: dict[int, list[bool]]) -> Counter[int]:
        drawn: Counter[int] = Counter()
        for _ in range(groups):
            (task,) = curriculum.next_tasks(1)
            drawn[task.level] += 1
            pay = [0.1 * n for n in range(8)]
            curriculum.observe(make_group(task, solved.get(task.level, [False] * 8), pay))
        return drawn

    first = play(100, {})
    assert first[1] > 70
    assert min(first.values()) >= 5
    mixed = play(100, {1: [True, False] * 4})
    assert mixed[1] > 70
    later = play(200, {1: [True] * 8})
    assert later[2] > later[1] > later[3] > 5


def test_mastered_buckets_count_half() -> None:
    """Two levels of equal variance, of which one is mastered by its bound."""
    drawn: Counter[int] = Counter()
    for seed in SEEDS:
        source = levels({1: 1, 2: 1})
        curriculum = adaptive(source, seed, min_episodes=8, threshold=0.5, explore=0.01)
        for _ in range(400):
            (task,) = curriculum.next_tasks(1)
            drawn[task.level] += 1
            solved = [n != 0 if task.level == 1 else n == 0 for n in range(8)]
            curriculum.observe(make_group(task, solved))
        assert curriculum.metrics()["mastered"] == 1
    assert 1.7 < drawn[2] / drawn[1] < 2.5


def by_family(task: Task) -> str:
    return f"family_{task.data['family']}"


@pytest.mark.parametrize("seed", SEEDS)
def test_of_many_families_none_gets_half_of_the_draws(seed: int) -> None:
    """One always varies and is never learned, ten vary at times, and ten never do."""
    rng = random.Random(seed)
    stream = (make_task(f"t{n}", family=str(rng.randrange(21))) for n in count())
    curriculum = adaptive(LookAhead(lambda: stream, by_family), seed)
    drawn: Counter[int] = Counter()
    for _ in range(60):
        for task in curriculum.next_tasks(8):
            family = int(task.data["family"])
            drawn[family] += 1
            varies = family == 0 or (family <= 10 and rng.random() < 0.5)
            curriculum.observe(make_group(task, [varies and n % 2 == 0 for n in range(8)]))
    most, count_of_most = drawn.most_common(1)[0]
    assert most == 0
    assert 0.07 < count_of_most / 480 < 0.25
    middle = sum(drawn[n] for n in range(1, 11))
    assert middle > 3 * sum(drawn[n] for n in range(11, 21))


def test_a_family_whose_episodes_are_always_lost_is_not_what_a_run_is_spent_on() -> None:
    stream = (make_task(f"t{n}", family=str(n % 4)) for n in count())
    curriculum = adaptive(LookAhead(lambda: stream, by_family))
    drawn: Counter[str] = Counter()
    for _ in range(200):
        (task,) = curriculum.next_tasks(1)
        family = str(task.data["family"])
        drawn[family] += 1
        curriculum.observe(make_group(task, [] if family == "0" else [True, False] * 4))
    assert drawn["0"] < 200 * 0.15
