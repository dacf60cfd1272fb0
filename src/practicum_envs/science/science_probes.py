"""Policies that want the pay without the work, to see what they earn, and conclusions just amiss.

Each takes a world and gives the turns of an episode. Some know what no policy can know, such as the
hidden law: what even they cannot earn, nobody can.
"""

from collections.abc import Callable, Mapping, Sequence
from itertools import islice

from practicum_envs.science.experimenter import formulate, work
from practicum_envs.science.laboratory import ANALYZE, CONCLUDE, DESIGN, FORMULATE, Laboratory
from practicum_envs.science.law_spaces import law_space
from practicum_envs.science.laws import NO_EFFECT, Effect, Law, law_text, setting_text
from practicum_envs.science.posterior import Posterior
from practicum_envs.science.worlds import Brief, World

Turns = tuple[str, ...]
MANY = 20
"""Turns of a policy that never ends."""


def _conclusion(brief: Brief, law: Law, percent: int) -> str:
    return f"{CONCLUDE} {law_text(law, brief.factors)} sure {percent}"


def _first_law(brief: Brief) -> Law:
    return law_space(brief.level).laws[1]


def certain_guess(world: World) -> Turns:
    """Guesses, and is certain."""
    return (_conclusion(world.brief, _first_law(world.brief), 99),)


def certain_of_nothing(world: World) -> Turns:
    """Says at once and for certain that nothing has an effect."""
    return (f"{CONCLUDE} {NO_EFFECT} sure 99",)


def hedged_guess(world: World) -> Turns:
    """Guesses at 50 %."""
    return (_conclusion(world.brief, _first_law(world.brief), 50),)


def modest_guess(world: World) -> Turns:
    """Says at once that nothing has an effect, no surer than it can be."""
    return (f"{CONCLUDE} {NO_EFFECT} sure 10",)


def lucky_guess(world: World) -> Turns:
    """Is certain of the hidden law without an experiment, as one guess of many would be."""
    return formulate(world.brief), _conclusion(world.brief, world.law, 99)


def believer(world: World) -> Turns:
    """Is certain of what the records say, or of anything where there are none."""
    return formulate(world.brief), _conclusion(world.brief, world.brief.beliefs().best, 99)


def _work(world: World) -> tuple[Turns, Posterior]:
    """The reference's turns up to its conclusion, and what they tell."""
    turns, readings = work(world)
    return turns, world.brief.beliefs(readings)


def _against(law: Law, beliefs: Posterior) -> Law:
    """A law that the data refute: the opposite of this one where there is one."""
    opposite = tuple(
        Effect(factors=one.factors, amount=-one.amount, above=one.above) for one in law
    )
    return opposite or beliefs.space.laws[1]


def denier(world: World) -> Turns:
    """Does all the work and says for certain what was clear to it before: nothing, or something."""
    turns, beliefs = _work(world)
    stated = () if beliefs.best else _first_law(world.brief)
    return (*turns, _conclusion(world.brief, stated, 99))


def contradiction(world: World) -> Turns:
    """Does all the work and is certain of the opposite of what it shows."""
    turns, beliefs = _work(world)
    return (*turns, _conclusion(world.brief, _against(beliefs.best, beliefs), 99))


def hedger(world: World) -> Turns:
    """Does all the work and says 50 %, whatever it shows."""
    turns, beliefs = _work(world)
    return (*turns, _conclusion(world.brief, beliefs.best, 50))


def coward(world: World) -> Turns:
    """Does all the work and disowns it."""
    turns, beliefs = _work(world)
    return (*turns, _conclusion(world.brief, beliefs.best, 1))


def safe_denial(world: World) -> Turns:
    """States what the data refute at 1 %, which is well calibrated and says nothing."""
    turns, beliefs = _work(world)
    return (*turns, _conclusion(world.brief, _against(beliefs.best, beliefs), 1))


def wrong_size(world: World) -> Turns:
    """Does all the work and is certain of another size of what it shows, the likeliest other."""
    turns, beliefs = _work(world)
    best, laws = beliefs.best, beliefs.space.laws
    near = [one for one in laws if one != best and _shape(one) == _shape(best)]
    return (*turns, _conclusion(world.brief, max(near or laws[1:2], key=beliefs.of), 99))


def _shape(law: Law) -> list[tuple[tuple[int, ...], int]]:
    return [(one.factors, one.above) for one in law]


def never_concludes(world: World) -> Turns:
    """Does all the work and says nothing."""
    return _work(world)[0]


def same_experiment(world: World) -> Turns:
    """Does its first experiment again and again, then is certain of what fits best."""
    return _certain_after(world, [_alone(0, 4)] * world.brief.rules.experiments)


def one_factor(world: World) -> Turns:
    """Spends all experiments on one factor, then is certain of what fits best."""
    values = (4, 2, 3, 1) * 3
    return _certain_after(
        world, [_alone(0, value) for value in values[: world.brief.rules.experiments]]
    )


def one_look(world: World) -> Turns:
    """Does one experiment, then is certain of what fits best."""
    return _certain_after(world, [_alone(0, 4)])


def _alone(factor: int, value: int) -> tuple[int, ...]:
    return tuple(value if one == factor else 0 for one in range(3))


def _certain_after(world: World, settings: Sequence[tuple[int, ...]]) -> Turns:
    laboratory = Laboratory(world)
    turns = [formulate(world.brief)]
    for setting in settings:
        turns.append(f"{DESIGN} {setting_text(setting, world.brief.factors)}")
        laboratory.act(turns[-1])
    best = world.brief.beliefs(laboratory.readings).best
    return (*turns, ANALYZE, _conclusion(world.brief, best, 99))


def every_law(world: World) -> Turns:
    """States one law after another, to see which one is liked."""
    laws = islice(law_space(world.brief.level).laws, MANY)
    return tuple(f"{FORMULATE} {law_text(law, world.brief.factors)}" for law in laws)


def two_certainties(world: World) -> Turns:
    """Is certain and doubtful at once, then switches from turn to turn."""
    law = law_text(world.law, world.brief.factors)
    both = (f"{CONCLUDE} {law} sure 99 sure 1", f"{CONCLUDE} {law} sure 1, {law} sure 99")
    return (formulate(world.brief), *both * 3, f"{CONCLUDE} {law} sure 99")


def looks_again(world: World) -> Turns:
    """Analyses the same data for ever."""
    turns = _work(world)[0]
    return (*turns, *[ANALYZE] * MANY)


Probe = Callable[[World], Turns]
PROBES: Mapping[str, Probe] = {
    one.__name__: one
    for one in (
        certain_guess,
        certain_of_nothing,
        hedged_guess,
        modest_guess,
        lucky_guess,
        believer,
        denier,
        contradiction,
        hedger,
        coward,
        safe_denial,
        wrong_size,
        never_concludes,
        same_experiment,
        one_factor,
        one_look,
        every_law,
        two_certainties,
        looks_again,
    )
}
"""All of them, by name."""

MAY_BE_RIGHT = {"same_experiment", "one_factor", "one_look"}
"""Those that know enough where chance put the law in front of them."""


def near_misses(world: World) -> list[Turns]:
    """The probes that must never succeed."""
    return [probe(world) for name, probe in PROBES.items() if name not in MAY_BE_RIGHT]
