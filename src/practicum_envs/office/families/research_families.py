"""Tasks of a research group: notes, references, measurements, papers, reviews."""

import json
import statistics

from practicum_envs.office.company_seed import Colleague, CompanySeed, Fact, Person, Project
from practicum_envs.office.evidence import Evidence, is_rounded, project_route, rows_of
from practicum_envs.office.families import allow, bash
from practicum_envs.office.families import research_wordings as words
from practicum_envs.office.families.family_parts import (
    edited,
    must,
    table,
    table_checks,
)
from practicum_envs.office.families.seed_documents import pdf
from practicum_envs.office.generated_company import AREAS, CITIES
from practicum_envs.office.office_plan import OfficePlan, Setting, family

SUBJECTS = ("queues", "graphs", "caches", "kernels", "parsers", "sensors", "ledgers", "tries")
SURNAMES = ("Abel", "Bose", "Chang", "Diaz", "Erdem", "Fini", "Gauss", "Hall", "Ito", "Jung")


def wiki_pages(seen: Evidence, path: str) -> dict[str, str]:
    """The pages of a project's wiki: content by title."""
    found = seen.listed(f"{project_route(path)}/wikis", with_content=1)
    return {one["title"]: one["content"].strip() for one in found}


@family(level=1, domain="research", services=("gitlab",), split="train")
def note_a_result(setting: Setting) -> OfficePlan:
    """Make a page in a wiki."""
    rng = setting.rng
    path = f"root/{rng.choice(SUBJECTS)}-{rng.randrange(2, 90)}"
    title = f"Run {rng.randrange(100, 1000)}"
    text = (
        f"Accuracy {rng.randrange(500, 999) / 10} after {rng.randrange(2, 90)} hours in "
        f"{rng.choice(CITIES)}."
    )
    pages = {"Home": "Notes of the group", f"Run {rng.randrange(10, 100)}": "Accuracy 61.5"}
    company = setting.base + CompanySeed(
        projects=(Project(path=path, files={"README.md": "# Notes\n"}, wikis=pages),)
    )

    def make(name: str, what: str) -> tuple[str, ...]:
        fields = f"title={bash.q(name)} content={bash.q(what)}"
        return (f"office gitlab POST {project_route(path)}/wikis {fields}",)

    return OfficePlan(
        instruction=setting.told(
            words.NOTE_A_RESULT, path=path, title=title, text=text, id=path.replace("/", "%2F")
        ),
        company=company,
        checkpoints=(
            must("the page is there", lambda seen: wiki_pages(seen, path).get(title) == text),
        ),
        allows=(allow.new(allow.project(path, "wikis", "*")),),
        reference=make(title, text),
        near_misses=(
            make(title, text.replace("hours", "days")),
            make(f"{title}b", text),
            (*make(title, text), *make(f"{title} copy", text)),
        ),
    )


SORT_REFERENCES_SOLUTION = """
import csv, re
rows = []
for entry in open("{file}").read().split("@article")[1:]:
    key, year = re.match(r"{{(\\w+)", entry).group(1), re.search(r"year = {{(\\d+)", entry)
    if year:
        rows.append((key, year.group(1), re.search(r"title = {{(.*)}}", entry).group(1)))
rows.sort(key=lambda r: (-int(r[1]), r[0]))
csv.writer(open("out.csv", "w")).writerows([("key", "year", "title"), *rows])
"""


@family(level=2, domain="research", services=("owncloud",), split="train")
def sort_references(setting: Setting) -> OfficePlan:
    """Make a table of a BibTeX file."""
    rng = setting.rng
    names = rng.sample(SURNAMES, 7)
    years = [str(rng.randrange(1985, 2026)) for _ in names]
    years[1], years[2] = years[0], ""
    entries, rows = [], []
    for name, year in zip(names, years, strict=True):
        key = f"{name.lower()}{rng.randrange(10, 100)}"
        title = f"On {rng.choice(SUBJECTS)} and {rng.choice(SUBJECTS)} {rng.randrange(2, 99)}"
        lines = [f"  author = {{{name}}}", f"  title = {{{title}}}"]
        lines += [f"  year = {{{year}}}"] if year else []
        entries.append(f"@article{{{key},\n" + ",\n".join(lines) + "\n}\n")
        if year:
            rows.append((key, year, title))
    path = f"Papers/{rng.choice(SUBJECTS)}-{rng.randrange(10, 100)}.bib"
    target = path.replace(".bib", ".csv")
    company = setting.base + CompanySeed(files={path: "\n".join(entries)})
    ordered = sorted(rows, key=lambda one: (-int(one[1]), one[0]))
    wanted = rows_of(table([("key", "year", "title"), *ordered]).encode())
    file = path.rpartition("/")[2]
    solve = SORT_REFERENCES_SOLUTION.format(file=file)
    reference = (bash.fetch(path) + f"\nhead -6 {file}", bash.make(solve, "out.csv", target))

    return OfficePlan(
        instruction=setting.told(words.SORT_REFERENCES, path=path, target=target),
        company=company,
        checkpoints=table_checks("the right references are listed", target, wanted),
        allows=allow.file(target),
        reference=reference,
        near_misses=(
            edited(reference, ("(-int(r[1]), r[0])", "(int(r[1]), r[0])")),
            edited(reference, ("    if year:", f'    if year and year.group(1) != "{years[0]}":')),
            edited(reference, (bash.put("out.csv", target), bash.put("out.csv", path))),
        ),
    )


