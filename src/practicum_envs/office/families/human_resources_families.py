"""Tasks of human resources: messages, leave, applicants, newcomers, lockers."""

from practicum_envs.office.allowed_changes import Allowed
from practicum_envs.office.company_seed import Colleague, CompanySeed, Fact, Person, Project
from practicum_envs.office.evidence import Evidence, are_rows, asked, project_route, rows_of
from practicum_envs.office.families import allow, bash
from practicum_envs.office.families import human_resources_wordings as words
from practicum_envs.office.families.family_parts import edited, must, table
from practicum_envs.office.families.seed_documents import pdf
from practicum_envs.office.office_plan import OfficePlan, Setting, family

UNIQUE_JOBS = (
    *("Chief Technology Officer", "HR Manager", "Finance Director", "Product Manager"),
    *("Data Analyst", "QA Engineer", "Sales Director", "Office Administrator"),
)
FIRST = ("Amira", "Bela", "Carlo", "Dora", "Emil", "Frida", "Goran", "Heidi", "Ivo", "Juno")
LAST = ("Aalto", "Berg", "Conti", "Drago", "Eder", "Frost", "Grau", "Hoxha", "Ilic", "Jarvi")
SKILLS = ("Python", "SQL", "Java", "Figma", "Excel", "Rust")


@family(level=1, domain="human resources", services=("rocketchat",), split="train")
def write_to_a_role(setting: Setting) -> OfficePlan:
    """Find who has a job and write to that person."""
    rng = setting.rng
    job, other_job = rng.sample(UNIQUE_JOBS, 2)
    person, other = setting.with_role(job), setting.with_role(other_job)
    text = (
        f"Your {rng.choice(('review', 'training', 'health check', 'interview'))} is on "
        f"{setting.date()} at {rng.randrange(8, 18):02d}:{rng.choice(('00', '20', '40'))}."
    )
    look = (
        f"office rocketchat GET users.list count=0 | grep -B60 {bash.q(job)} | grep username"
        " | tail -1"
    )
    reference = (look, bash.post(f"@{person.username}", text))
    return OfficePlan(
        instruction=setting.told(words.WRITE_TO_A_ROLE, job=job, text=text),
        company=setting.base,
        checkpoints=(
            must(
                "the person has the message",
                lambda seen: seen.has_said(f"@{person.username}", text),
            ),
        ),
        allows=(allow.post(f"@{person.username}"),),
        reference=reference,
        near_misses=(
            (look, bash.post(f"@{other.username}", text)),
            (look, bash.post(f"@{person.username}", text.replace(" is on ", " was on "))),
            (*reference, bash.post(f"@{other.username}", text)),
        ),
    )


COUNT_LEAVE_SOLUTION = """
import csv
left = {r["person"]: int(r["days"]) for r in csv.DictReader(open("entitled.csv"))}
for r in csv.DictReader(open("leave.csv")):
    if r["status"] == "approved":
        left[r["person"]] -= int(r["days"])
csv.writer(open("left.csv", "w")).writerows([("person", "left"), *sorted(left.items())])
"""


@family(level=2, domain="human resources", services=("owncloud",), split="train")
def count_leave(setting: Setting) -> OfficePlan:
    """Work out how many days of leave everyone has left."""
    rng = setting.rng
    people = sorted(setting.people(6), key=lambda one: one.username)
    given = {one.username: rng.randrange(22, 34) for one in people}
    taken = []
    for one in people[:5]:
        for _ in range(rng.randrange(1, 4)):
            taken.append((one.username, setting.date(), rng.randrange(1, 6), "approved"))
        if rng.random() < 0.5 or one is people[0]:
            taken.append((one.username, setting.date(), rng.randrange(1, 6), "declined"))
    rng.shuffle(taken)
    head, target = ("person", "from", "days", "status"), f"HR/left-{setting.date()}.csv"
    company = setting.base + CompanySeed(
        files={
            "HR/leave.csv": table([head, *taken]),
            "HR/entitled.csv": table([("person", "days"), *rng.sample(list(given.items()), 6)]),
        }
    )
    left = [
        (who, days - sum(n for p, _, n, s in taken if p == who and s == "approved"))
        for who, days in sorted(given.items())
    ]
    wanted = rows_of(table([("person", "left"), *left]).encode())
    reference = (
        bash.fetch("HR/leave.csv", "HR/entitled.csv") + "\nhead -4 leave.csv entitled.csv",
        bash.make(COUNT_LEAVE_SOLUTION, "left.csv", target),
    )

    return OfficePlan(
        instruction=setting.told(words.COUNT_LEAVE, target=target),
        company=company,
        checkpoints=(
            must(
                "everyone is listed in order",
                lambda seen: [r[0] for r in seen.rows(target)] == [r[0] for r in wanted],
            ),
            must(
                "the days that are left are right",
                lambda seen: are_rows(seen.rows(target), wanted),
                2,
            ),
        ),
        allows=allow.file(target),
        reference=reference,
        near_misses=(
            edited(reference, ('r["status"] == "approved"', "True")),
            edited(reference, ("*sorted(left.items())", "*sorted(left.items())[:-1]")),
        ),
    )


