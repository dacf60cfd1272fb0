"""Tasks of a project manager: boards, sprints, who does what."""

from dataclasses import replace

from practicum_envs.office.company_seed import (
    Board,
    BoardIssue,
    Colleague,
    CompanySeed,
    Cycle,
    Fact,
    Issue,
    Person,
    Project,
)
from practicum_envs.office.evidence import Evidence
from practicum_envs.office.families import allow, bash
from practicum_envs.office.families import project_management_wordings as words
from practicum_envs.office.families.family_parts import must
from practicum_envs.office.generated_company import AREAS
from practicum_envs.office.office_plan import OfficePlan, Setting, family

STATES = ("Backlog", "Todo", "In Progress", "Done", "Cancelled")
VERBS = ("Rework", "Test", "Document", "Speed up", "Translate", "Simplify", "Repair")


def card_names(setting: Setting, count: int) -> list[str]:
    """Different names of issues."""
    every = [f"{verb} {area}" for verb in VERBS for area in AREAS]
    return [f"{one} {setting.rng.randrange(2, 100)}" for one in setting.rng.sample(every, count)]


def board_name(setting: Setting) -> str:
    """The name of a board."""
    kinds = ("Website", "Mobile app", "Data platform", "Support desk", "Partner portal")
    return f"{setting.rng.choice(kinds)} {setting.rng.randrange(2, 60)}"


@family(level=1, domain="project management", services=("plane",), split="train")
def move_a_card(setting: Setting) -> OfficePlan:
    """Move an issue to another state."""
    rng = setting.rng
    name, names = board_name(setting), card_names(setting, 5)
    before = [BoardIssue(name=one, state=rng.choice(STATES[:3])) for one in names]
    state = rng.choice([one for one in STATES if one != before[0].state])
    other = rng.choice([one for one in STATES if one not in (state, before[0].state)])
    after = [replace(before[0], state=state), *before[1:]]
    company = setting.base + CompanySeed(boards=(Board(name=name, issues=tuple(before)),))

    def move(card: str, to: str) -> tuple[str, ...]:
        ids = (f"I={bash.plane_id('issues', card)}", f"S={bash.plane_id('states', to)}")
        return (bash.on_board(name, *ids, "office plane PATCH $P/issues/$I/ state=$S"),)

    def is_moved(seen: Evidence) -> bool:
        return after[0] in seen.cards(name)

    return OfficePlan(
        instruction=setting.told(words.MOVE_A_CARD, name=name, value1=names[0], state=state),
        company=company,
        checkpoints=(must("the issue has the state", is_moved),),
        allows=(allow.board(name, "issues", names[0], "state"),),
        reference=move(names[0], state),
        near_misses=(
            move(names[0], other),
            move(names[1], state),
            (*move(names[0], state), *move(names[1], other if before[1].state != other else state)),
        ),
    )


