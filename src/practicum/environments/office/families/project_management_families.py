"""Tasks of a project manager: boards, sprints, who does what."""

from dataclasses import replace

from practicum.environments.office.company_seed import (
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
from practicum.environments.office.evidence import Evidence
from practicum.environments.office.families import bash
from practicum.environments.office.families.family_parts import brief, must
from practicum.environments.office.generated_company import AREAS
from practicum.environments.office.office_plan import OfficePlan, Setting, family

ROLE = "a project assistant"
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


MOVE_A_CARD = brief(
    ROLE,
    "In the Plane project '{name}', move the issue '{value1}' to the state {state}. The other"
    " issues stay as they are. In the API an issue is changed by PATCH "
    "projects/PROJECT/issues/ISSUE/ with the id of the state; projects/, "
    "projects/PROJECT/issues/ and projects/PROJECT/states/ list the ids. `office plane GET "
    "projects/ '/results/name=NAME/id'` shows one id of a list.",
    where=("plane",),
)


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
        instruction=MOVE_A_CARD.format(name=name, value1=names[0], state=state),
        company=company,
        checkpoints=(
            must("the issue has the state", is_moved),
            must("the board is otherwise as it was", lambda seen: seen.cards_are(name, after)),
        ),
        reference=move(names[0], state),
        near_misses=(
            move(names[0], other),
            move(names[1], state),
            (*move(names[0], state), *move(names[1], other if before[1].state != other else state)),
        ),
    )


PLAN_A_SPRINT = brief(
    ROLE,
    "In the Plane project '{name}', put every issue that has the label {label} and the state "
    "Todo into the cycle '{sprint}', and no other issue. Issues may have more labels than "
    "one. Nothing else changes: states, labels and the other cycle stay as they are. In the "
    "API it is POST projects/PROJECT/cycles/CYCLE/cycle-issues/ with a list `issues` of ids.",
    where=("plane",),
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
    after = [replace(one, cycle=sprint) if n in chosen else one for n, one in enumerate(before)]
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
        instruction=PLAN_A_SPRINT.format(name=name, label=label, sprint=sprint),
        company=company,
        checkpoints=(
            must("the right issues are in the cycle, and no others", planned, 3),
            must("the board is otherwise as it was", lambda seen: seen.cards_are(name, after)),
        ),
        reference=plan(sprint, chosen),
        near_misses=(
            plan(sprint, [*chosen, 5]),
            plan(sprint, chosen[:2]),
            plan(f"{sprint}b", chosen),
        ),
    )


RAISE_WHAT_IS_LATE = brief(
    ROLE,
    "Today is {today}. In the Plane project '{name}', an issue is late when its target_date "
    "is before today and its state is neither Done nor Cancelled. Set the priority of every "
    "late issue to urgent. Issues that are due today, and issues without a target date, are "
    "not late. Change nothing else on the board. In the API it is PATCH "
    "projects/PROJECT/issues/ISSUE/ with the field priority.",
    where=("plane",),
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
    after = [replace(one, priority="urgent") if n < 2 else one for n, one in enumerate(before)]
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
        instruction=RAISE_WHAT_IS_LATE.format(today=today, name=name),
        company=company,
        checkpoints=(
            must(
                "a late issue is urgent, and only late ones are",
                lambda seen: bool(urgent(seen)) and urgent(seen) <= set(names[:2]),
            ),
            must("all late issues are urgent", lambda seen: urgent(seen) == set(names[:2]), 2),
            must("the board is otherwise as it was", lambda seen: seen.cards_are(name, after)),
        ),
        reference=raised([0, 1]),
        near_misses=(raised([0, 1, 2]), raised([0]), raised([0, 1, 4]), raised([0, 1], "high")),
    )


MIRROR_CLOSED_ISSUES = brief(
    ROLE,
    "The GitLab project {path} and the Plane project '{name}' have issues with the same "
    "titles. Bring Plane up to date: every issue of Plane whose issue in GitLab is closed "
    "goes to the state Done, except those that are Cancelled in Plane, which stay so. Titles "
    "must be exactly the same. Issues that are open in GitLab, or are not there, stay as they"
    " are in Plane, and nothing is changed in GitLab.",
    where=("gitlab", "plane"),
)


