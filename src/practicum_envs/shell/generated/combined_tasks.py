"""Templates that need several skills for one purpose."""

from shlex import quote

from practicum_envs.shell.generated.assertions import (
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
from practicum_envs.shell.generated.material import log_lines, prose, text_of
from practicum_envs.shell.generated.step import Step, template, templates_among
from practicum_envs.shell.generated.task_draft import TaskDraft, TaskFile

LEVELS = ("ERROR", "WARN", "INFO", "DEBUG")


@template("mkdir", "chgrp", "chmod", split="train")
def folder_for_a_group(draft: TaskDraft) -> Step:
    """A new folder that belongs to a group and is closed to others."""
    folder, group = draft.new_folder(), draft.group()
    mode = draft.rng.choice((0o770, 0o750, 0o771, 0o730))
    draft.add_folder(folder)
    path, quoted = draft.show(folder), quote(folder)
    return Step(
        instruction=draft.one_of(
            f"Set up a directory for the group {group.name}: create {path}, assign it to that "
            f"group and set its mode to {mode:o}. Its owner stays root.",
            f"The members of {group.name} need a directory {path}. It must be owned by root and "
            f"the group {group.name}, with the permissions {mode:o}.",
            f"New directory {path}: group {group.name}, mode {mode:o}, owner root.",
        ),
        reference=f"mkdir {quoted}\nchgrp {group.name} {quoted}\nchmod {mode:o} {quoted}",
        near_misses=(
            f"mkdir {quoted}\nchmod {mode:o} {quoted}",
            f"mkdir {quoted}\nchgrp {group.name} {quoted}",
            f"mkdir {quoted}\nchown nobody:{group.name} {quoted}\nchmod {mode:o} {quoted}",
            f"mkdir {quoted}\nchgrp {group.name} {quoted}\nchmod {mode ^ 0o004:o} {quoted}",
        ),
        assertions=(
            Type(folder, "folder"),
            GroupOwner(folder, group.name),
            Owner(folder, "root"),
            Mode(folder, mode),
        ),
    )


@template("mkdir", "chown", "chmod", split="heldout")
def drop_box(draft: TaskDraft) -> Step:
    """A new folder of a user into which everybody may put files."""
    folder, user = draft.new_folder(), draft.user()
    mode = draft.rng.choice((0o1777, 0o1773, 0o3777, 0o2775))
    path, quoted = draft.show(folder), quote(folder)
    return Step(
        instruction=draft.one_of(
            f"Make a drop box for {user.name}: a new directory {path}, owned by {user.name}, with "
            f"mode {mode:o} (all four digits count).",
            f"The user {user.name} must own a new directory {path} whose permissions, special bits "
            f"included, are {mode:o}.",
        ),
        reference=f"mkdir {quoted}\nchown {user.name} {quoted}\nchmod {mode:o} {quoted}",
        near_misses=(
            f"mkdir {quoted}\nchmod {mode:o} {quoted}",
            f"mkdir {quoted}\nchown {user.name} {quoted}\nchmod {mode & 0o777:o} {quoted}",
            f"mkdir {quoted}\nchown {user.name} {quoted}",
        ),
        assertions=(Type(folder, "folder"), Owner(folder, user.name), Mode(folder, mode)),
    )


@template("groupadd", "useradd", split="train")
def first_member(draft: TaskDraft) -> Step:
    """A new group and a new user whose primary group it is."""
    group, name = draft.names.group(), draft.names.user()
    home = f"/home/{name}"
    draft.add_group(group)
    draft.add_user(name, "home")
    return Step(
        instruction=draft.one_of(
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
def temporary_user(draft: TaskDraft) -> Step:
    """A new user who must choose a password at the first login."""
    name, longest = draft.names.user(), draft.rng.choice((20, 40, 80))
    draft.add_user(name, "ageing", "shell")
    return Step(
        instruction=draft.one_of(
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
def private_file(draft: TaskDraft) -> Step:
    """A new empty file that only its owner can use."""
    path, user = draft.new_path(), draft.user()
    mode = draft.rng.choice((0o600, 0o400, 0o700, 0o620))
    shown, quoted = draft.show(path), quote(path)
    draft.add(TaskFile(path, "", mode, locked={"content", "owner", "mode", "path"}))
    return Step(
        instruction=draft.one_of(
            f"Create an empty file {shown} that belongs to {user.name} and has mode {mode:o}.",
            f"{user.name} needs a private file: {shown}, empty, owned by {user.name}, permissions "
            f"{mode:o}.",
            f"An empty file {shown} must be there; owner {user.name}, mode {mode:o}.",
        ),
        reference=f"touch {quoted}\nchown {user.name} {quoted}\nchmod {mode:o} {quoted}",
        near_misses=(
            f"touch {quoted}\nchmod {mode:o} {quoted}",
            f"touch {quoted}\nchown {user.name} {quoted}",
            f"echo > {quoted}\nchown {user.name} {quoted}\nchmod {mode:o} {quoted}",
        ),
        assertions=(Unchanged(path, digest("")), Owner(path, user.name), Mode(path, mode)),
    )


@template("grep", "wc", split="train")
def matching_lines_counted(draft: TaskDraft) -> Step:
    """How many lines have a word."""
    word = draft.rng.choice(("WARN", "INFO", "DEBUG"))
    lines = log_lines(draft.rng, draft.rng.randint(14, 24), (*LEVELS, word.lower()))
    source, target = draft.setup_file(text_of(lines), "log"), draft.new_path("txt")
    source.locked.update(("content", "path"))
    count = sum(f" {word} " in line for line in lines)
    src, dst = quote(source.path), quote(target)
    draft.add(TaskFile(target, f"{count}\n", locked={"content", "path"}))
    return Step(
        instruction=draft.one_of(
            f"Count the lines of {draft.show(source.path)} that contain {word} (upper case) and "
            f"write the number, nothing else, to {draft.show(target)}.",
            f"How often is {word} logged in {draft.show(source.path)}? Save the number of lines "
            f"with that word, in capitals, in {draft.show(target)}.",
            f"The file {draft.show(target)} must hold one number: how many lines of "
            f"{draft.show(source.path)} have the word {word} in them, written exactly so.",
        ),
        reference=f"grep {word} {src} | wc -l > {dst}",
        near_misses=(
            f"grep -i {word} {src} | wc -l > {dst}",
            f"wc -l < {src} > {dst}",
            f"grep {word} {src} > {dst}",
            f"grep {word} {src} | wc -w > {dst}",
        ),
        assertions=(Content(target, f"{count}\n", trimmed=True), source.kept),
    )


@template("grep", "awk", split="heldout")
def codes_summed(draft: TaskDraft) -> Step:
    """The sum of the last column of the lines with a word."""
    word = draft.rng.choice(LEVELS)
    lines = log_lines(draft.rng, draft.rng.randint(10, 16), LEVELS)
    source, target = draft.setup_file(text_of(lines), "log"), draft.new_path("txt")
    source.locked.update(("content", "path"))
    total = sum(int(line.split()[-1]) for line in lines if f" {word} " in line)
    src, dst = quote(source.path), quote(target)
    return Step(
        instruction=draft.one_of(
            f"Every line of {draft.show(source.path)} ends with a number. Add up these numbers "
            f"for the lines that contain {word}, and write only the sum to {draft.show(target)}.",
            f"Save in {draft.show(target)} the total of the last column of those lines of "
            f"{draft.show(source.path)} that have {word} in them; just the number.",
        ),
        reference=f"grep {word} {src} | awk '{{ s += $NF }} END {{ print s }}' > {dst}",
        near_misses=(
            f"awk '{{ s += $NF }} END {{ print s }}' {src} > {dst}",
            f"grep {word} {src} | awk '{{ s += $1 }} END {{ print s }}' > {dst}",
            f"grep -c {word} {src} > {dst}",
        ),
        assertions=(Content(target, f"{total}\n", trimmed=True), source.kept),
    )


@template("mkdir", "cp", split="train")
def some_files_copied(draft: TaskDraft) -> Step:
    """The files of one kind copied to a new folder."""
    chosen, other = draft.rng.sample(("conf", "sql", "txt", "xml", "key"), 2)
    names = [draft.names.file(chosen) for _ in range(3)]
    rest = [draft.names.file(other) for _ in range(2)]
    texts = {name: text_of(prose(draft.rng, 1)) for name in (*names, *rest)}
    source, target = draft.setup_folder(texts), draft.new_folder()
    src, dst = quote(source), quote(target)
    return Step(
        instruction=draft.one_of(
            f"Create the directory {draft.show(target)} and copy all .{chosen} files from "
            f"{draft.show(source)} into it, no others.",
            f"Back up the *.{chosen} files of {draft.show(source)}: copies of them, and of nothing "
            f"else, belong in a new directory {draft.show(target)}. The originals stay.",
        ),
        reference=f"mkdir {dst}\ncp {src}/*.{chosen} {dst}/",
        near_misses=(
            f"mkdir {dst}\ncp {src}/* {dst}/",
            f"mkdir {dst}\nmv {src}/*.{chosen} {dst}/",
            f"cp {quote(source + '/' + names[0])} {dst}",
            f"mkdir {dst}",
        ),
        assertions=(
            Listing(source, (*names, *rest)),
            Listing(target, tuple(names)),
            *(Unchanged(f"{target}/{name}", digest(texts[name])) for name in names),
        ),
    )


@template("cp", "sed", split="heldout")
def copied_then_changed(draft: TaskDraft) -> Step:
    """A copy is put aside before a file is changed."""
    old, new = draft.names.word() + "4", draft.names.word() + "5"
    lines = prose(draft.rng, 4)
    lines[1], lines[3] = f"{lines[1]} {old}", f"{old} {lines[3]} {old}"
    text = text_of(lines)
    file = draft.setup_file(text, "conf")
    file.locked.update(("content", "path"))
    file.text, file.from_setup = text.replace(old, new), False
    copy = f"{file.path}.bak"
    src, dst = quote(file.path), quote(copy)
    path, aside = draft.show(file.path), draft.show(copy)
    return Step(
        instruction=draft.one_of(
            f"Copy {path} to {aside} and then replace every {old} in {path} by {new}; the copy "
            "keeps the old text.",
            f"Change all occurrences of {old} to {new} in {path}, but keep the file as it is now "
            f"under the name {aside}.",
        ),
        reference=f"cp {src} {dst}\nsed -i 's/{old}/{new}/g' {src}",
        near_misses=(
            f"sed -i 's/{old}/{new}/g' {src}\ncp {src} {dst}",
            f"sed -i 's/{old}/{new}/g' {src}",
            f"cp {src} {dst}\nsed -i 's/{old}/{new}/' {src}",
            f"ln {src} {dst}\nsed 's/{old}/{new}/g' {src} > {src}.new\ncat {src}.new > {src}",
        ),
        assertions=(
            Content(file.path, file.text),
            Unchanged(copy, digest(text)),
            SameFile(copy, file.path, same=False),
        ),
    )


@template("find", "rm", split="heldout")
def old_files_removed(draft: TaskDraft) -> Step:
    """Files last modified before a day go, at any depth."""
    sub, year = draft.names.folder(), draft.rng.randint(2017, 2022)
    old = [draft.names.file(), f"{sub}/{draft.names.file()}"]
    new = [draft.names.file(), f"{sub}/{draft.names.file()}"]
    folder = draft.setup_folder({name: f"{name}\n" for name in (*old, *new)})
    for names, date in ((old, f"{year - 1}-11-20"), (new, f"{year}-02-10")):
        places = " ".join(quote(f"{folder}/{name}") for name in names)
        draft.setup.append(f"touch -d '{date} 12:00 UTC' {places}")
    path, src = draft.show(folder), quote(folder)
    return Step(
        instruction=draft.one_of(
            f"Delete all files below {path}, at any depth, that were last modified before "
            f"{year}-01-01; keep newer files and all directories.",
            f"Files in {path} and its sub-directories whose modification time is earlier than "
            f"1 January {year} are to be removed, and nothing else.",
        ),
        reference=f"find {src} -type f ! -newermt {year}-01-01 -exec rm {{}} +",
        near_misses=(
            f"find {src} -type f -newermt {year}-01-01 -exec rm {{}} +",
            f"find {src} -maxdepth 1 -type f ! -newermt {year}-01-01 -exec rm {{}} +",
            f"find {src} -type f -exec rm {{}} +",
        ),
        assertions=(
            Listing(folder, (sub, *new), recursive=True),
            *(Unchanged(f"{folder}/{name}", digest(f"{name}\n")) for name in new),
        ),
    )


@template("mkdir", "ln", split="heldout")
def release_linked(draft: TaskDraft) -> Step:
    """A new folder, and a link that leads to it."""
    folder, link = draft.new_folder(), draft.new_path("link")
    quoted, name = quote(folder), quote(link)
    return Step(
        instruction=draft.one_of(
            f"Create the directory {draft.show(folder)} and a symbolic link {draft.show(link)} to "
            "it.",
            f"A new directory {draft.show(folder)} must be reachable through the symlink "
            f"{draft.show(link)} as well.",
        ),
        reference=f"mkdir {quoted}\nln -s {quoted} {name}",
        near_misses=(
            f"mkdir {name}\nln -s {name} {quoted}",
            f"ln -s {quoted} {name}",
            f"mkdir {quoted} {name}",
        ),
        assertions=(Type(folder, "folder"), Symlink(link, folder)),
    )


@template("awk", "mv", split="train")
def column_dropped(draft: TaskDraft) -> Step:
    """A file is replaced by two of its columns."""
    rows = [line.split() for line in prose(draft.rng, draft.rng.randint(4, 7))]
    path = f"{draft.root}/{draft.names.file('tsv')}"
    draft.write(path, text_of(["\t".join(row) for row in rows]))
    old = f"{path}.full"
    src, dst, shown = quote(path), quote(old), draft.show(path)
    return Step(
        instruction=draft.one_of(
            f"Move {shown} (columns separated by tabs) to {draft.show(old)} and write its first "
            f"and last column, separated by one space, to {shown}.",
            f"Keep only the first and the last of the tab-separated columns of {shown}, with one "
            f"space between them; the full table is to be kept as {draft.show(old)}.",
        ),
        reference=f"mv {src} {dst}\nawk '{{ print $1, $NF }}' {dst} > {src}",
        near_misses=(
            f"awk '{{ print $1, $NF }}' {src} > {dst}",
            f"mv {src} {dst}\nawk '{{ print $NF, $1 }}' {dst} > {src}",
            f"mv {src} {dst}\ncut -f 1,4 {dst} > {src}",
            f"awk '{{ print $1, $NF }}' {src} > {dst}\nmv {dst} {src}",
        ),
        assertions=(
            Lines(path, tuple(f"{row[0]} {row[-1]}" for row in rows)),
            Unchanged(old, digest(text_of(["\t".join(row) for row in rows]))),
        ),
    )


TEMPLATES = templates_among(globals())
