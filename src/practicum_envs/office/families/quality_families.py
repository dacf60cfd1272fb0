"""Tasks of quality assurance: tests, reports, checksums, incidents."""

import hashlib
from random import Random

from practicum_envs.office.company_seed import (
    Board,
    BoardIssue,
    Channel,
    Colleague,
    CompanySeed,
    Fact,
    Issue,
    Person,
    Post,
    Project,
)
from practicum_envs.office.evidence import Evidence, project_route
from practicum_envs.office.families import allow, bash
from practicum_envs.office.families import quality_wordings as words
from practicum_envs.office.families.family_parts import edited, must
from practicum_envs.office.generated_company import AREAS
from practicum_envs.office.office_plan import OfficePlan, Setting, family


@family(level=1, domain="quality", services=("gitlab",), split="heldout")
def comment_on_an_issue(setting: Setting) -> OfficePlan:
    """Write a test result under an issue."""
    rng = setting.rng
    path = f"root/{rng.choice(('shop', 'portal', 'desk', 'mobile'))}-{rng.randrange(2, 90)}"
    before = [Issue(title=f"Test {area}") for area in rng.sample(AREAS, 4)]
    number = rng.randrange(1, 5)
    text = (
        f"{rng.choice(('Passed', 'Failed'))} on build {rng.randrange(1000, 9999)} in "
        f"{rng.randrange(2, 90)} seconds."
    )
    company = setting.base + CompanySeed(
        projects=(Project(path=path, files={"README.md": "# Code\n"}, issues=tuple(before)),)
    )
    route = f"{project_route(path)}/issues"

    def say(iid: int, what: str) -> tuple[str, ...]:
        return (f"office gitlab POST {route}/{iid}/notes body={bash.q(what)}",)

    def is_said(seen: Evidence) -> bool:
        return seen.notes(path, "issues", number) == [text]

    return OfficePlan(
        instruction=setting.told(
            words.COMMENT_ON_AN_ISSUE,
            number=number,
            path=path,
            text=text,
            id=path.replace("/", "%2F"),
        ),
        company=company,
        checkpoints=(must("the issue has the comment, once", is_said),),
        allows=(allow.new(allow.project(path, "issues", str(number), "notes")),),
        reference=say(number, text),
        near_misses=(
            say(number % 4 + 1, text),
            say(number, text.replace("build", "version")),
            (*say(number, text), *say(number % 4 + 1, text)),
        ),
    )


def tests_of_limits(rng: Random, names: list[str], failing: list[str]) -> dict[str, str]:
    """A module and its tests, some of which fail."""
    lines = ["import unittest", "from limits import LIMITS", "", ""]
    lines += ["class Tests(unittest.TestCase):"]
    limits = {}
    for name in names:
        value = rng.randrange(10, 500)
        limits[name] = value + (rng.choice((-2, -1, 1, 3)) if name in failing else 0)
        check = f"        self.assertEqual(LIMITS['{name}'], {value})"
        lines += [f"    def {name}(self):", check, ""]
    return {"limits.py": f"LIMITS = {limits!r}\n", "test_limits.py": "\n".join(lines)}


@family(level=2, domain="quality", services=("gitlab",), split="train")
def report_failing_tests(setting: Setting) -> OfficePlan:
    """Run the tests of a project and open an issue for each that fails."""
    rng = setting.rng
    path = f"root/{rng.choice(('shop', 'portal', 'desk', 'mobile'))}-{rng.randrange(2, 90)}"
    names = [f"test_{area}_{rng.randrange(10, 100)}" for area in rng.sample(AREAS, 6)]
    failing = sorted(rng.sample(names, 2))
    files = {"README.md": "# Limits\n", **tests_of_limits(rng, names, failing)}
    old = Issue(title="Set up continuous integration")
    company = setting.base + CompanySeed(
        projects=(Project(path=path, files=files, issues=(old,), labels={"bug": "#d9534f"}),)
    )
    wanted = [Issue(title=f"Failing: {name}", labels=("bug",)) for name in failing]
    look = (
        f"git clone -q http://root:theagentcompany@the-agent-company.com:8929/{path}.git repo\n"
        "cd repo\npython3 -m unittest 2>&1 | grep ^FAIL"
    )

    def report(of: list[str], label: str = "bug") -> tuple[str, ...]:
        route = f"office gitlab POST {project_route(path)}/issues"
        return (
            look,
            "\n".join(f"{route} title={bash.q(f'Failing: {one}')} labels={label}" for one in of),
        )

    def titles(seen: Evidence) -> set[str]:
        return {one.title for one in seen.issues(path)} - {old.title}

    good = {one.title for one in wanted}
    other = next(name for name in names if name not in failing)
    return OfficePlan(
        instruction=setting.told(words.REPORT_FAILING_TESTS, path=path),
        company=company,
        checkpoints=(
            must(
                "there is an issue for a failing test, and for no other",
                lambda seen: bool(titles(seen)) and titles(seen) <= good,
            ),
            must("every failing test has its issue", lambda seen: titles(seen) == good, 2),
            must(
                "labels are right, and there is no other issue",
                lambda seen: seen.issues_are(path, [old, *wanted]),
            ),
        ),
        allows=(allow.new_issue(path, most=len(failing)),),
        reference=report(failing),
        near_misses=(
            report(failing[:1]),
            report([*failing, other]),
            report(failing, "test"),
            report([*failing, failing[0]]),
        ),
    )