DESCRIBE_MEASUREMENTS_SOLUTION = """
import csv, json, statistics
rows = [("series", "n", "mean", "deviation")]
for name, values in sorted(json.load(open("{file}")).items()):
    v = [x for x in values if x <= {limit}]
    rows.append((name, len(v), round(statistics.mean(v), 3), round(statistics.stdev(v), 3)))
csv.writer(open("s.csv", "w")).writerows(rows)
"""


@family(level=2, domain="research", services=("owncloud",), split="heldout")
def describe_measurements(setting: Setting) -> OfficePlan:
    """Mean and sample standard deviation of some series, outliers left out."""
    rng = setting.rng
    names = rng.sample(SUBJECTS, 3)
    limit = rng.randrange(900, 1000)
    series = {
        name: [
            *(rng.randrange(100, 800) / 10 for _ in range(rng.randrange(6, 12))),
            *(limit + rng.randrange(1, 90) for _ in range(rng.randrange(1, 3))),
        ]
        for name in names
    }
    for values in series.values():
        rng.shuffle(values)
    path = f"Lab/{rng.choice(CITIES).lower()}-{rng.randrange(10, 1000)}.json"
    target = path.replace(".json", "-summary.csv")
    company = setting.base + CompanySeed(files={path: json.dumps(series, indent=1)})
    kept = {name: [one for one in series[name] if one <= limit] for name in sorted(names)}
    file = path.rpartition("/")[2]
    solve = DESCRIBE_MEASUREMENTS_SOLUTION.format(file=file, limit=limit)
    reference = (bash.fetch(path), bash.make(solve, "s.csv", target))

    def rows(seen: Evidence) -> list[tuple[str, ...]]:
        found = seen.rows(target)
        is_whole = [one[:2] for one in found] == [
            ("series", "n"),
            *((name, str(len(values))) for name, values in kept.items()),
        ]
        return found[1:] if is_whole and all(len(one) == 4 for one in found) else []

    def has(seen: Evidence, column: int) -> bool:
        exact = statistics.fmean if column == 2 else statistics.stdev
        found = rows(seen)
        return bool(found) and all(is_rounded(one[column], exact(kept[one[0]]), 3) for one in found)

    return OfficePlan(
        instruction=setting.told(
            words.DESCRIBE_MEASUREMENTS, path=path, limit=limit, target=target
        ),
        company=company,
        checkpoints=(
            must("the means are right", lambda seen: has(seen, 2)),
            must("the deviations are right", lambda seen: has(seen, 3)),
        ),
        allows=allow.file(target),
        reference=reference,
        near_misses=(
            edited(reference, ("statistics.stdev", "statistics.pstdev")),
            edited(reference, (f" if x <= {limit}", "")),
            edited(reference, (", 3)", ", 0) + 0.2")),
        ),
    )


