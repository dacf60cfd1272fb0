"""Tasks of a software engineer: issues, merge requests, releases, repositories with tests."""

import json
from dataclasses import replace

from practicum_envs.office.allowed_changes import Allowed
from practicum_envs.office.company_seed import (
    Colleague,
    Commit,
    CompanySeed,
    Fact,
    Issue,
    MergeRequest,
    Person,
    Post,
    Project,
)
from practicum_envs.office.evidence import Evidence, json_of, project_route
from practicum_envs.office.families import allow, bash
from practicum_envs.office.families import software_engineering_wordings as words
from practicum_envs.office.families.family_parts import must
from practicum_envs.office.generated_company import AREAS
from practicum_envs.office.office_plan import OfficePlan, Setting, family

CLONE = "git clone -q http://root:theagentcompany@the-agent-company.com:8929/{}.git repo\ncd repo"
DEFECTS = ("Crash in", "Wrong sum in", "Slow", "Typo in", "Broken link in", "Lost session in")


def project_name(setting: Setting) -> str:
    """A path of a project."""
    kinds = ("shop", "pipeline", "portal", "mobile", "gateway", "reports")
    return f"root/{setting.rng.choice(kinds)}-{setting.rng.randrange(2, 90)}"


def computed(expression: str) -> list[float]:
    """The values of an expression of this module for n from 0 to 59."""
    names = {"max": max, "min": min, "__builtins__": {}}
    return [eval(expression, {**names, "n": n}) for n in range(60)]


@family(level=1, domain="software engineering", services=("gitlab",), split="train")
def close_a_fixed_issue(setting: Setting) -> OfficePlan:
    """Close one issue, found by its title."""
    rng = setting.rng
    path, areas = project_name(setting), rng.sample(AREAS, 6)
    before = [Issue(title=f"{rng.choice(DEFECTS)} {area}") for area in areas]
    number = rng.randrange(1, 7)
    after = [replace(one, is_closed=n == number) for n, one in enumerate(before, 1)]
    company = setting.base + CompanySeed(
        projects=(Project(path=path, files={"README.md": "# Code\n"}, issues=tuple(before)),)
    )
    route = f"{project_route(path)}/issues"
    title = before[number - 1].title

    def close(iid: int) -> tuple[str, ...]:
        look = f"office gitlab GET {route} {bash.q(f'/title={title}/iid')}"
        return (look, f"office gitlab PUT {route}/{iid} state_event=close")

    return OfficePlan(
        instruction=setting.told(
            words.CLOSE_A_FIXED_ISSUE, title=title, path=path, id=path.replace("/", "%2F")
        ),
        company=company,
        checkpoints=(
            must("the issue is closed", lambda seen: after[number - 1] in seen.issues(path)),
        ),
        allows=(allow.project(path, "issues", str(number), "state"),),
        reference=close(number),
        near_misses=(close(number % 6 + 1), (*close(number), *close(number % 6 + 1))),
    )


RULES = (
    ("fee", "{a} + {b} * n", "{a} + {b} + n", "{a} plus {b} times n"),
    ("bonus", "n // {a} * {b}", "n / {a} * {b}", "{b} for every full {a} of n"),
    ("refund", "max(0, n - {b})", "n - {b}", "n less {b}, but never below 0"),
    ("score", "min(n * {a}, {b})", "max(n * {a}, {b})", "{a} times n, at most {b}"),
)
"""A function's name, how it is right and wrong, and what its docstring says."""