SUM_UP_A_TEST_REPORT_SOLUTION = """
import json
from xml.etree import ElementTree
cases = list(ElementTree.parse("junit.xml").iter("testcase"))
has = lambda *kinds: sum(any(c.find(k) is not None for k in kinds) for c in cases)
found = {"tests": len(cases), "failed": has("failure", "error"), "skipped": has("skipped")}
found["slowest"] = max(cases, key=lambda c: float(c.get("time"))).get("name")
json.dump(found, open("summary.json", "w"))
"""


@family(level=2, domain="quality", services=("owncloud",), split="train")
def sum_up_a_test_report(setting: Setting) -> OfficePlan:
    """Count the results of a JUnit file."""
    rng = setting.rng
    times = rng.sample(range(5, 9000), 14)
    kinds = [rng.choice(("passed", "passed", "failure", "skipped", "error")) for _ in times]
    kinds[:3] = ["failure", "skipped", "passed"]
    cases = []
    for n, (time, kind) in enumerate(zip(times, kinds, strict=True)):
        name = f"test_{rng.choice(AREAS)}_{n}"
        inner = "" if kind == "passed" else f"<{kind} message='m{rng.randrange(100)}'/>"
        cases.append(f"  <testcase name='{name}' time='{time / 1000:.3f}'>{inner}</testcase>")
    text = "<testsuite name='all'>\n" + "\n".join(cases) + "\n</testsuite>\n"
    slowest = cases[times.index(max(times))].split("'")[1]
    build = rng.randrange(100, 10_000)
    path, target = f"Builds/{build}/junit.xml", f"Builds/{build}/summary.json"
    company = setting.base + CompanySeed(files={path: text})
    wanted = {
        "tests": len(kinds),
        "failed": kinds.count("failure") + kinds.count("error"),
        "skipped": kinds.count("skipped"),
        "slowest": slowest,
    }
    reference = (
        bash.fetch(path) + "\nhead -4 junit.xml",
        bash.make(SUM_UP_A_TEST_REPORT_SOLUTION, "summary.json", target),
    )

    def found(seen: Evidence) -> dict[str, object]:
        return seen.json_object(target)

    return OfficePlan(
        instruction=setting.told(words.SUM_UP_A_TEST_REPORT, path=path, target=target),
        company=company,
        checkpoints=(
            must(
                "the counts are right",
                lambda seen: all(
                    found(seen).get(k) == wanted[k] for k in ("tests", "failed", "skipped")
                ),
                2,
            ),
            must("the slowest test is right", lambda seen: found(seen).get("slowest") == slowest),
            must(
                "the summary has nothing else",
                lambda seen: found(seen) == wanted,
            ),
        ),
        allows=allow.file(target),
        reference=reference,
        near_misses=(
            edited(reference, ('has("failure", "error")', 'has("failure", "skipped")'))
            if kinds.count("error") != kinds.count("skipped")
            else edited(reference, ('has("failure", "error")', "0")),
            edited(reference, ("= max(cases", "= min(cases")),
            edited(reference, ("len(cases)", "len(cases) - 1")),
        ),
    )