@family(level=3, domain="research", services=("owncloud", "gitlab"), split="train")
def quote_a_paper(setting: Setting) -> OfficePlan:
    """Read a result from a PDF file and add it to a wiki page."""
    rng = setting.rng
    path = f"root/{rng.choice(SUBJECTS)}-{rng.randrange(2, 90)}"
    author, area = rng.choice(SURNAMES), rng.choice(AREAS)
    value, base = rng.randrange(600, 990) / 10, rng.randrange(300, 590) / 10
    count = rng.randrange(1000, 90_000)
    others = [f"The method of {name} reaches" for name in rng.sample(SURNAMES, 6)]
    lines = (
        f"{author} et al.: Better {area} with {rng.choice(SUBJECTS)}",
        "Abstract. We study an old question.",
        *(f"On {one} nobody has tried this for long." for one in rng.sample(SUBJECTS, 5)),
        f"The baseline reaches {base} percent.",
        *(f"{one} {rng.randrange(310, 590) / 10} percent." for one in others),
        f"Our method reaches {value} percent on {count} examples.",
        f"It takes {rng.randrange(2, 50)} hours.",
        *(f"We thank the group that works on {one}." for one in rng.sample(SUBJECTS, 3)),
        *(f"[{n}] {name}, {rng.randrange(1980, 2020)}." for n, name in enumerate(SURNAMES, 1)),
    )
    file = f"{author.lower()}-{rng.randrange(1990, 2026)}"
    old = "| paper | result |\n|---|---|\n| old2001 | 51.0 |"
    line = f"| {file} | {value} |"
    pages = {"Results": old, "Home": "Survey"}
    company = setting.base + CompanySeed(
        files={f"Papers/{file}.pdf": pdf(lines)},
        projects=(Project(path=path, files={"README.md": "# Survey\n"}, wikis=pages),),
    )
    look = (
        f"{bash.fetch(f'Papers/{file}.pdf')}\ngrep -a Tj {file}.pdf\n"
        f"office gitlab GET {project_route(path)}/wikis/Results /content"
    )

    def change(text: str, page: str = "Results") -> tuple[str, ...]:
        route = f"{project_route(path)}/wikis/{page}"
        lines = f"{bash.write('page.md', text)}\noffice gitlab PUT {route}"
        return (look, f'{lines} content="$(cat page.md)"')

    def page(seen: Evidence) -> list[str]:
        return [one.strip() for one in wiki_pages(seen, path).get("Results", "").splitlines()]

    return OfficePlan(
        instruction=setting.told(words.QUOTE_A_PAPER, file=file, path=path),
        company=company,
        checkpoints=(
            must("the page has the line of the paper", lambda seen: page(seen).count(line) == 1, 2),
            must(
                "the table is otherwise as it was",
                lambda seen: page(seen) == [*old.split("\n"), line],
            ),
        ),
        allows=(allow.project(path, "wikis", "Results"),),
        reference=change(f"{old}\n{line}"),
        near_misses=(
            change(f"{old}\n| {file} | {base} |"),
            change(line),
            change(f"{old}\n{line}", "Home"),
        ),
    )


def colleagues_of_collect_reviews(
    first: Person, second: Person, stand_in: Person, paper: str, scores: list[int]
) -> tuple[Colleague, ...]:
    """Who knows what."""
    return (
        first.knows(
            Fact(
                when=("score|points|review|rating",),
                say=f"I give {paper} {scores[0]} points.",
                needs=(paper,),
                otherwise="I have many papers. Which one?",
            )
        ),
        second.knows(greeting="I am on leave and have passed my reviews on.", sends_to=stand_in),
        stand_in.knows(
            Fact(
                when=("score|points|review|rating",),
                say=f"My score for {paper} is {scores[1]} points.",
                needs=(paper,),
                otherwise="Which paper do you mean?",
            )
        ),
    )


@family(level=4, domain="research", services=("rocketchat", "owncloud"), split="heldout")
def collect_reviews(setting: Setting) -> OfficePlan:
    """Ask reviewers for their scores and write down the decision."""
    rng = setting.rng
    first, second, stand_in = setting.people(3)
    paper = f"P{rng.randrange(100, 1000)}"
    scores = [rng.randrange(10, 100), rng.randrange(10, 100)]
    bar = rng.randrange(40, 70)
    mean = sum(scores) / 2
    decision = "accept" if mean >= bar else "reject"
    target = f"Reviews/{paper}.txt"
    company = setting.base + CompanySeed(
        folders=("Reviews",),
        colleagues=colleagues_of_collect_reviews(first, second, stand_in, paper, scores),
    )
    ask = f"What is your score for {paper}?"
    people = (first, second, stand_in)
    steps = tuple(
        step
        for one in people
        for step in (bash.post(f"@{one.username}", ask), bash.read_talk(one.username))
    )
    add_up = f"python3 -c 'print(({scores[0]} + {scores[1]}) / 2)'"

    def record(values: list[int], verdict: str) -> str:
        text = f"scores: {values[0]}, {values[1]}\nmean: {sum(values) / 2:.1f}\ndecision: {verdict}"
        return bash.upload("review.txt", text, target)

    def lines(seen: Evidence) -> list[str]:
        return [one.strip() for one in seen.text(target).splitlines()]

    wanted = [f"scores: {scores[0]}, {scores[1]}", f"mean: {mean:.1f}", f"decision: {decision}"]
    wrong = "reject" if decision == "accept" else "accept"
    return OfficePlan(
        instruction=setting.told(
            words.COLLECT_REVIEWS,
            paper=paper,
            first=first,
            second=second,
            bar=bar,
            target=target,
            value1="accept" if bar <= 54.5 else "reject",
        ),
        company=company,
        checkpoints=(
            must("both scores are right", lambda seen: lines(seen)[:1] == wanted[:1], 2),
            must("mean and decision are right", lambda seen: lines(seen) == wanted),
        ),
        allows=(*allow.file(target), *allow.talk(*people)),
        reference=(*steps, add_up, record(scores, decision)),
        near_misses=(
            (*steps, record(scores, wrong)),
            (*steps, record([scores[0], scores[1] + 1], decision)),
            (*steps, bash.post("#general", f"{paper}: {decision}"), record(scores, decision)),
        ),
    )
