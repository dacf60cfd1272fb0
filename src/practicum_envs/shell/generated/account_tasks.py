"""Templates about users and groups: made, changed, aged, filled, administered."""

from datetime import UTC, datetime, timedelta

from practicum_envs.shell.generated.assertions import (
    Absent,
    Ageing,
    Group,
    GroupAdmins,
    GroupsOfUser,
    PasswordLocked,
    Type,
    Unchanged,
    User,
    digest,
)
from practicum_envs.shell.generated.material import and_list
from practicum_envs.shell.generated.step import Step, template, templates_among
from practicum_envs.shell.generated.task_draft import TaskDraft

SHELLS = ("/bin/sh", "/bin/dash", "/bin/rbash")
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@template("useradd", split="train")
def user_with_home_and_shell(draft: TaskDraft) -> Step:
    """A new user whose home folder exists and whose shell is not the default."""
    name = draft.names.user()
    home = f"/home/{name}"
    shell = draft.rng.choice(("/bin/bash", "/bin/dash"))
    draft.add_user(name, "shell", "home")
    return Step(
        instruction=draft.one_of(
            f"Create the user {name} with the home directory {home} (it must exist) and the "
            f"login shell {shell}.",
            f"A new colleague needs an account: login name {name}, login shell {shell}, and a "
            f"home directory that is really there at {home}.",
            f"Add a user named {name}, shell {shell}, home {home}; create the home directory too.",
        ),
        reference=f"useradd -m -d {home} -s {shell} {name}",
        near_misses=(
            f"useradd -M -d {home} -s {shell} {name}",
            f"useradd -m -d {home} {name}",
            f"useradd -m -d {home} -s {shell} {name}x",
        ),
        assertions=(User(name, home=home, shell=shell), Type(home, "folder")),
    )


@template("useradd", split="heldout")
def user_with_number_and_group(draft: TaskDraft) -> Step:
    """A new user with a given uid and an existing group as the primary one."""
    name, group = draft.names.user(), draft.group()
    uid = draft.rng.randint(2100, 58_000)
    draft.add_user(name)
    return Step(
        instruction=draft.one_of(
            f"Create the user {name} with UID {uid} and {group.name} as primary group.",
            f"There must be a user {name} whose user id is {uid} and whose primary group is the "
            f"existing group {group.name}.",
            f"Set up an account for {name}: UID {uid}; its primary (login) group, not just a "
            f"supplementary one, is {group.name}.",
        ),
        reference=f"useradd -u {uid} -g {group.name} {name}",
        near_misses=(
            f"useradd -u {uid} -G {group.name} {name}",
            f"useradd -u {uid + 1} -g {group.name} {name}",
            f"useradd -g {group.name} {name}",
        ),
        assertions=(User(name, uid=uid, primary_group=group.name),),
    )


@template("usermod", split="train")
def one_more_group(draft: TaskDraft) -> Step:
    """A user joins a group without leaving another."""
    user, new = draft.setup_user(), draft.group("members")
    old = draft.setup_group((user.name,))
    user.locked.add("groups")
    return Step(
        instruction=draft.one_of(
            f"Add {user.name} to the group {new.name}; {user.name} must stay in all groups it is "
            "already in.",
            f"The user {user.name} should also be a member of {new.name}, without losing any "
            "membership it has now.",
            f"Make {user.name} a supplementary member of {new.name} and keep its other groups.",
        ),
        reference=f"usermod -aG {new.name} {user.name}",
        near_misses=(
            f"usermod -G {new.name} {user.name}",
            f"usermod -g {new.name} {user.name}",
        ),
        assertions=(
            GroupsOfUser(user.name, (old.name, new.name)),
            User(user.name, primary_group=user.name),
        ),
    )


@template("usermod", split="train")
def other_primary_group(draft: TaskDraft) -> Step:
    """A user's primary group changes."""
    user, group = draft.setup_user(), draft.group()
    user.locked.add("groups")
    return Step(
        instruction=draft.one_of(
            f"Change the primary group of {user.name} to {group.name}.",
            f"The group {group.name} must become the primary group of the user {user.name}.",
            f"The login group of {user.name} should be {group.name} from now on.",
        ),
        reference=f"usermod -g {group.name} {user.name}",
        near_misses=(
            f"usermod -aG {group.name} {user.name}",
            f"usermod -c {group.name} {user.name}",
        ),
        assertions=(User(user.name, primary_group=group.name),),
    )


