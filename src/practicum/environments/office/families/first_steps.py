"""Tasks of one service and one step."""

import shlex

from practicum.environments.office.company_seed import CompanySeed, Issue, Project
from practicum.environments.office.evidence import Evidence
from practicum.environments.office.generated_company import DAYS
from practicum.environments.office.office_client import OfficeError
from practicum.environments.office.office_plan import Checkpoint, OfficePlan, Setting, family

EVENTS = ("fire drill", "all-hands meeting", "office move", "team lunch", "system upgrade")
PLACES = ("in the lobby", "on the second floor", "in the canteen", "in room Oslo", "online")
TOPICS = ("launch", "audit", "hiring", "website", "migration", "budget", "support", "training")
DEFECTS = ("crash at start", "wrong total", "slow search", "broken link", "missing translation")


@family(level=1, domain="admin", services=("rocketchat",), split="train")
def announce_in_channel(setting: Setting) -> OfficePlan:
    """Post a given sentence to a given channel."""
    rng = setting.rng
    channel = rng.choice(setting.base.channels).name
    other = rng.choice([one.name for one in setting.base.channels if one.name != channel])
    at = f"{rng.choice(DAYS)} at {rng.randrange(8, 18)}:{rng.choice(('00', '30'))}"
    text = f"The {rng.choice(EVENTS)} is on {at} {rng.choice(PLACES)}."

    def is_posted(seen: Evidence) -> bool:
        return any(said["msg"].strip() == text for said in seen.office.messages(channel))

    def is_only_there(seen: Evidence) -> bool:
        names = [one.name for one in setting.base.channels if one.name != channel]
        said = [message["msg"] for name in names for message in seen.office.messages(name)]
        return is_posted(seen) and text not in said

    def post(where: str, what: str) -> tuple[str, ...]:
        return (
            f"office rocketchat POST chat.postMessage channel={where} text={shlex.quote(what)}",
        )

    return OfficePlan(
        instruction=f"Post this message in RocketChat's channel #{channel}, word for word: {text}",
        company=setting.base,
        checkpoints=(
            Checkpoint(says=f"#{channel} has the message", passes=is_posted),
            Checkpoint(says="no other channel has it", passes=is_only_there),
        ),
        reference=post(f"'#{channel}'", text),
        near_misses=(
            post(f"'#{other}'", text),
            post(f"'#{channel}'", text.replace(" is on ", " was on ")),
            (post(f"'#{channel}'", text)[0] + " && " + post(f"'#{other}'", text)[0],),
        ),
    )


@family(level=1, domain="software engineering", services=("gitlab",), split="train")
def file_an_issue(setting: Setting) -> OfficePlan:
    """Open an issue with a title and a label."""
    rng = setting.rng
    path = f"root/{rng.choice(TOPICS)}-{rng.choice(('service', 'app', 'tools'))}"
    title = (
        f"{rng.choice(DEFECTS).capitalize()} in version {rng.randrange(1, 9)}.{rng.randrange(20)}"
    )
    label = rng.choice(("bug", "urgent", "regression"))
    project = Project(
        path=path,
        files={"README.md": f"# {path.partition('/')[2]}\n"},
        labels={"bug": "#d9534f", "urgent": "#ff0000", "regression": "#8e44ad"},
        issues=(Issue(title="Set up continuous integration"),),
    )
    route = f"projects/{path.replace('/', '%2F')}/issues"

    def issues(seen: Evidence) -> list[dict[str, object]]:
        found: list[dict[str, object]] = seen.office.gitlab("GET", route, {"search": title})
        return [issue for issue in found if issue["title"] == title]

    def is_labelled(seen: Evidence) -> bool:
        return any(issue["labels"] == [label] for issue in issues(seen))

    def create(name: str, labels: str) -> tuple[str, ...]:
        return (f"office gitlab POST {route} title={shlex.quote(name)} labels={labels}",)

    return OfficePlan(
        instruction=(
            f"Open an issue in the GitLab project {path} with the title '{title}' and the label "
            f"{label}, and no other label."
        ),
        company=setting.base + CompanySeed(projects=(project,)),
        checkpoints=(
            Checkpoint(says="the issue is there", passes=lambda seen: bool(issues(seen))),
            Checkpoint(says=f"its label is {label}", passes=is_labelled),
        ),
        reference=create(title, label),
        near_misses=(create(title, f"{label},new"), create(title.lower(), label)),
    )


@family(level=1, domain="project management", services=("rocketchat",), split="heldout")
def make_a_channel(setting: Setting) -> OfficePlan:
    """Make a channel with two members."""
    rng = setting.rng
    name = f"{rng.choice(TOPICS)}-{rng.randrange(2026, 2031)}"
    first, second, third = setting.people(3)
    members = f"{first.username},{second.username}"

    def present(seen: Evidence) -> set[str]:
        try:
            found = seen.office.rocketchat(
                "GET", "channels.members", {"roomName": name, "count": 0}
            )
        except OfficeError:
            return set()
        return {member["username"] for member in found["members"]}

    def has_both(seen: Evidence) -> bool:
        return {first.username, second.username} <= present(seen)

    def has_nobody_else(seen: Evidence) -> bool:
        known = {first.username, second.username, "theagentcompany"}
        return has_both(seen) and present(seen) <= known

    look = "office rocketchat GET users.list count=0 " + " ".join(
        shlex.quote(f"/users/name={one.name}/username") for one in (first, second)
    )

    def create(where: str, who: str) -> tuple[str, ...]:
        return (look, f"office rocketchat POST channels.create name={where} members={who}")

    return OfficePlan(
        instruction=(
            f"Make a public RocketChat channel named {name} with {first.name} and {second.name} as "
            "members, and nobody else besides you."
        ),
        company=setting.base,
        checkpoints=(
            Checkpoint(says="the channel is there", passes=lambda seen: bool(present(seen))),
            Checkpoint(says="both are in it", passes=has_both),
            Checkpoint(says="nobody else is", passes=has_nobody_else),
        ),
        reference=create(name, members),
        near_misses=(
            create(name, first.username),
            create(name, f"{members},{third.username}"),
            create(f"{name}-new", members),
        ),
    )