@family(level=2, domain="software engineering", services=("gitlab",), split="train")
def fix_a_function(setting: Setting) -> OfficePlan:
    """Repair a function so that the tests pass, and push."""
    rng = setting.rng
    low, step = rng.randrange(2, 9), rng.randrange(10, 60)
    name, *texts = rng.choice(RULES)
    right, wrong, says = (one.format(a=low, b=step) for one in texts)
    path, file = project_name(setting), f"{name}_rules.py"
    source = f'def {name}(n):\n    """Return {says}."""\n    return {wrong}\n'
    value, before = computed(right), computed(wrong)
    one, two = rng.sample([n for n in range(60) if value[n] != before[n]], 2)
    tests = (
        f"import unittest\nfrom {name}_rules import {name}\n\n\nclass Tests(unittest.TestCase):\n"
        f"    def test_values(self):\n        self.assertEqual({name}({one}), {value[one]})\n"
        f"        self.assertEqual({name}({two}), {value[two]})\n"
    )
    files = {file: source, f"test_{name}.py": tests, "README.md": "# Rules\n"}
    company = setting.base + CompanySeed(projects=(Project(path=path, files=files),))
    look = f"{CLONE.format(path)}\ncat {file}\npython3 -m unittest 2>&1 | tail -5"

    def push(result: str, more: str = "") -> tuple[str, ...]:
        code = source.replace(wrong, result)
        lines = f"cd repo\n{bash.write(file, code)}{more}\npython3 -m unittest 2>&1 | tail -1"
        return (look, f"{lines}\n{bash.GIT} commit -qam 'Fix {name}'\ngit push -q origin main")

    def works(seen: Evidence) -> bool:
        code = seen.repository(path).get(file, "")
        check = (
            "import json, sys\nspace = {}\nexec(sys.stdin.read(), space)\n"
            f"print(json.dumps([space['{name}'](n) for n in range(60)]))"
        )
        done = seen.run(("python3", "-I", "-c", check), code.encode())
        return done.exit_code == 0 and json_of(done.stdout.encode()) == value

    return OfficePlan(
        instruction=setting.told(words.FIX_A_FUNCTION, path=path, name=name, file=file),
        company=company,
        checkpoints=(must("the function on main is right for other numbers too", works, 3),),
        allows=(allow.project(path, "branches", "main", file),),
        reference=push(right),
        near_misses=(
            push(f"{{{one}: {value[one]}, {two}: {value[two]}}}[n]"),
            push(right, "\necho done > NOTES\ngit add NOTES"),
            push(right)[:1],
        ),
    )


@family(level=2, domain="software engineering", services=("gitlab",), split="train")
def cut_a_release(setting: Setting) -> OfficePlan:
    """Raise the version in a file, and make a release with a tag on that commit."""
    rng = setting.rng
    path = project_name(setting)
    last, part = [rng.randrange(9), rng.randrange(30), rng.randrange(30)], rng.randrange(3)
    new = [*last[:part], last[part] + 1, 0, 0][:3]
    old, version = (".".join(map(str, one)) for one in (last, new))
    wrong = ".".join(map(str, [*last[:part], last[part] + 2, 0, 0][:3]))
    kind = ("major", "minor", "patch")[part]
    parts = ("$1 + 1, 0, 0", "$1, $2 + 1, 0", "$1, $2, $3 + 1")[part]
    count_on = f"echo {old} | awk -F. -v OFS=. '{{print {parts}}}' | sed 'p;s/^/v/'"
    headline = f"{rng.choice(('Faster', 'Safer', 'Simpler'))} {rng.choice(AREAS)}"
    files = {"VERSION": f"{old}\n", "README.md": "# Code\n"}
    company = setting.base + CompanySeed(projects=(Project(path=path, files=files),))
    route = project_route(path)

    def cut(to: str, tag: str, says: str = headline) -> tuple[str, ...]:
        look = f"office gitlab GET {route}/repository/files/VERSION ref=main /content | base64 -d"
        fields = f"branch=main commit_message='Version {to}' content={to}"
        bump = f"office gitlab PUT {route}/repository/files/VERSION {fields}"
        more = f"tag_name={tag} ref=main name={tag} description={bash.q(says)}"
        return (look, count_on, bump, f"office gitlab POST {route}/releases {more}")

    def is_raised(seen: Evidence) -> bool:
        return seen.repository(path).get("VERSION", "").strip() == version

    def releases(seen: Evidence) -> list[tuple[str, str]]:
        found = seen.listed(f"{route}/releases")
        return [(one["tag_name"], one["description"].strip()) for one in found]

    def is_tagged(seen: Evidence) -> bool:
        tagged = seen.repository(path, f"v{version}")
        return bool(releases(seen)) and tagged.get("VERSION", "").strip() == version

    return OfficePlan(
        instruction=setting.told(words.CUT_A_RELEASE, kind=kind, path=path, headline=headline),
        company=company,
        checkpoints=(
            must("VERSION is right", is_raised),
            must(
                "the release has the right tag and text",
                lambda seen: releases(seen) == [(f"v{version}", headline)],
            ),
            must("its tag has the new version", is_tagged),
        ),
        allows=(
            allow.project(path, "branches", "main", "VERSION"),
            allow.new(allow.project(path, "tags", f"v{version}")),
            allow.new(allow.project(path, "releases", "*")),
        ),
        reference=cut(version, f"v{version}"),
        near_misses=(
            cut(wrong, f"v{wrong}"),
            cut(version, version),
            cut(version, f"v{version}")[::-1],
        ),
    )