@template("usermod", split="heldout")
def home_moved(draft: TaskDraft) -> Step:
    """A user's home folder moves with what is in it."""
    user = draft.setup_user()
    user.locked.add("home")
    old, new = f"/home/{user.name}", f"{draft.root}/home-of-{user.name}"
    name = draft.names.file("txt")
    text = f"{draft.names.word()} {draft.rng.randint(100, 9999)}\n"
    draft.write(f"{old}/{name}", text)
    return Step(
        instruction=draft.one_of(
            f"Move the home directory of {user.name} from {old} to {new}, with its contents, and "
            "record the new place in the account.",
            f"{user.name}'s home directory has to be {new} from now on; everything in {old} goes "
            f"there and {old} is gone afterwards.",
            f"Relocate the home of the user {user.name} (now {old}) to {new}. The files must "
            "move along, and the account must point to the new directory.",
        ),
        reference=f"usermod -d {new} -m {user.name}",
        near_misses=(
            f"usermod -d {new} {user.name}",
            f"mv {old} {new}",
            f"mkdir -p {new} && usermod -d {new} {user.name}",
        ),
        assertions=(
            User(user.name, home=new),
            Unchanged(f"{new}/{name}", digest(text)),
            Absent(old),
        ),
    )


@template("usermod", split="heldout")
def account_locked(draft: TaskDraft) -> Step:
    """One password is locked, another is not."""
    user, other = draft.setup_user(), draft.setup_user()
    for name in (user.name, other.name):
        draft.setup.append(f"usermod -p '$6$salt$notarealhash' {name}")
    user.locked.add("shell")
    other.locked.update(("shell", "groups", "ageing"))
    return Step(
        instruction=draft.one_of(
            f"Lock the password of {user.name}, but leave the account, its shell and everything "
            f"of {other.name} as they are.",
            f"{user.name} is on leave: lock that user's password without deleting the account or "
            f"changing its shell. {other.name} keeps working as before.",
            f"The password of the user {user.name} must be locked (not removed); {other.name}'s "
            "must not.",
        ),
        reference=f"usermod -L {user.name}",
        near_misses=(
            f"usermod -s /usr/sbin/nologin {user.name}",
            f"usermod -L {other.name}",
            f"usermod -L {user.name}; usermod -L {other.name}",
        ),
        assertions=(
            PasswordLocked(user.name, True),
            PasswordLocked(other.name, False),
            User(user.name, shell="/bin/bash"),
        ),
    )


@template("chsh", split="train")
def other_shell(draft: TaskDraft) -> Step:
    """One user's login shell changes, another's does not."""
    user, other = draft.user("shell"), draft.setup_user()
    other.locked.add("shell")
    shell = draft.rng.choice(SHELLS[1:])
    return Step(
        instruction=draft.one_of(
            f"Change the login shell of {user.name} to {shell}.",
            f"The user {user.name} should log in with {shell} from now on; no other user's shell "
            "changes.",
            f"Set {shell} as login shell for {user.name}, and for nobody else.",
        ),
        reference=f"chsh -s {shell} {user.name}",
        near_misses=(
            f"chsh -s {shell} {other.name}",
            f"chsh -s /bin/sh {user.name}",
            f"chsh -s {shell} {user.name}; chsh -s {shell} {other.name}",
        ),
        assertions=(User(user.name, shell=shell), User(other.name, shell="/bin/bash")),
    )


@template("chsh", split="heldout")
def shells_of_some(draft: TaskDraft) -> Step:
    """All of a few users who have one shell get another; the rest keep theirs."""
    old, new = draft.rng.sample(SHELLS, 2)
    movers = [draft.setup_user(old) for _ in range(draft.rng.randint(2, 3))]
    stayer = draft.setup_user("/bin/bash")
    for user in (*movers, stayer):
        user.locked.add("shell")
    names = [user.name for user in (*movers, stayer)]
    draft.rng.shuffle(names)
    changes = [f"chsh -s {new} {user.name}" for user in movers]
    return Step(
        instruction=draft.one_of(
            f"Among the users {and_list(names)}, give everyone whose login shell is {old} the "
            f"shell {new}; leave the others alone.",
            f"Look at the accounts {and_list(names)}: whoever has {old} as login shell must get "
            f"{new}, whoever has another shell keeps it.",
            f"Replace the login shell {old} by {new} for those of {and_list(names)} who use it.",
        ),
        reference="\n".join(changes),
        near_misses=(
            "\n".join(changes[1:]),
            "\n".join((*changes, f"chsh -s {new} {stayer.name}")),
        ),
        assertions=(
            *(User(user.name, shell=new) for user in movers),
            User(stayer.name, shell="/bin/bash"),
        ),
    )