@family(level=2, domain="project management", services=("plane",), split="train")
def plan_a_sprint(setting: Setting) -> OfficePlan:
    """Put every issue with a label into a sprint."""
    rng = setting.rng
    name, names = board_name(setting), card_names(setting, 7)
    label, other = rng.sample(("customer", "security", "design", "cleanup"), 2)
    marks = [(label,), (label, other), (label,), (other,), (), (label,), (other,)]
    states = ["Todo", "Todo", "Todo", "Todo", "Todo", "Done", "Backlog"]
    before = [
        BoardIssue(name=one, labels=mark, state=state)
        for one, mark, state in zip(names, marks, states, strict=True)
    ]
    sprint = f"Sprint {rng.randrange(10, 90)}"
    chosen = [0, 1, 2]
    shown = rng.sample(before, 7)
    company = setting.base + CompanySeed(
        boards=(
            Board(
                name=name,
                labels=(label, other),
                cycles=(
                    Cycle(name=sprint, start_date="2026-03-09", end_date="2026-03-20"),
                    Cycle(name=f"{sprint}b", start_date="2026-03-23", end_date="2026-04-03"),
                ),
                issues=tuple(shown),
            ),
        )
    )
    look = bash.on_board(
        name,
        f"L={bash.plane_id('labels', label)}; S={bash.plane_id('states', 'Todo')}",
        "office plane GET $P/issues/ labels=$L state=$S | grep '\"name\"'",
    )

    def plan(cycle: str, picked: list[int]) -> tuple[str, ...]:
        lines = [
            f"I={bash.plane_id('issues', names[n])}\n"
            'office plane POST $P/cycles/$C/cycle-issues/ "issues:=[\\"$I\\"]"'
            for n in picked
        ]
        return (look, bash.on_board(name, f"C={bash.plane_id('cycles', cycle)}", *lines))

    def planned(seen: Evidence) -> int:
        inside = {one.name for one in seen.cards(name) if one.cycle == sprint}
        return len(inside) if inside <= set(names[:3]) else 0

    return OfficePlan(
        instruction=setting.told(words.PLAN_A_SPRINT, name=name, label=label, sprint=sprint),
        company=company,
        checkpoints=(must("the right issues are in the cycle, and no others", planned, 3),),
        allows=(allow.board(name, "cycles", sprint, "issues"),),
        reference=plan(sprint, chosen),
        near_misses=(
            plan(sprint, [*chosen, 5]),
            plan(sprint, chosen[:2]),
            plan(f"{sprint}b", chosen),
        ),
    )


@family(level=2, domain="project management", services=("plane",), split="train")
def raise_what_is_late(setting: Setting) -> OfficePlan:
    """Make late issues urgent."""
    rng = setting.rng
    name, names = board_name(setting), card_names(setting, 7)
    month = rng.randrange(2, 12)
    today = f"2026-{month:02d}-15"
    early, late = f"2026-{month - 1:02d}-{rng.randrange(10, 28)}", f"2026-{month + 1:02d}-03"
    dates = [early, f"2026-{month:02d}-14", today, late, early, None, early]
    states = ["Todo", "In Progress", "Todo", "Todo", "Done", "Backlog", "Cancelled"]
    before = [
        BoardIssue(name=one, target_date=day, state=state, priority=rng.choice(("low", "medium")))
        for one, day, state in zip(names, dates, states, strict=True)
    ]
    company = setting.base + CompanySeed(
        boards=(Board(name=name, issues=tuple(rng.sample(before, 7))),)
    )
    look = bash.on_board(
        name,
        'office plane GET $P/states/ | grep \'"name"\\|"id"\'',
        'office plane GET $P/issues/ | grep \'"name"\\|"target_date"\\|"state"\'',
    )

    def raised(picked: list[int], priority: str = "urgent") -> tuple[str, ...]:
        lines = [
            f"office plane PATCH $P/issues/{bash.plane_id('issues', names[n])}/ priority={priority}"
            for n in picked
        ]
        return (look, bash.on_board(name, *lines))

    def urgent(seen: Evidence) -> set[str]:
        return {one.name for one in seen.cards(name) if one.priority == "urgent"}

    return OfficePlan(
        instruction=setting.told(words.RAISE_WHAT_IS_LATE, today=today, name=name),
        company=company,
        checkpoints=(
            must(
                "a late issue is urgent, and only late ones are",
                lambda seen: bool(urgent(seen)) and urgent(seen) <= set(names[:2]),
            ),
            must("all late issues are urgent", lambda seen: urgent(seen) == set(names[:2]), 2),
        ),
        allows=tuple(allow.board(name, "issues", one, "priority") for one in names[:2]),
        reference=raised([0, 1]),
        near_misses=(raised([0, 1, 2]), raised([0]), raised([0, 1, 4]), raised([0, 1], "high")),
    )


