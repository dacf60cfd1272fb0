"""Templates about groups: made, filled, administered."""

from practicum.environments.shell.generated.assertions import (
    Group,
    GroupAdmins,
    GroupsOfUser,
    User,
)
from practicum.environments.shell.generated.step import Step, Template, template
from practicum.environments.shell.generated.story import Story

__all__ = ["TEMPLATES"]

SYSTEM_GIDS = (100, 999)


@template("groupadd", split="train")
def group_with_number(story: Story) -> Step:
    """A new group with a given gid."""
    name, gid = story.names.group(), story.chance.randint(2100, 58_000)
    story.add_group(name)
    return Step(
        told=story.say(
            f"Create the group {name} with GID {gid}.",
            f"A group called {name} with the group id {gid} must exist.",
            f"We need a new group: name {name}, GID {gid}.",
        ),
        reference=f"groupadd -g {gid} {name}",
        near_misses=(
            f"groupadd {name}",
            f"groupadd -g {gid + 1} {name}",
            f"groupadd -g {gid} {name}s",
        ),
        assertions=(Group(name, gid_range=(gid, gid)),),
    )


@template("groupadd", split="heldout")
def two_groups(story: Story) -> Step:
    """Two new groups."""
    one, other = story.names.group(), story.names.group()
    story.add_group(one)
    story.add_group(other)
    return Step(
        told=story.say(
            f"Create two groups, {one} and {other}.",
            f"The groups {one} and {other} do not exist yet; add both.",
            f"Both a group {one} and a group {other} must be known to the system.",
        ),
        reference=f"groupadd {one}\ngroupadd {other}",
        near_misses=(f"groupadd {one}", f"groupadd {other}\ngroupadd {one}2"),
        assertions=(Group(one), Group(other)),
    )


@template("addgroup", split="train")
def system_group(story: Story) -> Step:
    """A new group with a number from the system's range."""
    name = story.names.group()
    low, high = SYSTEM_GIDS
    story.add_group(name)
    return Step(
        told=story.say(
            f"Add a system group named {name} (GID between {low} and {high}).",
            f"A service needs the group {name}; create it as a system group, so that its GID is "
            f"in the range {low} to {high}.",
            f"Create {name} as a system group: its number must lie from {low} to {high}.",
        ),
        reference=f"addgroup --system {name}",
        near_misses=(f"addgroup {name}", f"addgroup --system {name}-sys"),
        assertions=(Group(name, gid_range=SYSTEM_GIDS),),
    )


@template("addgroup", split="heldout")
def group_with_its_members(story: Story) -> Step:
    """A new group whose only members are two users."""
    name = story.names.group()
    one, other = story.give_user(), story.give_user()
    story.add_group(name, "members")
    return Step(
        told=story.say(
            f"Add the group {name} and make {one.name} and {other.name} its members, nobody else.",
            f"There should be a group {name} with exactly two supplementary members: {one.name} "
            f"and {other.name}.",
            f"Form a new group {name} of the existing users {one.name} and {other.name} as "
            "supplementary members.",
        ),
        reference=f"addgroup {name}\nadduser {one.name} {name}\nadduser {other.name} {name}",
        near_misses=(
            f"addgroup {name}\nadduser {one.name} {name}",
            f"addgroup {name}",
            f"addgroup {name}\nusermod -g {name} {one.name}\nadduser {other.name} {name}",
        ),
        assertions=(Group(name, members=(one.name, other.name)),),
    )


@template("gpasswd", split="train")
def member_leaves(story: Story) -> Step:
    """One member leaves a group, the others stay."""
    users = [story.give_user() for _ in range(3)]
    group = story.give_group(tuple(user.name for user in users))
    kept = story.give_group((users[0].name,))
    for account in (group, kept):
        account.locked.add("members")
    users[0].locked.add("groups")
    leaver, *others = (user.name for user in users)
    return Step(
        told=story.say(
            f"Remove {leaver} from the group {group.name}; all other memberships stay.",
            f"The user {leaver} must no longer be a member of {group.name}. The other members of "
            f"{group.name} and the other groups of {leaver} stay as they are.",
            f"{leaver} has left {group.name}: take that membership away, and nothing else.",
        ),
        reference=f"gpasswd -d {leaver} {group.name}",
        near_misses=(
            f"usermod -G '' {leaver}",
            f"gpasswd -d {others[0]} {group.name}",
            f"gpasswd -M '' {group.name}",
        ),
        assertions=(
            Group(group.name, members=tuple(others)),
            GroupsOfUser(leaver, (kept.name,), exactly=True),
            User(leaver),
        ),
    )


@template("gpasswd", split="heldout")
def group_administrator(story: Story) -> Step:
    """A group gets an administrator."""
    user, group = story.user(), story.give_group()
    group.locked.add("members")
    return Step(
        told=story.say(
            f"Make {user.name} the administrator of the group {group.name} (as recorded in "
            "/etc/gshadow).",
            f"{user.name} shall be allowed to administer {group.name}: enter that user as the "
            "group's only administrator. Being a member is not enough.",
            f"The one group administrator of {group.name} must be {user.name}.",
        ),
        reference=f"gpasswd -A {user.name} {group.name}",
        near_misses=(
            f"gpasswd -a {user.name} {group.name}",
            f"usermod -aG {group.name} {user.name}",
        ),
        assertions=(GroupAdmins(group.name, (user.name,)),),
    )


@template("gpasswd", split="heldout")
def members_replaced(story: Story) -> Step:
    """A group's list of members is replaced."""
    old, one, two = (story.give_user().name for _ in range(3))
    group = story.give_group((old,))
    group.locked.add("members")
    return Step(
        told=story.say(
            f"Set the member list of {group.name} to exactly {one} and {two}.",
            f"The group {group.name} must have the supplementary members {one} and {two}, and "
            "nobody else any more.",
            f"Replace whoever is in the group {group.name} now by {one} and {two}.",
        ),
        reference=f"gpasswd -M {one},{two} {group.name}",
        near_misses=(
            f"gpasswd -a {one} {group.name}; gpasswd -a {two} {group.name}",
            f"gpasswd -M {one} {group.name}",
            f"gpasswd -A {one},{two} {group.name}",
        ),
        assertions=(Group(group.name, members=(one, two)),),
    )


TEMPLATES: tuple[Template, ...] = (
    group_with_number,
    two_groups,
    system_group,
    group_with_its_members,
    member_leaves,
    group_administrator,
    members_replaced,
)
