"""Tasks of one service and one step."""

import shlex

from practicum_envs.office.company_seed import CompanySeed, Issue, Project
from practicum_envs.office.evidence import Evidence, project_route
from practicum_envs.office.families import allow
from practicum_envs.office.families.family_parts import must
from practicum_envs.office.generated_company import DAYS
from practicum_envs.office.office_plan import OfficePlan, Setting, family

EVENTS = ("fire drill", "all-hands meeting", "office move", "team lunch", "system upgrade")
PLACES = ("in the lobby", "on the second floor", "in the canteen", "in room Oslo", "online")
TOPICS = ("launch", "audit", "hiring", "website", "migration", "budget", "support", "training")
DEFECTS = ("crash at start", "wrong total", "slow search", "broken link", "missing translation")


ANNOUNCE_IN_CHANNEL = (
    "Post this message in RocketChat's channel #{channel}, word for word: {text}",
    "#{channel} in RocketChat has to hear this, in exactly these words: {text}",
    "{text}\nPlease say that, word for word, to everyone in the RocketChat channel #{channel}.",
    "Channel: #{channel} (RocketChat)\nMessage, word for word: {text}\nPost it there, once.",
    "Whoever reads #{channel} in RocketChat does not know it yet. Post one message there: {text}",
    "1. Open the channel #{channel} in RocketChat.\n2. Post this as it is: {text}",
)
FILE_AN_ISSUE = (
    "Open an issue in the GitLab project {path} with the title '{title}' and the label {label}, "
    "and no other label.",
    "'{title}' is not in the GitLab project {path} yet: make it an issue there, by this title, "
    "labelled {label} and nothing else.",
    "Project: {path} (GitLab)\nNew issue: '{title}'\nOnly label: {label}",
    "We have seen something that belongs into the GitLab project {path}. Please file one issue, "
    "'{title}', whose only label is {label}.",
    "1. Go to the GitLab project {path}.\n2. Open an issue there, titled '{title}'.\n3. Give it "
    "the label {label}, and no second one.",
)
MAKE_A_CHANNEL = (
    "Make a public RocketChat channel named {name} with {first.name} and {second.name} as members, "
    "and nobody else besides you.",
    "{first.name} and {second.name} need a place to talk: a public channel of RocketChat, called "
    "{name}, in which there are these two and you alone.",
    "New channel in RocketChat: {name}\nKind: public\nMembers: {first.name}, {second.name}, you",
    "Could you open {name} in RocketChat, a public channel? Add {first.name}, add {second.name}, "
    "and leave everybody else out; you are in it anyway.",
    "1. Make a public channel {name} in RocketChat.\n2. Put {first.name} and {second.name} into "
    "it, and no third person.",
)
"""Each task in several wordings."""


@family(level=1, domain="admin", services=("rocketchat",), split="train")
def announce_in_channel(setting: Setting) -> OfficePlan:
    """Post a given sentence to a given channel."""
    rng = setting.rng
    channel = rng.choice(setting.base.channels).name
    other = rng.choice([one.name for one in setting.base.channels if one.name != channel])
    at = f"{rng.choice(DAYS)} at {rng.randrange(8, 18)}:{rng.choice(('00', '30'))}"
    text = f"The {rng.choice(EVENTS)} is on {at} {rng.choice(PLACES)}."

    def post(where: str, what: str) -> tuple[str, ...]:
        return (
            f"office rocketchat POST chat.postMessage channel={where} text={shlex.quote(what)}",
        )

    return OfficePlan(
        instruction=setting.told(ANNOUNCE_IN_CHANNEL, channel=channel, text=text),
        company=setting.base,
        checkpoints=(
            must(f"#{channel} has the message", lambda seen: seen.has_said(f"#{channel}", text)),
        ),
        allows=(allow.post(f"#{channel}"),),
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
    old = Issue(title="Set up continuous integration")
    project = Project(
        path=path,
        files={"README.md": f"# {path.partition('/')[2]}\n"},
        labels={"bug": "#d9534f", "urgent": "#ff0000", "regression": "#8e44ad"},
        issues=(old,),
    )
    route = f"{project_route(path)}/issues"
    wanted = Issue(title=title, labels=(label,))

    def create(name: str, labels: str) -> tuple[str, ...]:
        return (f"office gitlab POST {route} title={shlex.quote(name)} labels={labels}",)

    return OfficePlan(
        instruction=setting.told(FILE_AN_ISSUE, path=path, title=title, label=label),
        company=setting.base + CompanySeed(projects=(project,)),
        checkpoints=(
            must(
                "the issue is there",
                lambda seen: title in [one.title for one in seen.issues(path)],
            ),
            must(f"its label is {label}", lambda seen: seen.issues_are(path, [old, wanted])),
        ),
        allows=(allow.new_issue(path),),
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

    def has_both(seen: Evidence) -> bool:
        return {first.username, second.username} <= seen.channel_members(name)

    def has_nobody_else(seen: Evidence) -> bool:
        known = {first.username, second.username, "theagentcompany"}
        return has_both(seen) and seen.channel_members(name) <= known

    look = "office rocketchat GET users.list count=0 " + " ".join(
        shlex.quote(f"/users/name={one.name}/username") for one in (first, second)
    )

    def create(where: str, who: str) -> tuple[str, ...]:
        return (look, f"office rocketchat POST channels.create name={where} members={who}")

    return OfficePlan(
        instruction=setting.told(MAKE_A_CHANNEL, name=name, first=first, second=second),
        company=setting.base,
        checkpoints=(
            must("the channel is there", lambda seen: bool(seen.channel_members(name))),
            must("both are in it", has_both),
            must("nobody else is", has_nobody_else),
        ),
        allows=(allow.new(allow.room(name), t="c", messages=[]),),
        reference=create(name, members),
        near_misses=(
            create(name, first.username),
            create(name, f"{members},{third.username}"),
            create(f"{name}-new", members),
        ),
    )