@family(level=3, domain="project management", services=("gitlab", "plane"), split="heldout")
def mirror_closed_issues(setting: Setting) -> OfficePlan:
    """Bring a board up to date with GitLab."""
    rng = setting.rng
    name, names = board_name(setting), card_names(setting, 16)
    path = f"root/{rng.choice(('shop', 'portal', 'desk'))}-{rng.randrange(2, 90)}"
    is_closed = [True, True, False, False, True, False, *[False] * 6, *[True] * 4]
    issues = [Issue(title=t, is_closed=c) for t, c in zip(names, is_closed, strict=True)]
    issues = rng.sample(issues, 16)
    states = ["Todo", "In Progress", "In Progress", "Todo", "Cancelled", "Done"]
    states += [rng.choice(STATES[:3]) for _ in range(6)]
    before = [BoardIssue(name=t, state=s) for t, s in zip(names, states, strict=False)]
    before += [BoardIssue(name=f"{names[0]} again", state="Todo")]
    company = setting.base + CompanySeed(
        boards=(Board(name=name, issues=tuple(rng.sample(before, 13))),),
        projects=(Project(path=path, files={"README.md": "# Code\n"}, issues=tuple(issues)),),
    )
    look = (
        f"office gitlab GET projects/{path.replace('/', '%2F')}/issues state=closed | "
        "grep '\"title\"'\n"
        + bash.on_board(name, 'office plane GET $P/issues/ | grep \'"name"\\|"state"\'')
    )

    def done(picked: list[str]) -> tuple[str, ...]:
        lines = [
            f"office plane PATCH $P/issues/{bash.plane_id('issues', one)}/ state=$S"
            for one in picked
        ]
        return (look, bash.on_board(name, f"S={bash.plane_id('states', 'Done')}", *lines))

    def finished(seen: Evidence) -> int:
        states = {one.name: one.state for one in seen.cards(name)}
        good = sum(states.get(one) == "Done" for one in names[:2])
        wrong = sum(states.get(one.name) == "Done" for one in before[2:] if one.state != "Done")
        return good if not wrong else 0

    return OfficePlan(
        instruction=setting.told(words.MIRROR_CLOSED_ISSUES, path=path, name=name),
        company=company,
        checkpoints=(
            must("what is closed in GitLab is done in Plane, and nothing else", finished, 2),
        ),
        allows=tuple(allow.board(name, "issues", one, "state") for one in names[:2]),
        reference=done(names[:2]),
        near_misses=(
            done([names[0], names[1], names[4]]),
            done([names[0], f"{names[0]} again"]),
            done(names[:1]),
        ),
    )


@family(level=3, domain="project management", services=("plane", "rocketchat"), split="train")
def report_a_sprint(setting: Setting) -> OfficePlan:
    """Count the issues of a sprint by state and tell a channel."""
    rng = setting.rng
    name, names = board_name(setting), card_names(setting, 30)
    sprint, other = f"Sprint {rng.randrange(10, 90)}", "Sprint 9"
    cycles = (sprint, sprint, other, "")
    before = [
        BoardIssue(name=one, cycle=rng.choice(cycles), state=rng.choice(STATES[1:4]))
        for one in names
    ]
    before[0] = replace(before[0], cycle=sprint, state="Done")
    before[1] = replace(before[1], cycle=other, state="Done")
    sprints = (
        Cycle(name=other, start_date="2026-02-09", end_date="2026-02-20"),
        Cycle(name=sprint, start_date="2026-02-23", end_date="2026-03-06"),
    )
    board = Board(name=name, cycles=sprints, issues=tuple(before))
    company = setting.base + CompanySeed(boards=(board,))
    channel, wrong = rng.sample([one.name for one in setting.base.channels], 2)

    def report(of: list[BoardIssue]) -> str:
        found = [one.state for one in of]
        done, going = found.count("Done"), found.count("In Progress")
        return f"{sprint}: {done} done, {going} in progress, {found.count('Todo')} to do"

    text = report([one for one in before if one.cycle == sprint])
    look = bash.on_board(
        name,
        f"C={bash.plane_id('cycles', sprint)}",
        'office plane GET $P/states/ | grep \'"name"\\|"id"\'',
        "office plane GET $P/cycles/$C/cycle-issues/ | grep '\"state\"' | sort | uniq -c",
    )

    def said(seen: Evidence) -> list[str]:
        return seen.spoken().get(f"#{channel}", [])

    return OfficePlan(
        instruction=setting.told(words.REPORT_A_SPRINT, name=name, sprint=sprint, channel=channel),
        company=company,
        checkpoints=(
            must(
                "the number of done issues is right",
                lambda seen: [one.split(",")[0] for one in said(seen)] == [text.split(",")[0]],
            ),
            must("all numbers are right", lambda seen: text in said(seen), 2),
        ),
        allows=(allow.post(f"#{channel}"),),
        reference=(look, bash.post(f"#{channel}", text)),
        near_misses=(
            (look, bash.post(f"#{channel}", report(before))),
            (look, bash.post(f"#{wrong}", text)),
            (look, bash.post(f"#{channel}", text), bash.post(f"#{wrong}", text)),
        ),
    )