@template("chage", split="train")
def password_days(draft: TaskDraft) -> Step:
    """How long a password lasts, and how early its user is warned."""
    user = draft.user("ageing")
    longest, warned = (
        draft.rng.choice((30, 45, 60, 90, 120)),
        draft.rng.choice((5, 8, 10, 14)),
    )
    shortest = draft.rng.choice((2, 3, 4, 6))
    return Step(
        instruction=draft.one_of(
            f"Password ageing for {user.name}: at least {shortest} and at most {longest} days "
            f"between changes, warning {warned} days before.",
            f"The password of {user.name} must expire after {longest} days, may be changed again "
            f"after {shortest} days at the earliest, and its user is to be warned {warned} days "
            "ahead.",
            f"Set for the user {user.name}: minimum password age {shortest} days, maximum password "
            f"age {longest} days, warning period {warned} days.",
        ),
        reference=f"chage -m {shortest} -M {longest} -W {warned} {user.name}",
        near_misses=(
            f"chage -m {shortest} -M {longest} {user.name}",
            f"chage -m {shortest} -M {longest + 1} -W {warned} {user.name}",
            f"chage -M {shortest} -m {longest} -W {warned} {user.name}",
        ),
        assertions=(
            Ageing(user.name, {"min_days": shortest, "max_days": longest, "warn_days": warned}),
        ),
    )


@template("chage", split="heldout")
def account_end(draft: TaskDraft) -> Step:
    """The day on which an account ends, and how long an expired password may still be changed."""
    user = draft.user("ageing")
    day = EPOCH + timedelta(days=draft.rng.randint(21_600, 24_000))
    date, days = day.date().isoformat(), (day - EPOCH).days
    grace = draft.rng.choice((4, 8, 12, 20))
    return Step(
        instruction=draft.one_of(
            f"The account of {user.name} expires on {date}; its password becomes inactive {grace} "
            "days after it has expired.",
            f"Set the account expiry date of {user.name} to {date} and the password inactivity "
            f"period to {grace} days.",
            f"{user.name}'s contract ends: let the account (not the password) expire on {date}, "
            f"and set the number of inactive days after password expiry to {grace}.",
        ),
        reference=f"chage -E {date} -I {grace} {user.name}",
        near_misses=(
            f"chage -E $(date -u -d '{date} + 1 day' +%F) -I {grace} {user.name}",
            f"chage -E {date} {user.name}",
            f"chage -d {date} -I {grace} {user.name}",
        ),
        assertions=(Ageing(user.name, {"expires": days, "inactive_days": grace}),),
    )


TEMPLATES = templates_among(globals())


SYSTEM_GIDS = (100, 999)


@template("groupadd", split="train")
def group_with_number(draft: TaskDraft) -> Step:
    """A new group with a given gid."""
    name, gid = draft.names.group(), draft.rng.randint(2100, 58_000)
    draft.add_group(name)
    return Step(
        instruction=draft.one_of(
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
def two_groups(draft: TaskDraft) -> Step:
    """Two new groups."""
    one, other = draft.names.group(), draft.names.group()
    draft.add_group(one)
    draft.add_group(other)
    return Step(
        instruction=draft.one_of(
            f"Create two groups, {one} and {other}.",
            f"The groups {one} and {other} do not exist yet; add both.",
            f"Both a group {one} and a group {other} must be known to the system.",
        ),
        reference=f"groupadd {one}\ngroupadd {other}",
        near_misses=(f"groupadd {one}", f"groupadd {other}\ngroupadd {one}2"),
        assertions=(Group(one), Group(other)),
    )


@template("addgroup", split="train")
def system_group(draft: TaskDraft) -> Step:
    """A new group with a number from the system's range."""
    name = draft.names.group()
    low, high = SYSTEM_GIDS
    draft.add_group(name)
    return Step(
        instruction=draft.one_of(
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
def group_with_its_members(draft: TaskDraft) -> Step:
    """A new group whose only members are two users."""
    name = draft.names.group()
    one, other = draft.setup_user(), draft.setup_user()
    draft.add_group(name, "members")
    return Step(
        instruction=draft.one_of(
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
def member_leaves(draft: TaskDraft) -> Step:
    """One member leaves a group, the others stay."""
    users = [draft.setup_user() for _ in range(3)]
    group = draft.setup_group(tuple(user.name for user in users))
    kept = draft.setup_group((users[0].name,))
    for account in (group, kept):
        account.locked.add("members")
    users[0].locked.add("groups")
    leaver, *others = (user.name for user in users)
    return Step(
        instruction=draft.one_of(
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
def group_administrator(draft: TaskDraft) -> Step:
    """A group gets an administrator."""
    user, group = draft.user(), draft.setup_group()
    group.locked.add("members")
    return Step(
        instruction=draft.one_of(
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
def members_replaced(draft: TaskDraft) -> Step:
    """A group's list of members is replaced."""
    old, one, two = (draft.setup_user().name for _ in range(3))
    group = draft.setup_group((old,))
    group.locked.add("members")
    return Step(
        instruction=draft.one_of(
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


GROUP_TEMPLATES = templates_among(globals())[len(TEMPLATES) :]