@family(level=2, domain="quality", services=("owncloud",), split="train")
def verify_checksums(setting: Setting) -> OfficePlan:
    """Find files that are damaged or missing."""
    rng = setting.rng
    names = [f"{area}-{rng.randrange(10, 100)}.bin" for area in rng.sample(AREAS, 7)]
    content = {name: rng.randbytes(rng.randrange(20, 200)) for name in names}
    broken = sorted(rng.sample(names, 3))
    missing = rng.choice(broken)
    sums = [f"{hashlib.sha256(content[one]).hexdigest()}  {one}\n" for one in names]
    folder = f"Release/{rng.randrange(1, 9)}.{rng.randrange(100)}"
    files: dict[str, str | bytes] = {f"{folder}/SHA256SUMS": "".join(sums)}
    for name in names:
        if name != missing:
            files[f"{folder}/{name}"] = (
                content[name][:-1] + b"?" if name in broken else content[name]
            )
    company = setting.base + CompanySeed(files=files)
    target = f"{folder}/broken.txt"
    get = (
        f'office files list {folder} | while read f; do office files get "$f"; done\n'
        "sha256sum -c SHA256SUMS 2>/dev/null"
    )
    reference = (
        get,
        "sha256sum -c SHA256SUMS 2>/dev/null | grep FAILED | cut -d: -f1 | sort > broken.txt\n"
        + bash.put("broken.txt", target),
    )

    def found(seen: Evidence) -> list[str]:
        return seen.text(target).splitlines()

    return OfficePlan(
        instruction=setting.told(words.VERIFY_CHECKSUMS, folder=folder, target=target),
        company=company,
        checkpoints=(
            must(
                "the damaged files are listed, and no sound one",
                lambda seen: {*found(seen), missing} == {*broken},
            ),
            must("the list is right", lambda seen: found(seen) == broken, 2),
        ),
        allows=allow.file(target),
        reference=reference,
        near_misses=(
            edited(reference, ("| cut -d: -f1", f"| cut -d: -f1 | grep -v {missing}")),
            edited(reference, ("grep FAILED", "grep OK")),
            edited(reference, ("| sort >", "| sort -r >")),
        ),
    )


ALERTS = ("critical", "critical", "warning", "critical", *("warning", "critical") * 4)


def alert_posts(rng: Random, numbers: list[int], areas: list[str]) -> list[str]:
    """Alerts in any order, and then that all critical ones but the first are over."""
    places = (*areas, *areas[: len(ALERTS) - len(areas)])
    posts = [f"ALERT {n} {kind} {at}" for n, kind, at in zip(numbers, ALERTS, places, strict=True)]
    over = [n for n, kind in zip(numbers[1:], ALERTS[1:], strict=True) if kind == "critical"]
    return [*rng.sample(posts, len(posts)), *(f"RESOLVED {n}" for n in rng.sample(over, len(over)))]


@family(level=3, domain="quality", services=("rocketchat", "plane"), split="heldout")
def escalate_an_incident(setting: Setting) -> OfficePlan:
    """Open an urgent issue for the alert that is still open, for whoever is on call."""
    rng = setting.rng
    bot, on_call, other = setting.people(3)
    areas, numbers = rng.sample(AREAS, 8), rng.sample(range(1000, 10_000), 12)
    place = f"Operations {rng.randrange(2, 90)}"
    said = alert_posts(rng, numbers, areas)
    channel = rng.choice(("alerts", "incidents", "on-call"))
    before = [BoardIssue(name=f"Incident {rng.randrange(100, 999)}: {areas[0]}", state="Done")]
    company = setting.base + CompanySeed(
        channels=(
            Channel(
                name=channel,
                members=(bot.username, on_call.username),
                topic=f"On call this week: {on_call.username}",
                posts=tuple(Post(sender=bot.username, text=one) for one in said),
            ),
        ),
        boards=(Board(name=place, issues=tuple(before)),),
    )
    name = f"Incident {numbers[0]}: {areas[0]}"
    card = BoardIssue(name=name, priority="urgent", assignees=(on_call.username,))
    look = (
        f"office rocketchat GET channels.info roomName={channel} /channel/topic\n"
        f"office rocketchat GET channels.messages roomName={channel} count=0 | grep '\"msg\"'\n"
        f"{bash.PLANE_PEOPLE}"
    )
    line = (
        f'office plane POST $P/issues/ name={bash.q(name)} priority=urgent "assignees:=[\\"$U\\"]"'
    )
    reference = (look, bash.on_board(place, f"U={bash.plane_user(on_call)}", line))

    def made(seen: Evidence) -> list[BoardIssue]:
        return [one for one in seen.cards(place) if one not in before]

    return OfficePlan(
        instruction=setting.told(words.ESCALATE_AN_INCIDENT, channel=channel, board=place),
        company=company,
        checkpoints=(
            must(
                "there is one new issue with the right name",
                lambda seen: [one.name for one in made(seen)] == [name],
            ),
            must("it is urgent and for the person on call", lambda seen: made(seen) == [card], 2),
        ),
        allows=(allow.new(allow.board(place, "issues", "*"), comments=[], links=[]),),
        reference=reference,
        near_misses=(
            edited(reference, (name, f"Incident {numbers[1]}: {areas[1]}")),
            edited(reference, (on_call.email, other.email)),
            edited(reference, ("priority=urgent", "priority=high")),
        ),
    )


