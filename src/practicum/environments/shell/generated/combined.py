"""Templates that need several skills for one purpose."""

from shlex import quote

from practicum.environments.shell.generated.assertions import (
    Ageing,
    Content,
    Group,
    GroupOwner,
    Lines,
    Listing,
    Mode,
    Owner,
    SameFile,
    Symlink,
    Type,
    Unchanged,
    User,
    digest,
)
from practicum.environments.shell.generated.material import log_lines, prose, text_of
from practicum.environments.shell.generated.step import Step, Template, template
from practicum.environments.shell.generated.story import Story, Thing

__all__ = ["TEMPLATES"]

LEVELS = ("ERROR", "WARN", "INFO", "DEBUG")


@template("mkdir", "chgrp", "chmod", split="train")
def folder_for_a_group(story: Story) -> Step:
    """A new folder that belongs to a group and is closed to others."""
    folder, group = story.new_folder(), story.group()
    mode = story.chance.choice((0o770, 0o750, 0o771, 0o730))
    story.add_place(folder)
    path, place = story.show(folder), quote(folder)
    return Step(
        told=story.say(
            f"Set up a directory for the group {group.name}: create {path}, assign it to that "
            f"group and set its mode to {mode:o}. Its owner stays root.",
            f"The members of {group.name} need a directory {path}. It must be owned by root and "
            f"the group {group.name}, with the permissions {mode:o}.",
            f"New directory {path}: group {group.name}, mode {mode:o}, owner root.",
        ),
        reference=f"mkdir {place}\nchgrp {group.name} {place}\nchmod {mode:o} {place}",
        near_misses=(
            f"mkdir {place}\nchmod {mode:o} {place}",
            f"mkdir {place}\nchgrp {group.name} {place}",
            f"mkdir {place}\nchown nobody:{group.name} {place}\nchmod {mode:o} {place}",
            f"mkdir {place}\nchgrp {group.name} {place}\nchmod {mode ^ 0o004:o} {place}",
        ),
        assertions=(
            Type(folder, "folder"),
            GroupOwner(folder, group.name),
            Owner(folder, "root"),
            Mode(folder, mode),
        ),
    )


@template("mkdir", "chown", "chmod", split="heldout")
def drop_box(story: Story) -> Step:
    """A new folder of a user into which everybody may put files."""
    folder, user = story.new_folder(), story.user()
    mode = story.chance.choice((0o1777, 0o1773, 0o3777, 0o2775))
    path, place = story.show(folder), quote(folder)
    return Step(
        told=story.say(
            f"Make a drop box for {user.name}: a new directory {path}, owned by {user.name}, with "
            f"mode {mode:o} (all four digits count).",
            f"The user {user.name} must own a new directory {path} whose permissions, special bits "
            f"included, are {mode:o}.",
        ),
        reference=f"mkdir {place}\nchown {user.name} {place}\nchmod {mode:o} {place}",
        near_misses=(
            f"mkdir {place}\nchmod {mode:o} {place}",
            f"mkdir {place}\nchown {user.name} {place}\nchmod {mode & 0o777:o} {place}",
            f"mkdir {place}\nchown {user.name} {place}",
        ),
        assertions=(Type(folder, "folder"), Owner(folder, user.name), Mode(folder, mode)),
    )


@template("groupadd", "useradd", split="train")
def first_member(story: Story) -> Step:
    """A new group and a new user whose primary group it is."""
    group, name = story.names.group(), story.names.user()
    home = f"/home/{name}"
    story.add_group(group)
    story.add_user(name, "home")
    return Step(
        told=story.say(
            f"Create a group {group} and a user {name} whose primary group it is; the user's home "
            f"directory {home} must exist.",
            f"The user {name} starts the new team {group}: add the group, then the "
            f"user with {group} as primary group and with a home directory at {home}.",
            f"We need a group {group}, and a user {name} in it: primary group {group}, home "
            f"{home}, which has to be there.",
        ),
        reference=f"groupadd {group}\nuseradd -m -d {home} -g {group} {name}",
        near_misses=(
            f"groupadd {group}\nuseradd -m -d {home} -G {group} {name}",
            f"groupadd {group}\nuseradd -M -d {home} -g {group} {name}",
            f"groupadd {group}",
        ),
        assertions=(
            Group(group),
            User(name, home=home, primary_group=group),
            Type(home, "folder"),
        ),
    )