@family(level=2, domain="software engineering", services=("gitlab",), split="train")
def triage_issues(setting: Setting) -> OfficePlan:
    """Label issues by what their descriptions say."""
    rng = setting.rng
    path = project_name(setting)
    word, label = rng.choice(
        (("traceback", "bug"), ("password", "security"), ("slow", "performance"))
    )
    texts = [
        f"We saw a {word} today.",
        f"Nothing new since {setting.date()}.",
        f"The {word} comes back every {rng.randrange(2, 50)} minutes.",
        "Please make this blue.",
        f"After the update there is a {word} again.",
    ]
    areas = rng.sample(AREAS, 5)
    before = [
        Issue(title=f"Look at {area} {rng.randrange(2, 99)}", description=text, labels=("new",))
        for area, text in zip(areas, texts, strict=True)
    ]
    before = rng.sample(before, 5)
    hits = [n for n, one in enumerate(before, 1) if word in one.description]
    after = [
        replace(one, labels=("new", label)) if n in hits else one for n, one in enumerate(before, 1)
    ]
    company = setting.base + CompanySeed(
        projects=(Project(path=path, files={"README.md": "# Code\n"}, issues=tuple(before)),)
    )
    route = f"{project_route(path)}/issues"
    look = (
        f'office gitlab GET {route} search={word} in=description | grep \'"iid"\\|"description"\''
    )

    def add(numbers: list[int], field: str = "add_labels") -> tuple[str, ...]:
        return (look, "\n".join(f"office gitlab PUT {route}/{n} {field}={label}" for n in numbers))

    def labelled(seen: Evidence) -> set[str]:
        return {one.title for one in seen.issues(path) if label in one.labels}

    titles = {before[n - 1].title for n in hits}
    other = next(n for n in range(1, 6) if n not in hits)
    return OfficePlan(
        instruction=setting.told(words.TRIAGE_ISSUES, path=path, label=label, word=word),
        company=company,
        checkpoints=(
            must(
                "some of them have the label, and no others",
                lambda seen: bool(labelled(seen)) and labelled(seen) <= titles,
            ),
            must("all of them have it, and no others", lambda seen: labelled(seen) == titles, 2),
            must(
                "the issues are otherwise as they were", lambda seen: seen.issues_are(path, after)
            ),
        ),
        allows=(
            *(allow.project(path, "issues", str(n), "labels") for n in hits),
            allow.new(allow.project(path, "labels", label)),
        ),
        reference=add(hits),
        near_misses=(add(hits[:2]), add([*hits, other]), add(hits, "labels")),
    )