SCREEN_APPLICANTS_SOLUTION = """
import glob, re
found = []
for name in glob.glob("cv/*.pdf"):
    text = open(name, encoding="latin-1").read()
    lines = dict(x.split(": ") for x in re.findall(r"\\((.*: .*)\\) Tj", text))
    years = int(lines["Experience"].split()[0])
    if years >= {least} and "{skill}" in lines["Skills"].split(", "):
        found.append(lines["Name"])
open("invited.txt", "w").write("\\n".join(sorted(found)) + "\\n")
"""
FETCH_APPLICATIONS = """mkdir -p cv
office files list Applications | while read f; do office files get "$f" "cv/${f##*/}"; done
grep -a Tj cv/*.pdf | head -5"""


@family(level=2, domain="human resources", services=("owncloud",), split="heldout")
def screen_applicants(setting: Setting) -> OfficePlan:
    """Choose applicants by what their PDF files say."""
    rng = setting.rng
    skill, least = rng.choice(SKILLS), rng.randrange(3, 8)
    others = [one for one in SKILLS if one != skill]
    people = list(zip(rng.sample(FIRST, 7), rng.sample(LAST, 7), strict=True))
    facts = [
        (rng.randrange(least, 15), True),
        (least, True),
        (least - 1, True),
        (rng.randrange(least, 15), False),
        *((rng.randrange(1, 15), rng.random() < 0.6) for _ in range(3)),
    ]
    files = {}
    for (first, last), (years, has) in zip(people, facts, strict=True):
        skills = rng.sample(others, 2) + ([skill] if has else [])
        lines = (
            "Application",
            f"Name: {first} {last}",
            f"Born: {setting.date(rng.randrange(1970, 2002))}",
            f"Experience: {years} years",
            f"Skills: {', '.join(sorted(skills))}",
        )
        files[f"Applications/{last.lower()}.pdf"] = pdf(lines)
    company = setting.base + CompanySeed(files=files)
    chosen = sorted(
        f"{first} {last}"
        for (first, last), (years, has) in zip(people, facts, strict=True)
        if has and years >= least
    )
    target = f"HR/invited-{setting.date()}.txt"
    solve = SCREEN_APPLICANTS_SOLUTION.format(least=least, skill=skill)
    upload = f"office files mkdir HR\n{bash.put('invited.txt', target)}"
    reference = (FETCH_APPLICATIONS, f"{bash.python(solve)}\n{upload}")

    def names(seen: Evidence) -> list[str]:
        return seen.text(target).splitlines()

    return OfficePlan(
        instruction=setting.told(words.SCREEN_APPLICANTS, skill=skill, least=least, target=target),
        company=company,
        checkpoints=(
            must("those who are invited are right", lambda seen: sorted(names(seen)) == chosen, 2),
            must("they are sorted", lambda seen: names(seen) == chosen),
        ),
        allows=allow.file(target),
        reference=reference,
        near_misses=(
            edited(reference, (f"years >= {least}", f"years > {least}")),
            edited(reference, (f' and "{skill}" in lines["Skills"].split(", ")', "")),
        ),
    )


def changes_of_a_newcomer(
    user: str, path: str, members: dict[str, set[str]]
) -> tuple[Allowed, ...]:
    """Ordinary accounts, a member of these channels and one of the project."""
    return (
        allow.new_at("rocketchat", "users", user, roles=["user"], active=True),
        allow.new_at("gitlab", "users", user, is_admin=False, state="active"),
        *(allow.members(channel, people) for channel, people in members.items()),
        allow.new(allow.project(path, "members", "*")),
    )


