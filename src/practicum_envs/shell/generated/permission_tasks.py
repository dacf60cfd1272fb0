"""Templates about permissions and ownership."""

from shlex import quote

from practicum_envs.shell.generated.assertions import GroupOwner, Mode, Owner
from practicum_envs.shell.generated.material import mode_text, prose, text_of
from practicum_envs.shell.generated.step import Step, template, templates_among
from practicum_envs.shell.generated.task_draft import TaskDraft

FILE_MODES = (0o400, 0o440, 0o444, 0o600, 0o640, 0o660, 0o664, 0o700, 0o750, 0o755, 0o604, 0o710)


def _given_tree(draft: TaskDraft, count: int) -> tuple[str, list[str], list[str]]:
    """A folder for one step: its path, its sub-folders and its files, with given modes."""
    sub = draft.names.folder()
    names = [draft.names.file() for _ in range(count)]
    files = {
        (f"{sub}/{name}" if at % 2 else name): text_of(prose(draft.rng, 2))
        for at, name in enumerate(names)
    }
    folder = draft.setup_folder(files)
    draft.setup.append(f"chmod -R u=rwX,go=rX {quote(folder)}")
    return folder, [f"{folder}/{sub}"], [f"{folder}/{name}" for name in files]


@template("chmod", split="train")
def exact_mode(draft: TaskDraft) -> Step:
    """A file gets exactly this mode."""
    file = draft.file("mode")
    mode = draft.rng.choice([m for m in FILE_MODES if m != file.mode])
    path, wanted = draft.show(file.path), mode_text(mode, draft.rng)
    file.locked.update(("path", "content"))
    return Step(
        instruction=draft.one_of(
            f"Set the permissions of {path} to {wanted}.",
            f"The permissions of {path} have to be exactly these: {wanted}.",
            f"Change the mode of the file {path} so that it reads {wanted}.",
        ),
        reference=f"chmod {mode:o} {quote(file.path)}",
        near_misses=(
            f"chmod {mode ^ 0o040:o} {quote(file.path)}",
            f"chmod {mode ^ 0o001:o} {quote(file.path)}",
        ),
        assertions=(Mode(file.path, mode), file.kept),
    )


@template("find", "chmod", split="train")
def tree_modes(draft: TaskDraft) -> Step:
    """Folders of a tree get one mode, its files another."""
    folder, subs, files = _given_tree(draft, 4)
    for_folders, for_files = draft.rng.choice(
        ((0o750, 0o640), (0o700, 0o600), (0o755, 0o444), (0o711, 0o604), (0o770, 0o660))
    )
    path = draft.show(folder)
    return Step(
        instruction=draft.one_of(
            f"In {path}, every directory (itself included) gets mode {for_folders:o} and every "
            f"file mode {for_files:o}, at any depth.",
            f"Set all directories from {path} downwards, {path} included, to {for_folders:o} and "
            f"all plain files below it to {for_files:o}.",
            f"Tidy up the permissions of {path} recursively: {for_folders:o} for directories "
            f"(the top one too), {for_files:o} for files.",
        ),
        reference=f"find {quote(folder)} -type d -exec chmod {for_folders:o} {{}} +\n"
        f"find {quote(folder)} -type f -exec chmod {for_files:o} {{}} +",
        near_misses=(
            f"chmod -R {for_folders:o} {quote(folder)}",
            f"chmod -R {for_files:o} {quote(folder)}",
            f"chmod {for_folders:o} {quote(folder)}\nchmod {for_files:o} {quote(folder)}/*.*",
        ),
        assertions=(
            *(Mode(name, for_folders) for name in (folder, *subs)),
            *(Mode(name, for_files) for name in files),
        ),
    )


@template("chmod", split="heldout")
def bits_changed(draft: TaskDraft) -> Step:
    """Some bits change and the others stay."""
    file = draft.setup_file(f"#!/bin/sh\necho {draft.names.word()}\n", "sh")
    before, symbols, words, after = draft.rng.choice(
        (
            (0o640, "u+x", "give the owner execute permission", 0o740),
            (0o664, "o-r", "take read permission away from others", 0o660),
            (0o604, "g+rw", "give the group read and write permission", 0o664),
            (0o755, "go-x", "take execute permission away from the group and from others", 0o744),
            (0o666, "go-w", "take write permission away from the group and from others", 0o644),
            (0o600, "a+r", "let everybody read it", 0o644),
        )
    )
    draft.setup.append(f"chmod {before:o} {quote(file.path)}")
    file.locked.update(("mode", "content", "path"))
    path = draft.show(file.path)
    return Step(
        instruction=draft.one_of(
            f"For {path}, {words}; all other permission bits stay as they are.",
            f"The file {path} needs a small change of permissions, nothing more: {words}.",
            f"Without touching any other permission of {path}: {words}.",
        ),
        reference=f"chmod {symbols} {quote(file.path)}",
        near_misses=(
            f"chmod 777 {quote(file.path)}",
            f"chmod {after ^ 0o020:o} {quote(file.path)}",
            f"chmod {after ^ 0o004:o} {quote(file.path)}",
        ),
        assertions=(Mode(file.path, after), file.kept),
    )