def reviewed_project(
    path: str, members: dict[str, int], pairs: list[tuple[str, tuple[str, str]]]
) -> Project:
    """A project with a merge request for each area, under which someone said something."""
    commits = (
        Commit(message=f"Add {area}", files={f"{area}.txt": f"{area}\n"}, branch=area)
        for area, _ in pairs
    )
    requests = (
        MergeRequest(title=f"Add {area}", source_branch=area, notes=(Post(sender=who, text=said),))
        for area, (who, said) in pairs
    )
    return Project(
        path=path,
        files={"README.md": "# Code\n"},
        members=members,
        commits=tuple(commits),
        merge_requests=tuple(requests),
    )


def changes_of_merging(path: str, merged: dict[int, str], told: list[int]) -> tuple[Allowed, ...]:
    """What merging these branches changes, and a comment on other merge requests."""
    fields = ("state", "merged_by", "merge_commit_sha")
    requests = ((str(n), one) for n in merged for one in fields)
    branches = merged.values()
    return (
        *(allow.project(path, "merge_requests", *one) for one in requests),
        *(allow.project(path, "branches", "main", f"{one}.txt") for one in branches),
        *(allow.gone(allow.project(path, "branches", one)) for one in branches),
        *(allow.new(allow.project(path, "merge_requests", str(n), "notes")) for n in told),
    )


@family(level=2, domain="software engineering", services=("gitlab",), split="heldout")
def merge_what_is_approved(setting: Setting) -> OfficePlan:
    """Merge the merge requests that the reviewer approved, and comment on the others."""
    rng = setting.rng
    path = project_name(setting)
    reviewer, author = (one.username for one in setting.people(2))
    areas = rng.sample(AREAS, 4)
    verdicts = [(reviewer, "Approved."), (reviewer, "Please add a test."), (author, "Approved.")]
    verdicts += [rng.choice(verdicts[:2])]
    pairs = rng.sample(list(zip(areas, verdicts, strict=True)), 4)
    text = f"Waiting for {reviewer} ({rng.randrange(100, 1000)})"
    project = reviewed_project(path, {reviewer: 40, author: 30}, pairs)
    company = setting.base + CompanySeed(projects=(project,))
    good = [n for n, (_, verdict) in enumerate(pairs, 1) if verdict == verdicts[0]]
    bad = [n for n in range(1, 5) if n not in good]
    route = f"{project_route(path)}/merge_requests"
    look = (
        f"for n in 1 2 3 4; do echo $n; office gitlab GET {route}/$n/notes | "
        'grep \'"body"\\|"username"\'; done'
    )

    def act(merged: list[int], told: list[int]) -> tuple[str, ...]:
        lines = [f"office gitlab PUT {route}/{n}/merge" for n in merged]
        lines += [f"office gitlab POST {route}/{n}/notes body={bash.q(text)}" for n in told]
        return (look, "\n".join(lines))

    def states(seen: Evidence) -> dict[int, str]:
        return {one["iid"]: one["state"] for one in seen.listed(route)}

    def merged(seen: Evidence) -> bool:
        wanted = {n: "merged" if n in good else "opened" for n in range(1, 5)}
        return states(seen) == wanted

    def told(seen: Evidence) -> bool:
        return [n for n in range(1, 5) if text in seen.notes(path, "merge_requests", n)] == bad

    wrong = next(n for n, (_, verdict) in enumerate(pairs, 1) if verdict == verdicts[2])
    return OfficePlan(
        instruction=setting.told(
            words.MERGE_WHAT_IS_APPROVED, path=path, reviewer=reviewer, text=text
        ),
        company=company,
        checkpoints=(
            must("the approved ones are merged, the others are open", merged, 2),
            must("the others have the comment, the merged ones do not", told),
        ),
        allows=changes_of_merging(path, {n: pairs[n - 1][0] for n in good}, bad),
        reference=act(good, bad),
        near_misses=(
            act([*good, wrong], [n for n in bad if n != wrong]),
            act(good, []),
            act(good, [1, 2, 3, 4]),
        ),
    )