@template("useradd", "chage", split="heldout")
def temporary_user(story: Story) -> Step:
    """A new user who must choose a password at the first login."""
    name, longest = story.names.user(), story.chance.choice((20, 40, 80))
    story.add_user(name, "ageing", "shell")
    return Step(
        told=story.say(
            f"Create the user {name} with the login shell /bin/bash, make the password last "
            f"{longest} days at most and force a change of password at the next login.",
            f"A trainee arrives: add a user {name}, shell /bin/bash. The password has to be "
            f"changed at the first login (last change set to day 0) and after {longest} days at "
            "the latest.",
        ),
        reference=f"useradd -s /bin/bash {name}\nchage -d 0 -M {longest} {name}",
        near_misses=(
            f"useradd -s /bin/bash {name}\nchage -M {longest} {name}",
            f"useradd -s /bin/bash {name}\nchage -d 0 {name}",
            f"useradd -s /bin/bash {name}\nchage -E 0 -M {longest} {name}",
        ),
        assertions=(
            User(name, shell="/bin/bash"),
            Ageing(name, {"changed": 0, "max_days": longest}),
        ),
    )


@template("touch", "chown", "chmod", split="train")
def private_file(story: Story) -> Step:
    """A new empty file that only its owner can use."""
    path, user = story.new_path(), story.user()
    mode = story.chance.choice((0o600, 0o400, 0o700, 0o620))
    shown, place = story.show(path), quote(path)
    story.add(Thing(path, "", mode, locked={"content", "owner", "mode", "place"}))
    return Step(
        told=story.say(
            f"Create an empty file {shown} that belongs to {user.name} and has mode {mode:o}.",
            f"{user.name} needs a private file: {shown}, empty, owned by {user.name}, permissions "
            f"{mode:o}.",
            f"An empty file {shown} must be there; owner {user.name}, mode {mode:o}.",
        ),
        reference=f"touch {place}\nchown {user.name} {place}\nchmod {mode:o} {place}",
        near_misses=(
            f"touch {place}\nchmod {mode:o} {place}",
            f"touch {place}\nchown {user.name} {place}",
            f"echo > {place}\nchown {user.name} {place}\nchmod {mode:o} {place}",
        ),
        assertions=(Unchanged(path, digest("")), Owner(path, user.name), Mode(path, mode)),
    )


@template("grep", "wc", split="train")
def matching_lines_counted(story: Story) -> Step:
    """How many lines have a word."""
    word = story.chance.choice(("WARN", "INFO", "DEBUG"))
    lines = log_lines(story.chance, story.chance.randint(14, 24), (*LEVELS, word.lower()))
    source, target = story.give_file(text_of(lines), "log"), story.new_path("txt")
    source.locked.update(("content", "place"))
    count = sum(f" {word} " in line for line in lines)
    one, out = quote(source.path), quote(target)
    story.add(Thing(target, f"{count}\n", locked={"content", "place"}))
    return Step(
        told=story.say(
            f"Count the lines of {story.show(source.path)} that contain {word} (upper case) and "
            f"write the number, nothing else, to {story.show(target)}.",
            f"How often is {word} logged in {story.show(source.path)}? Save the number of lines "
            f"with that word, in capitals, in {story.show(target)}.",
            f"The file {story.show(target)} must hold one number: how many lines of "
            f"{story.show(source.path)} have the word {word} in them, written exactly so.",
        ),
        reference=f"grep {word} {one} | wc -l > {out}",
        near_misses=(
            f"grep -i {word} {one} | wc -l > {out}",
            f"wc -l < {one} > {out}",
            f"grep {word} {one} > {out}",
            f"grep {word} {one} | wc -w > {out}",
        ),
        assertions=(Content(target, f"{count}\n", trimmed=True), source.kept),
    )


