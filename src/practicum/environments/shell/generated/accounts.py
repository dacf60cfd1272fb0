"""Templates about users: made, changed, aged, given another shell."""

from datetime import UTC, datetime, timedelta

from practicum.environments.shell.generated.assertions import (
    Absent,
    Ageing,
    GroupsOfUser,
    PasswordLocked,
    Type,
    Unchanged,
    User,
    digest,
)
from practicum.environments.shell.generated.step import Step, Template, template
from practicum.environments.shell.generated.story import Story
from practicum.environments.shell.generated.wording import and_list

__all__ = ["TEMPLATES"]

SHELLS = ("/bin/sh", "/bin/dash", "/bin/rbash")
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@template("useradd", split="train")
def user_with_home_and_shell(story: Story) -> Step:
    """A new user whose home folder exists and whose shell is not the default."""
    name = story.names.user()
    home = f"/home/{name}"
    shell = story.chance.choice(("/bin/bash", "/bin/dash"))
    story.add_user(name, "shell", "home")
    return Step(
        told=story.say(
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
def user_with_number_and_group(story: Story) -> Step:
    """A new user with a given uid and an existing group as the primary one."""
    name, group = story.names.user(), story.group()
    uid = story.chance.randint(2100, 58_000)
    story.add_user(name)
    return Step(
        told=story.say(
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
def one_more_group(story: Story) -> Step:
    """A user joins a group without leaving another."""
    user, new = story.give_user(), story.group("members")
    old = story.give_group((user.name,))
    user.locked.add("groups")
    return Step(
        told=story.say(
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
def other_primary_group(story: Story) -> Step:
    """A user's primary group changes."""
    user, group = story.give_user(), story.group()
    user.locked.add("groups")
    return Step(
        told=story.say(
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
def home_moved(story: Story) -> Step:
    """A user's home folder moves with what is in it."""
    user = story.give_user()
    user.locked.add("home")
    old, new = f"/home/{user.name}", f"{story.root}/home-of-{user.name}"
    name = story.names.file("txt")
    text = f"{story.names.word()} {story.chance.randint(100, 9999)}\n"
    story.write(f"{old}/{name}", text)
    return Step(
        told=story.say(
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
def account_locked(story: Story) -> Step:
    """One password is locked, another is not."""
    user, other = story.give_user(), story.give_user()
    for name in (user.name, other.name):
        story.setup.append(f"usermod -p '$6$salt$notarealhash' {name}")
    user.locked.add("shell")
    other.locked.update(("shell", "groups", "ageing"))
    return Step(
        told=story.say(
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
def other_shell(story: Story) -> Step:
    """One user's login shell changes, another's does not."""
    user, other = story.user("shell"), story.give_user()
    other.locked.add("shell")
    shell = story.chance.choice(SHELLS[1:])
    return Step(
        told=story.say(
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
def shells_of_some(story: Story) -> Step:
    """All of a few users who have one shell get another; the rest keep theirs."""
    old, new = story.chance.sample(SHELLS, 2)
    movers = [story.give_user(old) for _ in range(story.chance.randint(2, 3))]
    stayer = story.give_user("/bin/bash")
    for user in (*movers, stayer):
        user.locked.add("shell")
    names = [user.name for user in (*movers, stayer)]
    story.chance.shuffle(names)
    changes = [f"chsh -s {new} {user.name}" for user in movers]
    return Step(
        told=story.say(
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
def password_days(story: Story) -> Step:
    """How long a password lasts, and how early its user is warned."""
    user = story.user("ageing")
    longest, warned = (
        story.chance.choice((30, 45, 60, 90, 120)),
        story.chance.choice((5, 8, 10, 14)),
    )
    shortest = story.chance.choice((2, 3, 4, 6))
    return Step(
        told=story.say(
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
def account_end(story: Story) -> Step:
    """The day on which an account ends, and how long an expired password may still be changed."""
    user = story.user("ageing")
    day = EPOCH + timedelta(days=story.chance.randint(21_600, 24_000))
    date, days = day.date().isoformat(), (day - EPOCH).days
    grace = story.chance.choice((4, 8, 12, 20))
    return Step(
        told=story.say(
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


TEMPLATES: tuple[Template, ...] = (
    user_with_home_and_shell,
    user_with_number_and_group,
    one_more_group,
    other_primary_group,
    home_moved,
    account_locked,
    other_shell,
    shells_of_some,
    password_days,
    account_end,
)