def colleagues_of_find_who_takes_it(
    first: Person, second: Person, task: str, day: str
) -> tuple[Colleague, ...]:
    """Who knows what."""
    return (
        first.knows(greeting="I have no time for that.", sends_to=second),
        second.knows(
            Fact(
                when=("take|do|time|can|could|work|look after|assign",),
                say=f"Yes, I take it and finish it by {day}.",
                needs=(task,),
                otherwise="Which issue do you mean? Please name it in full.",
            )
        ),
    )


@family(level=4, domain="project management", services=("plane", "rocketchat"), split="train")
def find_who_takes_it(setting: Setting) -> OfficePlan:
    """Ask two people; the second takes the issue and says until when."""
    rng = setting.rng
    name, names = board_name(setting), card_names(setting, 15)
    first, second, third = setting.people(3)
    day = setting.date()
    before = [BoardIssue(name=one, state="Backlog") for one in names]
    before[1] = replace(before[1], assignees=(third.username,))
    after = [
        replace(before[0], assignees=(second.username,), target_date=day, state="Todo"),
        *before[1:],
    ]
    task = names[0]
    company = setting.base + CompanySeed(
        boards=(Board(name=name, issues=tuple(rng.sample(before, 15))),),
        colleagues=colleagues_of_find_who_takes_it(first, second, task, day),
    )
    question = f"Can you take the issue '{task}'? By when would it be done?"
    steps = (*bash.ask((first, question), (second, question)), bash.PLANE_PEOPLE)
    act = bash.on_board(
        name,
        f"U={bash.plane_user(second)}",
        f"I={bash.plane_id('issues', task)}; S={bash.plane_id('states', 'Todo')}",
        f'office plane PATCH $P/issues/$I/ state=$S target_date={day} "assignees:=[\\"$U\\"]"',
    )

    def found(seen: Evidence) -> list[BoardIssue]:
        return [one for one in seen.cards(name) if one.name == task]

    def is_taken(seen: Evidence) -> bool:
        return [one.assignees for one in found(seen)] == [(second.username,)]

    def is_dated(seen: Evidence) -> bool:
        return [one.target_date for one in found(seen)] == [day]

    return OfficePlan(
        instruction=setting.told(words.FIND_WHO_TAKES_IT, task=task, name=name, first=first),
        company=company,
        checkpoints=(
            must("the issue is assigned to who takes it", is_taken, 2),
            must("its target date is the one that was named", is_dated),
            must(
                "its state is Todo",
                lambda seen: after[0] in seen.cards(name),
            ),
        ),
        allows=(
            *allow.talk(first, second),
            *(
                allow.board(name, "issues", task, one)
                for one in ("assignees", "target_date", "state")
            ),
        ),
        reference=(*steps, act),
        near_misses=(
            (*steps, act.replace(second.email, first.email)),
            (*steps, act.replace(f"target_date={day}", "target_date=2027-01-31")),
            (*steps, bash.post("#general", question), act),
        ),
    )