def colleagues_of_set_up_a_deployment(
    first: Person, second: Person, ticket: str, port: int, host: str
) -> tuple[Colleague, ...]:
    """Who knows what."""
    return (
        first.knows(Fact(when=("port",), say=f"It listens on port {port}."), sends_to=second),
        second.knows(
            Fact(
                when=("host|hostname|machine|server",),
                say=f"Use the host {host}.",
                needs=(ticket,),
                otherwise="Which ticket is it for? I need its number.",
            )
        ),
    )


def settings_pushed(path: str, host: str, port: object) -> str:
    """Bash that sets host and port, pushes, and closes the issue."""
    code = (
        'import json\nc = json.load(open("deploy.json"))\n'
        f'c.update(host="{host}", port={port})\n'
        'json.dump(c, open("deploy.json", "w"), indent=1)'
    )
    push = f"{bash.GIT} commit -qam 'Set host and port'\ngit push -q origin main"
    close = f"office gitlab PUT {project_route(path)}/issues/1 state_event=close"
    return f"{CLONE.format(path)}\n{bash.python(code)}\n{push}\n{close}"


@family(level=4, domain="software engineering", services=("gitlab", "rocketchat"), split="train")
def set_up_a_deployment(setting: Setting) -> OfficePlan:
    """Ask two engineers for settings that only they know, and commit them."""
    rng = setting.rng
    path, (first, second, _) = project_name(setting), setting.people(3)
    port, place = rng.randrange(2000, 60_000), rng.choice(AREAS)
    host, ticket = f"{place}-{rng.randrange(10, 100)}.internal", f"OPS-{rng.randrange(100, 1000)}"
    limits = {f"{area}_timeout_s": rng.randrange(5, 90) for area in AREAS}
    config = {"host": "unknown", "port": 0, "workers": rng.randrange(2, 9), **limits}
    issue = Issue(title="Deploy the service", labels=("ops",))
    files = {"deploy.json": json.dumps(config, indent=1) + "\n", "README.md": "# Service\n"}
    company = setting.base + CompanySeed(
        projects=(Project(path=path, files=files, issues=(issue,)),),
        colleagues=colleagues_of_set_up_a_deployment(first, second, ticket, port, host),
    )
    steps = bash.ask(
        (first, "Which port does the service use?"),
        (second, f"Which host shall I use? It is for {ticket}."),
    )

    def commit(name: str, number: object) -> str:
        return settings_pushed(path, name, number)

    def deploy(seen: Evidence) -> dict[str, object]:
        found = json_of(seen.repository(path).get("deploy.json", "").encode())
        return found if isinstance(found, dict) else {}

    def is_closed(seen: Evidence) -> bool:
        closed = [replace(issue, is_closed=True)]
        return deploy(seen).get("host") == host and seen.issues_are(path, closed)

    wanted = {**config, "host": host, "port": port}
    return OfficePlan(
        instruction=setting.told(
            words.SET_UP_A_DEPLOYMENT, path=path, first=first, second=second, ticket=ticket
        ),
        company=company,
        checkpoints=(
            must("the port is right", lambda seen: deploy(seen).get("port") == port),
            must("the host is right", lambda seen: deploy(seen).get("host") == host, 2),
            must("the issue is closed, when it was done", is_closed),
            must(
                "its other values are as they were",
                lambda seen: deploy(seen) == wanted,
            ),
        ),
        allows=(
            allow.project(path, "branches", "main", "deploy.json"),
            allow.project(path, "issues", "1", "state"),
            *allow.talk(first, second),
        ),
        reference=(*steps, commit(host, port)),
        near_misses=(
            (*steps, commit(host, f'"{port}"')),
            (*steps[:2], commit("localhost", port)),
            (*steps, bash.post("#general", "Which port?"), commit(host, port)),
        ),
    )