@family(level=3, domain="project management", services=("gitlab", "plane"), split="heldout")
def mirror_closed_issues(setting: Setting) -> OfficePlan:
    """Bring a board up to date with GitLab."""
    rng = setting.rng
    name, names = board_name(setting), card_names(setting, 6)
    path = f"root/{rng.choice(('shop', 'portal', 'desk'))}-{rng.randrange(2, 90)}"
    is_closed = [True, True, False, False, True, False]
    issues = [Issue(title=t, is_closed=c) for t, c in zip(names, is_closed, strict=True)]
    issues = rng.sample(issues, 6)
    states = ["Todo", "In Progress", "In Progress", "Todo", "Cancelled", "Done"]
    before = [BoardIssue(name=t, state=s) for t, s in zip(names, states, strict=True)]
    before += [BoardIssue(name=f"{names[0]} again", state="Todo")]
    after = [replace(one, state="Done") if n < 2 else one for n, one in enumerate(before)]
    company = setting.base + CompanySeed(
        boards=(Board(name=name, issues=tuple(rng.sample(before, 7))),),
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
        instruction=MIRROR_CLOSED_ISSUES.format(path=path, name=name),
        company=company,
        checkpoints=(
            must("what is closed in GitLab is done in Plane, and nothing else", finished, 2),
            must("the board is otherwise as it was", lambda seen: seen.cards_are(name, after)),
            must(
                "GitLab is as it was",
                lambda seen: finished(seen) == 2 and seen.issues_are(path, issues),
            ),
        ),
        reference=done(names[:2]),
        near_misses=(
            done([names[0], names[1], names[4]]),
            done([names[0], f"{names[0]} again"]),
            done(names[:1]),
        ),
    )


REPORT_A_SPRINT = brief(
    ROLE,
    "In the Plane project '{name}', count the issues of the cycle '{sprint}' by their state. "
    "Then post one message in the RocketChat channel #{channel} in this form, with your "
    "numbers: '{sprint}: 4 done, 2 in progress, 1 to do' (the states Done, In Progress and "
    "Todo). Issues of other cycles, or of none, do not count. The issues of a cycle are at "
    "projects/PROJECT/cycles/CYCLE/cycle-issues/.",
    where=("plane", "rocketchat"),
)


@family(level=3, domain="project management", services=("plane", "rocketchat"), split="train")
def report_a_sprint(setting: Setting) -> OfficePlan:
    """Count the issues of a sprint by state and tell a channel."""
    rng = setting.rng
    name, names = board_name(setting), card_names(setting, 12)
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
        instruction=REPORT_A_SPRINT.format(name=name, sprint=sprint, channel=channel),
        company=company,
        checkpoints=(
            must(
                "the number of done issues is right",
                lambda seen: [one.split(",")[0] for one in said(seen)] == [text.split(",")[0]],
            ),
            must("all numbers are right", lambda seen: text in said(seen), 2),
            must(
                "nothing else was said, the board is as it was",
                lambda seen: seen.said_only(f"#{channel}", text) and seen.cards_are(name, before),
            ),
        ),
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
                when=("take|do|time|can|could|work",),
                say=f"Yes, I take it and finish it by {day}.",
                needs=(task,),
                otherwise="Which issue do you mean? Please name it in full.",
            )
        ),
    )


FIND_WHO_TAKES_IT = brief(
    ROLE,
    "Nobody works on the issue '{task}' of the Plane project '{name}'. Ask {first.name} "
    "(@{first.username}) by direct message in RocketChat whether they can take it, and by "
    "when it would be done; name the issue in full. Whoever cannot may name someone else: ask"
    " that person then. When someone takes it, assign the issue to that person alone, set its"
    " target_date to the day they named, and move it to the state Todo.",
    where=("plane", "rocketchat"),
)


@family(level=4, domain="project management", services=("plane", "rocketchat"), split="train")
def find_who_takes_it(setting: Setting) -> OfficePlan:
    """Ask two people; the second takes the issue and says until when."""
    rng = setting.rng
    name, names = board_name(setting), card_names(setting, 4)
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
        boards=(Board(name=name, issues=tuple(rng.sample(before, 4))),),
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
        instruction=FIND_WHO_TAKES_IT.format(task=task, name=name, first=first),
        company=company,
        checkpoints=(
            must("the issue is assigned to who takes it", is_taken, 2),
            must("its target date is the one that was named", is_dated),
            must(
                "the board is otherwise as it was, nobody else was asked",
                lambda seen: seen.cards_are(name, after) and seen.asked_only(first, second),
            ),
        ),
        reference=(*steps, act),
        near_misses=(
            (*steps, act.replace(second.email, first.email)),
            (*steps, act.replace(f"target_date={day}", "target_date=2027-01-31")),
            (*steps, bash.post(f"@{third.username}", question), act),
        ),
    )