@template("chmod", split="heldout")
def special_bits(draft: TaskDraft) -> Step:
    """A shared folder with the set-group-id or the sticky bit."""
    folder = draft.setup_folder({})
    plain, special, words = draft.rng.choice(
        (
            (0o770, 0o2000, "the set-group-ID bit, so that new files belong to its group"),
            (0o775, 0o2000, "the setgid bit"),
            (0o777, 0o1000, "the sticky bit, so that only owners can delete their files"),
            (0o773, 0o1000, "the sticky bit"),
        )
    )
    path = draft.show(folder)
    return Step(
        instruction=draft.one_of(
            f"Give the directory {path} the permissions {plain:o} and {words}.",
            f"The directory {path} must have mode {plain:o} together with {words}.",
            f"Set the mode of the shared directory {path} to {plain:o}, plus {words}.",
        ),
        reference=f"chmod {special | plain:o} {quote(folder)}",
        near_misses=(
            f"chmod {plain:o} {quote(folder)}",
            f"chmod {special ^ 0o3000 | plain:o} {quote(folder)}",
            f"chmod {special | plain ^ 0o002:o} {quote(folder)}",
        ),
        assertions=(Mode(folder, special | plain),),
    )


@template("chown", split="train")
def owner_and_group(draft: TaskDraft) -> Step:
    """A file gets a new owner and a new group."""
    file = draft.file("owner", "group")
    file.locked.update(("path", "content"))
    user, group = draft.user(), draft.group()
    path, both = draft.show(file.path), f"{user.name}:{group.name}"
    return Step(
        instruction=draft.one_of(
            f"Change the owner of {path} to {user.name} and its group to {group.name}.",
            f"The file {path} must belong to the user {user.name} and the group {group.name}.",
            f"Hand {path} over: owner {user.name}, group {group.name}.",
        ),
        reference=f"chown {both} {quote(file.path)}",
        near_misses=(
            f"chown {user.name} {quote(file.path)}",
            f"chown :{group.name} {quote(file.path)}",
            f"chown {user.name}:{user.name} {quote(file.path)}",
        ),
        assertions=(Owner(file.path, user.name), GroupOwner(file.path, group.name), file.kept),
    )


@template("chown", split="heldout")
def tree_owner(draft: TaskDraft) -> Step:
    """A whole tree changes hands; what lies beside it does not."""
    folder, subs, files = _given_tree(draft, 3)
    user, beside = draft.user(), draft.setup_file(text_of(prose(draft.rng, 2)))
    beside.locked.update(("owner", "path"))
    path, outside = draft.show(folder), draft.show(beside.path)
    return Step(
        instruction=draft.one_of(
            f"Make {user.name} the owner of {path} and of everything in it; {outside} "
            "stays with root.",
            f"Everything from {path} downwards, the directory itself included, must be owned by "
            f"{user.name}. Do not change the owner of {outside}.",
            f"Change the owner of {path} and all its contents, at any depth, to {user.name}, and "
            f"of nothing outside it (so not of {outside}).",
        ),
        reference=f"chown -R {user.name} {quote(folder)}",
        near_misses=(
            f"chown {user.name} {quote(folder)}",
            f"chown -R {user.name} {quote(draft.root)}",
            f"chown {user.name} {quote(folder)}/*",
        ),
        assertions=(
            *(Owner(name, user.name) for name in (folder, *subs, *files)),
            Owner(beside.path, "root"),
        ),
    )


@template("chgrp", split="train")
def only_the_group(draft: TaskDraft) -> Step:
    """A file's group changes and its owner does not."""
    file = draft.file("owner", "group")
    file.locked.update(("path", "content"))
    group, wrong = draft.group(), draft.setup_group()
    path = draft.show(file.path)
    return Step(
        instruction=draft.one_of(
            f"Change the group of {path} to {group.name} and leave its owner alone.",
            f"The file {path} should belong to the group {group.name}; its owner stays root.",
            f"Assign {path} to the group {group.name} (the owner must not change).",
        ),
        reference=f"chgrp {group.name} {quote(file.path)}",
        near_misses=(
            f"chgrp {wrong.name} {quote(file.path)}",
            f"chown nobody:{group.name} {quote(file.path)}",
        ),
        assertions=(GroupOwner(file.path, group.name), Owner(file.path, "root")),
    )


@template("chgrp", split="heldout")
def group_of_some_files(draft: TaskDraft) -> Step:
    """The files of one kind in a folder get a group, the others keep theirs."""
    chosen, other = draft.rng.sample(("conf", "csv", "log", "key", "sql", "txt"), 2)
    names = [draft.names.file(chosen) for _ in range(3)]
    rest = [draft.names.file(other) for _ in range(2)]
    folder = draft.setup_folder({name: f"{name}\n" for name in (*names, *rest)})
    group, path = draft.group(), draft.show(folder)
    return Step(
        instruction=draft.one_of(
            f"All files in {path} whose names end in .{chosen} must belong to the group "
            f"{group.name}; leave the other files as they are.",
            f"Change the group of the .{chosen} files in {path} to {group.name}, and of no other "
            "file there.",
            f"Give the group {group.name} to every *.{chosen} file in the directory {path}. "
            "Nothing else in it changes its group.",
        ),
        reference=f"chgrp {group.name} {quote(folder)}/*.{chosen}",
        near_misses=(
            f"chgrp -R {group.name} {quote(folder)}",
            f"chgrp {group.name} {quote(folder + '/' + names[0])}",
            f"chgrp {group.name} {quote(folder)}/*.{other}",
        ),
        assertions=(
            *(GroupOwner(f"{folder}/{name}", group.name) for name in names),
            *(GroupOwner(f"{folder}/{name}", "root") for name in rest),
        ),
    )


TEMPLATES = templates_among(globals())