@template("grep", "awk", split="heldout")
def codes_summed(story: Story) -> Step:
    """The sum of the last column of the lines with a word."""
    word = story.chance.choice(LEVELS)
    lines = log_lines(story.chance, story.chance.randint(10, 16), LEVELS)
    source, target = story.give_file(text_of(lines), "log"), story.new_path("txt")
    source.locked.update(("content", "place"))
    total = sum(int(line.split()[-1]) for line in lines if f" {word} " in line)
    one, out = quote(source.path), quote(target)
    return Step(
        told=story.say(
            f"Every line of {story.show(source.path)} ends with a number. Add up these numbers "
            f"for the lines that contain {word}, and write only the sum to {story.show(target)}.",
            f"Save in {story.show(target)} the total of the last column of those lines of "
            f"{story.show(source.path)} that have {word} in them; just the number.",
        ),
        reference=f"grep {word} {one} | awk '{{ s += $NF }} END {{ print s }}' > {out}",
        near_misses=(
            f"awk '{{ s += $NF }} END {{ print s }}' {one} > {out}",
            f"grep {word} {one} | awk '{{ s += $1 }} END {{ print s }}' > {out}",
            f"grep -c {word} {one} > {out}",
        ),
        assertions=(Content(target, f"{total}\n", trimmed=True), source.kept),
    )


@template("mkdir", "cp", split="train")
def some_files_copied(story: Story) -> Step:
    """The files of one kind copied to a new folder."""
    chosen, other = story.chance.sample(("conf", "sql", "txt", "xml", "key"), 2)
    names = [story.names.file(chosen) for _ in range(3)]
    rest = [story.names.file(other) for _ in range(2)]
    texts = {name: text_of(prose(story.chance, 1)) for name in (*names, *rest)}
    source, target = story.give_folder(texts), story.new_folder()
    one, two = quote(source), quote(target)
    return Step(
        told=story.say(
            f"Create the directory {story.show(target)} and copy all .{chosen} files from "
            f"{story.show(source)} into it, no others.",
            f"Back up the *.{chosen} files of {story.show(source)}: copies of them, and of nothing "
            f"else, belong in a new directory {story.show(target)}. The originals stay.",
        ),
        reference=f"mkdir {two}\ncp {one}/*.{chosen} {two}/",
        near_misses=(
            f"mkdir {two}\ncp {one}/* {two}/",
            f"mkdir {two}\nmv {one}/*.{chosen} {two}/",
            f"cp {quote(source + '/' + names[0])} {two}",
            f"mkdir {two}",
        ),
        assertions=(
            Listing(source, (*names, *rest)),
            Listing(target, tuple(names)),
            *(Unchanged(f"{target}/{name}", digest(texts[name])) for name in names),
        ),
    )


@template("cp", "sed", split="heldout")
def copied_then_changed(story: Story) -> Step:
    """A copy is put aside before a file is changed."""
    old, new = story.names.word() + "4", story.names.word() + "5"
    lines = prose(story.chance, 4)
    lines[1], lines[3] = f"{lines[1]} {old}", f"{old} {lines[3]} {old}"
    text = text_of(lines)
    thing = story.give_file(text, "conf")
    thing.locked.update(("content", "place"))
    thing.text, thing.is_given = text.replace(old, new), False
    copy = f"{thing.path}.bak"
    one, two = quote(thing.path), quote(copy)
    path, aside = story.show(thing.path), story.show(copy)
    return Step(
        told=story.say(
            f"Copy {path} to {aside} and then replace every {old} in {path} by {new}; the copy "
            "keeps the old text.",
            f"Change all occurrences of {old} to {new} in {path}, but keep the file as it is now "
            f"under the name {aside}.",
        ),
        reference=f"cp {one} {two}\nsed -i 's/{old}/{new}/g' {one}",
        near_misses=(
            f"sed -i 's/{old}/{new}/g' {one}\ncp {one} {two}",
            f"sed -i 's/{old}/{new}/g' {one}",
            f"cp {one} {two}\nsed -i 's/{old}/{new}/' {one}",
            f"ln {one} {two}\nsed 's/{old}/{new}/g' {one} > {one}.new\ncat {one}.new > {one}",
        ),
        assertions=(
            Content(thing.path, thing.text),
            Unchanged(copy, digest(text)),
            SameFile(copy, thing.path, same=False),
        ),
    )


