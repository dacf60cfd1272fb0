"""One episode of a case: what each action does, what it pays, and the evidence that is left."""

from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction

from practicum.core.interfaces import Observation
from practicum.core.sampling import ActionForm
from practicum.core.task import JSON, Outcome
from practicum.core.trace import Message
from practicum_envs.business import decision_scoring as scoring
from practicum_envs.business.business_case import Case
from practicum_envs.business.case_words import rules_of, statement_of
from practicum_envs.business.figure_syntax import NONE, Stated, figures_syntax, read_figures

STATEMENTS = ("identify_options", "evaluate_risks", "make_decision", "create_plan")
"""What is said once each, after what it rests on was looked at."""
LOOK = "analyze_situation"
FIGURES = 2
"""Of each option, before risks."""
LONGEST_TURN = 400
"""Characters; no action is as long."""


def action_forms(case: Case) -> tuple[ActionForm, ...]:
    """Every action of a case; all are listed at every turn, as some of them give the way away."""
    letters = [option.letter for option in case.options]
    risks = [risk.name for risk in case.risks]
    plan = list(case.plan(case.best))
    return (
        *(ActionForm(name=f"{LOOK} {item}") for item in case.looks),
        ActionForm(name="identify_options", argument=figures_syntax(letters, each=FIGURES)),
        ActionForm(name="evaluate_risks", argument=figures_syntax(risks, or_none=True)),
        *(ActionForm(name=f"make_decision {letter}") for letter in letters),
        ActionForm(
            name="create_plan",
            argument=figures_syntax(plan, every=True, first="".join(letters)),
        ),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Turn:
    pay: float
    said: str


@dataclass(slots=True, kw_only=True)
class _Work:
    """What was done on a case so far."""

    seen: set[str] = field(default_factory=set)
    wasted_looks: int = 0
    options: Stated | None = None
    risks: Stated | None = None
    decision: str | None = None
    plan: Stated | None = None
    plan_option: str | None = None


class BusinessSession:
    """One episode; implements `DiscreteSession`."""

    def __init__(self, case: Case, *, constrained: bool = True) -> None:
        self._case = case
        self._forms = action_forms(case) if constrained else ()
        self._work = _Work()
        self._turns: list[tuple[str, float]] = []
        self._is_open = True

    def prompt(self) -> list[Message]:
        """The rules, and the case without what is hidden."""
        return [
            Message(role="system", content=rules_of(self._case)),
            Message(role="user", content=statement_of(self._case)),
        ]

    def actions(self) -> tuple[ActionForm, ...]:
        """Every action at every turn; none with `actions: free`."""
        return self._forms

    async def act(self, text: str) -> Observation:
        """Carry out one action; one that does nothing costs a turn."""
        if not self._is_open or self._is_over:
            raise RuntimeError("the episode is over; open a new session for another one")
        turn = self._take(text)
        self._turns.append((text[:LONGEST_TURN], turn.pay))
        left = [name for name in STATEMENTS if not self._was_said(name)]
        said = turn.said if self._is_over else f"{turn.said}\nleft: {', '.join(left)}"
        return Observation(
            message=Message(role="user", content=said), reward=turn.pay, terminated=self._is_over
        )

    async def outcome(self) -> Outcome:
        """Success, the reward of each turn, and how good each part of the work is."""
        work, case = self._work, self._case
        decided = case.option(work.decision) if work.decision else None
        regret = case.regret(decided) if decided and decided.fits else None
        shares = self._shares()
        checks: list[JSON] = [{"ok": share == 1, "why": why} for why, share in shares.items()]
        evidence: dict[str, JSON] = {
            "family": case.family.name,
            "best": case.best.letter,
            "decision": work.decision,
            "regret": None if regret is None else float(regret),
            "is_feasible": None if decided is None else decided.fits,
            "seen": list[JSON](sorted(work.seen)),
            "wasted_looks": work.wasted_looks,
            "shares": {why: float(share) for why, share in shares.items()},
            "checks": checks,
            "actions": [text for text, _ in self._turns],
        }
        return Outcome(
            success=all(share == 1 for share in shares.values()),
            turn_rewards=tuple(pay for _, pay in self._turns),
            evidence=evidence,
        )

    def close(self) -> None:
        """Refuse further actions."""
        self._is_open = False

    @property
    def _is_over(self) -> bool:
        return self._work.plan is not None

    def _shares(self) -> dict[str, Fraction]:
        """How much of each part is right, by what it should be."""
        case, work = self._case, self._work
        letter = work.decision
        kept_to = letter is not None and work.plan_option == letter
        decided = Fraction(0) if letter is None else _is_best(case, letter)
        planned = Fraction(0)
        if letter is not None and kept_to:
            planned = scoring.plan_share(case, case.option(letter), work.plan or {})
        return {
            "the options within the limit, with their figures": (
                Fraction(0) if work.options is None else scoring.options_share(case, work.options)
            ),
            "the risks worth covering, with their losses": (
                Fraction(0) if work.risks is None else scoring.risks_share(case, work.risks)
            ),
            "the best option": decided,
            "the figures of the plan": planned,
        }

    def _was_said(self, name: str) -> bool:
        work = self._work
        said = {
            "identify_options": work.options is not None,
            "evaluate_risks": work.risks is not None,
            "make_decision": work.decision is not None,
            "create_plan": work.plan is not None,
        }
        return said[name]

    def _take(self, text: str) -> _Turn:
        name, _, argument = " ".join(text[: LONGEST_TURN + 1].split()).partition(" ")
        carry_out: dict[str, Callable[[str], _Turn]] = {
            LOOK: self._look,
            "identify_options": self._identify,
            "evaluate_risks": self._evaluate,
            "make_decision": self._decide,
            "create_plan": self._plan,
        }
        if len(text) > LONGEST_TURN or name not in carry_out:
            return _refused(f"write {LOOK}, {', '.join(STATEMENTS)}")
        if name != LOOK and self._was_said(name):
            return _refused(f"{name} was done before and stands")
        return carry_out[name](argument)

    def _look(self, item: str) -> _Turn:
        case, work = self._case, self._work
        if item not in case.looks:
            return _refused(f"the items are {', '.join(case.looks)}")
        pay = scoring.look_pay(case, item, frozenset(work.seen), work.wasted_looks)
        work.wasted_looks += pay < 0
        work.seen.add(item)
        return _Turn(pay=pay, said=f"{item} = {case.item(item)}")

    def _has_seen(self, *items: str) -> bool:
        """Whether those of the items that are hidden and needed were looked at."""
        return all(item in self._work.seen for item in items if item in self._case.needed)

    def _identify(self, argument: str) -> _Turn:
        case = self._case
        if not self._has_seen(case.family.hidden, case.family.limit.name):
            return _refused("the values or the limit rest on an item that was not looked at")
        letters = [option.letter for option in case.options]
        stated = read_figures(argument, letters, each=FIGURES)
        if stated is None:
            return _refused("write letters in order, each with both figures, such as A=3/9 C=2/7")
        self._work.options = stated
        pay = scoring.OPTIONS_PAY * float(scoring.options_share(case, stated))
        return _Turn(pay=pay, said=f"noted {argument}")

    def _evaluate(self, argument: str) -> _Turn:
        case = self._case
        if not self._has_seen(*(risk.chance_item for risk in case.risks)):
            return _refused("a risk rests on an item that was not looked at")
        names = [risk.name for risk in case.risks]
        stated = {} if argument == NONE else read_figures(argument, names)
        if stated is None:
            return _refused(f"write risks in order with losses, such as {names[0]}=4, or none")
        self._work.risks = stated
        pay = scoring.RISKS_PAY * float(scoring.risks_share(case, stated))
        return _Turn(pay=pay, said=f"noted {argument}")

    def _decide(self, letter: str) -> _Turn:
        case = self._case
        if not self._has_seen(*case.needed):
            return _refused("it rests on an item that was not looked at")
        if letter not in [option.letter for option in case.options]:
            return _refused("write the letter of an option, such as make_decision A")
        self._work.decision = letter
        share = scoring.decision_share(case, case.option(letter))
        return _Turn(pay=scoring.DECISION_PAY * float(share), said=f"decided {letter}")

    def _plan(self, argument: str) -> _Turn:
        case, work = self._case, self._work
        if work.decision is None:
            return _refused("decide first")
        first, _, rest = argument.partition(" ")
        letter = first.removeprefix("option=")
        stated = read_figures(rest, list(case.plan(case.best)), every=True)
        is_option = first.startswith("option=") and letter in [o.letter for o in case.options]
        if stated is None or not is_option:
            names = " ".join(f"{name}=1" for name in case.plan(case.best))
            return _refused(f"write create_plan option=A {names}")
        work.plan, work.plan_option = stated, letter
        decided = case.option(work.decision)
        if letter != work.decision:
            took_back = scoring.DECISION_PAY * float(scoring.decision_share(case, decided))
            said = f"the plan is for {letter}, the decision was {work.decision}"
            return _Turn(pay=scoring.WASTE - took_back, said=f"{said}\n{self._verdict()}")
        worth = scoring.plan_worth(case, decided, stated)
        return _Turn(pay=scoring.PLAN_PAY * float(worth), said=self._verdict())

    def _verdict(self) -> str:
        """What was right, for a person to read."""
        case, best = self._case, self._case.best
        figures = " ".join(f"{name}={number}" for name, number in case.plan(best).items())
        wrong = [why for why, share in self._shares().items() if share != 1]
        ending = "all is right" if not wrong else f"not right: {'; '.join(wrong)}"
        return f"{ending}\nbest: {best.letter} {figures}"


def _refused(reason: str) -> _Turn:
    return _Turn(pay=scoring.WASTE, said=f"not valid: {reason}")


def _is_best(case: Case, letter: str) -> Fraction:
    option = case.option(letter)
    return Fraction(option.fits and case.regret(option) == 0)