@family(level=3, domain="human resources", services=("rocketchat", "gitlab"), split="train")
def onboard_a_newcomer(setting: Setting) -> OfficePlan:
    """Make accounts for someone, and add them to a channel and a project."""
    rng = setting.rng
    name, password = f"{rng.choice(FIRST)} {rng.choice(LAST)}", f"Start-{rng.randrange(10**6):06d}"
    new = Person(username=name.lower().replace(" ", "_"), name=name)
    user, email = new.username, new.email
    channel, wrong = rng.sample([c.name for c in setting.base.channels if c.name != "general"], 2)
    path = f"root/{rng.choice(('shop', 'pipeline', 'portal', 'mobile'))}-{rng.randrange(1, 40)}"
    level, role = rng.choice(((20, "Reporter"), (30, "Developer"), (40, "Maintainer")))
    company = setting.base + CompanySeed(
        projects=(Project(path=path, files={"README.md": "# Project\n"}),)
    )
    route = project_route(path)
    fields = f"name={bash.q(name)} email={email} username={user} password={password}"
    chat = f"office rocketchat POST users.create {fields}"
    invite = f"office rocketchat POST channels.invite roomName={channel} username={user}"
    code = (
        f"office gitlab POST users {fields}\n"
        f"ID=$(office gitlab GET users username={user} /0/id)\n"
        f"office gitlab POST {route}/members user_id=$ID access_level={level}"
    )
    reference = (f"{chat}\n{invite}", code)
    before = {one.name: {*one.members, *one.owners} for one in setting.base.channels}

    def account(seen: Evidence) -> bool:
        found = asked(seen.office.rocketchat, "users.info", {"username": user})
        mails = [one["address"] for one in found["user"].get("emails", [])] if found else []
        return bool(found) and found["user"]["name"] == name and mails == [email]

    def is_member(seen: Evidence) -> bool:
        found = {m["username"]: m["access_level"] for m in seen.listed(f"{route}/members")}
        return found.get(user) == level

    return OfficePlan(
        instruction=setting.told(
            words.ONBOARD_A_NEWCOMER,
            new=new,
            password=password,
            channel=channel,
            project=path,
            role=role,
            level=level,
        ),
        company=company,
        checkpoints=(
            must("the RocketChat account is right", account),
            must(f"it is in #{channel}", lambda seen: user in seen.channel_members(channel)),
            must(f"it is a {role} of the project", is_member, 2),
        ),
        allows=changes_of_a_newcomer(
            user, path, {one: {*before[one], user} for one in (channel, "general")}
        ),
        reference=reference,
        near_misses=(
            edited(reference, (f"access_level={level}", "access_level=10")),
            edited(reference, (f"roomName={channel}", f"roomName={wrong}")),
            edited(reference, (email, f"{user}@example.com")),
        ),
    )


def colleagues_of_collect_locker_numbers(
    first: Person,
    second: Person,
    keeper: Person,
    words: tuple[str, ...],
    reason: str,
    numbers: list[int],
) -> tuple[Colleague, ...]:
    """Who knows what."""
    return (
        first.knows(
            Fact(
                when=words,
                say=f"My locker is {numbers[0]}.",
                needs=(reason,),
                otherwise="Why do you want to know? Tell me the name of the job.",
            )
        ),
        second.knows(sends_to=keeper),
        keeper.knows(
            Fact(
                when=("locker", f"{second.name}|{second.username}|{second.name.split()[0]}"),
                say=f"{second.name} has locker {numbers[1]}.",
            )
        ),
    )


@family(level=4, domain="human resources", services=("rocketchat", "owncloud"), split="train")
def collect_locker_numbers(setting: Setting) -> OfficePlan:
    """Ask two people; one wants a reason, one sends you on."""
    rng = setting.rng
    first, second, keeper = setting.people(3)
    numbers = rng.sample(range(100, 1000), 2)
    reason = f"{rng.choice(('Fire', 'Water', 'Lock', 'Paint'))}-{rng.randrange(10, 100)}"
    target = f"HR/lockers-{reason.lower()}.csv"
    asks = ("locker",)
    company = setting.base + CompanySeed(
        folders=("HR",),
        colleagues=colleagues_of_collect_locker_numbers(
            first, second, keeper, asks, reason, numbers
        ),
    )
    one = bash.post(f"@{first.username}", f"What is your locker number? It is for {reason}.")
    two = bash.post(f"@{second.username}", f"What is your locker number? It is for {reason}.")
    three = bash.post(f"@{keeper.username}", f"Which locker does {second.name} have?")
    steps = (
        *(one, bash.read_talk(first.username), two, bash.read_talk(second.username)),
        *(three, bash.read_talk(keeper.username)),
    )

    def record(*values: int) -> str:
        rows = zip((first.username, second.username), values, strict=True)
        return bash.upload("l.csv", table([("person", "locker"), *rows]), target)

    lines = [(first.username, str(numbers[0])), (second.username, str(numbers[1]))]
    return OfficePlan(
        instruction=setting.told(
            words.COLLECT_LOCKER_NUMBERS, reason=reason, first=first, second=second, target=target
        ),
        company=company,
        checkpoints=(
            must("the first number is right", lambda seen: lines[0] in seen.rows(target)),
            must("the second number is right", lambda seen: lines[1] in seen.rows(target), 2),
            must(
                "the file has nothing else",
                lambda seen: seen.rows(target) == [("person", "locker"), *lines],
            ),
        ),
        allows=(*allow.file(target), *allow.talk(first, second, keeper)),
        reference=(*steps, record(*numbers)),
        near_misses=(
            (*steps, record(*numbers[::-1])),
            (*steps, bash.post("#general", "Who has a locker?"), record(*numbers)),
            (*steps[:4], record(numbers[0], numbers[0] + 1)),
        ),
    )