@template("find", "rm", split="heldout")
def old_files_removed(story: Story) -> Step:
    """Files last modified before a day go, at any depth."""
    sub, year = story.names.place(), story.chance.randint(2017, 2022)
    old = [story.names.file(), f"{sub}/{story.names.file()}"]
    new = [story.names.file(), f"{sub}/{story.names.file()}"]
    folder = story.give_folder({name: f"{name}\n" for name in (*old, *new)})
    for names, date in ((old, f"{year - 1}-11-20"), (new, f"{year}-02-10")):
        places = " ".join(quote(f"{folder}/{name}") for name in names)
        story.setup.append(f"touch -d '{date} 12:00 UTC' {places}")
    path, one = story.show(folder), quote(folder)
    return Step(
        told=story.say(
            f"Delete all files below {path}, at any depth, that were last modified before "
            f"{year}-01-01; keep newer files and all directories.",
            f"Files in {path} and its sub-directories whose modification time is earlier than "
            f"1 January {year} are to be removed, and nothing else.",
        ),
        reference=f"find {one} -type f ! -newermt {year}-01-01 -exec rm {{}} +",
        near_misses=(
            f"find {one} -type f -newermt {year}-01-01 -exec rm {{}} +",
            f"find {one} -maxdepth 1 -type f ! -newermt {year}-01-01 -exec rm {{}} +",
            f"find {one} -type f -exec rm {{}} +",
        ),
        assertions=(
            Listing(folder, (sub, *new), recursive=True),
            *(Unchanged(f"{folder}/{name}", digest(f"{name}\n")) for name in new),
        ),
    )


@template("mkdir", "ln", split="heldout")
def release_linked(story: Story) -> Step:
    """A new folder, and a link that leads to it."""
    folder, link = story.new_folder(), story.new_path("link")
    place, name = quote(folder), quote(link)
    return Step(
        told=story.say(
            f"Create the directory {story.show(folder)} and a symbolic link {story.show(link)} to "
            "it.",
            f"A new directory {story.show(folder)} must be reachable through the symlink "
            f"{story.show(link)} as well.",
        ),
        reference=f"mkdir {place}\nln -s {place} {name}",
        near_misses=(
            f"mkdir {name}\nln -s {name} {place}",
            f"ln -s {place} {name}",
            f"mkdir {place} {name}",
        ),
        assertions=(Type(folder, "folder"), Symlink(link, folder)),
    )


@template("awk", "mv", split="train")
def column_dropped(story: Story) -> Step:
    """A file is replaced by two of its columns."""
    rows = [line.split() for line in prose(story.chance, story.chance.randint(4, 7))]
    path = f"{story.root}/{story.names.file('tsv')}"
    story.write(path, text_of(["\t".join(row) for row in rows]))
    old = f"{path}.full"
    one, two, shown = quote(path), quote(old), story.show(path)
    return Step(
        told=story.say(
            f"Move {shown} (columns separated by tabs) to {story.show(old)} and write its first "
            f"and last column, separated by one space, to {shown}.",
            f"Keep only the first and the last of the tab-separated columns of {shown}, with one "
            f"space between them; the full table is to be kept as {story.show(old)}.",
        ),
        reference=f"mv {one} {two}\nawk '{{ print $1, $NF }}' {two} > {one}",
        near_misses=(
            f"awk '{{ print $1, $NF }}' {one} > {two}",
            f"mv {one} {two}\nawk '{{ print $NF, $1 }}' {two} > {one}",
            f"mv {one} {two}\ncut -f 1,4 {two} > {one}",
            f"awk '{{ print $1, $NF }}' {one} > {two}\nmv {two} {one}",
        ),
        assertions=(
            Lines(path, tuple(f"{row[0]} {row[-1]}" for row in rows)),
            Unchanged(old, digest(text_of(["\t".join(row) for row in rows]))),
        ),
    )


TEMPLATES: tuple[Template, ...] = (
    folder_for_a_group,
    drop_box,
    first_member,
    temporary_user,
    private_file,
    matching_lines_counted,
    codes_summed,
    some_files_copied,
    copied_then_changed,
    old_files_removed,
    release_linked,
    column_dropped,
)