def colleagues_of_reproduce_a_bug(
    reporter: Person, developer: Person, code: str, version: str, fix: str
) -> tuple[Colleague, ...]:
    """Who knows what."""
    return (
        reporter.knows(
            Fact(when=("version",), say=f"I use version {version}."),
            Fact(when=("error|code|message",), say=f"It shows the error {code}."),
            sends_to=developer,
        ),
        developer.knows(
            Fact(
                when=("fix|fixed|when|date|due|by",),
                say=f"I can fix {code} by {fix}.",
                needs=(code,),
                otherwise="Give me the error code first.",
            )
        ),
    )


@family(level=4, domain="quality", services=("rocketchat", "gitlab"), split="train")
def reproduce_a_bug(setting: Setting) -> OfficePlan:
    """Ask the reporter and the developer, and write a complete issue."""
    rng = setting.rng
    reporter, developer, third = setting.people(3)
    path = f"root/{rng.choice(('shop', 'portal', 'desk', 'mobile'))}-{rng.randrange(2, 90)}"
    area = rng.choice(AREAS)
    version = f"{rng.randrange(1, 9)}.{rng.randrange(30)}.{rng.randrange(30)}"
    code, fix = f"E{rng.randrange(1000, 10_000)}", setting.date()
    title = f"{area.capitalize()} fails since {rng.choice(('Monday', 'Tuesday', 'Friday'))}"
    older = tuple(Issue(title=f"Check {one}", is_closed=n % 2 == 0) for n, one in enumerate(AREAS))
    company = setting.base + CompanySeed(
        projects=(Project(path=path, files={"README.md": "# Code\n"}, issues=older),),
        colleagues=colleagues_of_reproduce_a_bug(reporter, developer, code, version, fix),
    )
    steps = bash.ask(
        (reporter, "Which version do you use, and which error does it show?"),
        (developer, f"By when can you fix {code}?"),
    )
    body = f"Version: {version}\nError: {code}"

    def file(text: str, due: str, who: str) -> str:
        return (
            f"ID=$(office gitlab GET users username={who} /0/id)\n"
            f"{bash.write('issue.txt', text)}\n"
            f"office gitlab POST {project_route(path)}/issues title={bash.q(title)} due_date={due} "
            'description="$(cat issue.txt)" "assignee_ids:=[$ID]"'
        )

    def found(seen: Evidence) -> list[Issue]:
        titles = {one.title for one in older}
        got = [one for one in seen.issues(path) if one.title not in titles]
        return got if [one.title for one in got] == [title] else []

    def describes(seen: Evidence) -> bool:
        return [one.description.replace(" \n", "\n").strip() for one in found(seen)] == [body]

    def is_planned(seen: Evidence) -> bool:
        got = [(one.due_date, one.assignees) for one in found(seen)]
        return got == [(fix, (developer.username,))]

    right = file(body, fix, developer.username)
    return OfficePlan(
        instruction=setting.told(
            words.REPRODUCE_A_BUG, reporter=reporter, developer=developer, path=path, title=title
        ),
        company=company,
        checkpoints=(
            must("the issue has version and error code", describes, 2),
            must("its due date and assignee are right", is_planned, 2),
        ),
        allows=(allow.new_issue(path), *allow.talk(reporter, developer)),
        reference=(*steps, right),
        near_misses=(
            (*steps, file(body.replace(version, "1.0"), fix, developer.username)),
            (*steps, file(body, "2027-02-03", developer.username)),
            (*steps, file(body, fix, reporter.username)),
            (*steps, bash.post(f"@{third.username}", "A bug!"), right),
        ),
    )
