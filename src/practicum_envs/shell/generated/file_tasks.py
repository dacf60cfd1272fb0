"""Templates about files and folders: made, copied, moved, removed, found, listed."""

import posixpath
from datetime import UTC, datetime, timedelta
from shlex import quote

from practicum_envs.shell.generated.assertions import (
    Absent,
    Content,
    Lines,
    Listing,
    Mode,
    Modified,
    SameFile,
    Type,
    Unchanged,
    digest,
)
from practicum_envs.shell.generated.material import and_list, prose, text_of
from practicum_envs.shell.generated.step import Step, template, templates_among
from practicum_envs.shell.generated.task_draft import TaskDraft, TaskFile


@template("mkdir", split="train")
def nested_folders(draft: TaskDraft) -> Step:
    """A path of new folders, and one beside its end."""
    top = draft.new_folder()
    deep = f"{top}/{draft.names.folder()}/{draft.names.folder()}"
    side = f"{top}/{draft.names.folder()}"
    draft.add_folder(deep)
    draft.add_folder(side)
    return Step(
        instruction=draft.one_of(
            f"Create the directories {draft.show(deep)} and {draft.show(side)}, with every missing "
            "directory above them.",
            f"These directories must exist, parents included: {draft.show(deep)} and "
            f"{draft.show(side)}.",
            f"Make the directory {draft.show(deep)} (none of its last three levels exists yet), "
            f"and also {draft.show(side)}.",
        ),
        reference=f"mkdir -p {quote(deep)} {quote(side)}",
        near_misses=(
            f"mkdir -p {quote(deep)}",
            f"mkdir -p {quote(side)}\ntouch {quote(posixpath.dirname(deep))}",
            f"mkdir -p {quote(deep)}\ntouch {quote(side)}",
        ),
        assertions=(Type(deep, "folder"), Type(side, "folder")),
    )


@template("mkdir", split="heldout")
def private_folder(draft: TaskDraft) -> Step:
    """A new folder with a mode of its own."""
    folder = draft.new_folder()
    mode = draft.rng.choice((0o700, 0o750, 0o711, 0o770))
    draft.add_folder(folder)
    path = draft.show(folder)
    return Step(
        instruction=draft.one_of(
            f"Create the directory {path} with mode {mode:o}.",
            f"We need a new directory {path}; its permissions must be {mode:o}.",
            f"Make a directory {path} that has exactly the permissions {mode:o}.",
        ),
        reference=f"mkdir -m {mode:o} {quote(folder)}",
        near_misses=(
            f"mkdir {quote(folder)}",
            f"mkdir -m {mode ^ 0o005:o} {quote(folder)}",
            f"touch {quote(folder)}; chmod {mode:o} {quote(folder)}",
        ),
        assertions=(Type(folder, "folder"), Mode(folder, mode)),
    )


@template("touch", split="train")
def empty_files(draft: TaskDraft) -> Step:
    """Two or three new empty files."""
    paths = [draft.new_path() for _ in range(draft.rng.randint(2, 3))]
    for path in paths:
        draft.add(TaskFile(path, "", locked={"content"}))
    shown, quoted = and_list([draft.show(path) for path in paths]), [quote(p) for p in paths]
    return Step(
        instruction=draft.one_of(
            f"Create the empty files {shown}.",
            f"Empty files are needed as placeholders: {shown}.",
            f"Make these files, each with nothing in it: {shown}.",
        ),
        reference=f"touch {' '.join(quoted)}",
        near_misses=(
            f"touch {' '.join(quoted[1:])}",
            "\n".join(f"echo placeholder > {name}" for name in quoted),
            f"mkdir -p {' '.join(quoted)}",
        ),
        assertions=tuple(Unchanged(path, digest("")) for path in paths),
    )


@template("touch", split="heldout")
def file_dated(draft: TaskDraft) -> Step:
    """A file gets a time of modification."""
    file = draft.setup_file(text_of(prose(draft.rng, 3)))
    file.locked.update(("content", "path"))
    time = datetime(2019, 1, 1, tzinfo=UTC) + timedelta(
        days=draft.rng.randrange(1500), minutes=draft.rng.randrange(1440)
    )
    when, path = f"{time:%Y-%m-%d %H:%M:00} UTC", draft.show(file.path)
    return Step(
        instruction=draft.one_of(
            f"Set the modification time of {path} to {when} and keep its content.",
            f"The file {path} must look as if it was last modified at {when}; what is in it does "
            "not change.",
            f"Give {path} the modification time {when}, content untouched.",
        ),
        reference=f"touch -m -d '{when}' {quote(file.path)}",
        near_misses=(
            f"touch -m -d '{time + timedelta(days=1):%Y-%m-%d %H:%M:00} UTC' {quote(file.path)}",
            f"touch {quote(file.path)}",
            f"touch -a -d '{when}' {quote(file.path)}",
        ),
        assertions=(Modified(file.path, int(time.timestamp())), file.kept),
    )


@template("cp", split="train")
def file_copied(draft: TaskDraft) -> Step:
    """A copy of a file beside the file itself."""
    source = draft.file()
    source.locked.update(("content", "path"))
    copy = draft.new_path(draft.one_of("bak", "copy", "orig", "txt"))
    draft.add(TaskFile(copy, source.text, locked={"content", "path"}))
    src, dst = quote(source.path), quote(copy)
    return Step(
        instruction=draft.one_of(
            f"Copy {draft.show(source.path)} to {draft.show(copy)}.",
            f"Keep a separate copy of {draft.show(source.path)} under the name "
            f"{draft.show(copy)}; the original stays as it is.",
            f"There should be a second, independent file {draft.show(copy)} with the same content "
            f"as {draft.show(source.path)}.",
        ),
        reference=f"cp {src} {dst}",
        near_misses=(f"mv {src} {dst}", f"ln {src} {dst}", f"ln -s {src} {dst}"),
        assertions=(
            source.kept,
            Content(copy, source.text),
            SameFile(copy, source.path, same=False),
        ),
    )


@template("cp", split="heldout")
def tree_copied(draft: TaskDraft) -> Step:
    """A copy of a folder, hidden files and sub-folders included."""
    sub, hidden = draft.names.folder(), f".{draft.names.word()}"
    files = {
        draft.names.file(): text_of(prose(draft.rng, 2)),
        f"{sub}/{draft.names.file()}": text_of(prose(draft.rng, 2)),
        hidden: f"{draft.names.word()}={draft.rng.randint(1, 999)}\n",
    }
    source, copy = draft.setup_folder(files), draft.new_folder()
    names = (sub, *files)
    src, dst = quote(source), quote(copy)
    return Step(
        instruction=draft.one_of(
            f"Copy the directory {draft.show(source)} with everything in it to {draft.show(copy)}, "
            "which does not exist yet.",
            f"Make {draft.show(copy)} a full copy of the directory {draft.show(source)}: all "
            "sub-directories and files, hidden ones too. The source stays.",
            f"Duplicate {draft.show(source)} as {draft.show(copy)} (recursively, hidden files "
            "included).",
        ),
        reference=f"cp -a {src} {dst}",
        near_misses=(
            f"mkdir {dst}; cp -r {src}/* {dst}/",
            f"mkdir {dst}; cp -r {src} {dst}/",
            f"mv {src} {dst}",
            f"ln -s {src} {dst}",
        ),
        assertions=(
            Listing(source, names, recursive=True),
            Listing(copy, names, recursive=True),
            *(Unchanged(f"{place}/{name}", digest(text))
              for place in (source, copy) for name, text in files.items()),
        ),
    )  # fmt: skip


@template("mv", split="train")
def file_renamed(draft: TaskDraft) -> Step:
    """A file gets another name."""
    file = draft.file("path", "content")
    old, new = file.path, draft.new_path()
    file.path = new
    return Step(
        instruction=draft.one_of(
            f"Rename {draft.show(old)} to {draft.show(new)}.",
            f"Move the file {draft.show(old)} so that it becomes {draft.show(new)}; nothing stays "
            "behind under the old name.",
            f"The file {draft.show(old)} must be called {draft.show(new)} from now on.",
        ),
        reference=f"mv {quote(old)} {quote(new)}",
        near_misses=(
            f"cp {quote(old)} {quote(new)}",
            f"mv {quote(old)} {quote(new + '.1')}",
            f"rm {quote(old)}; touch {quote(new)}",
        ),
        assertions=(Absent(old), file.kept),
    )


@template("mv", split="heldout")
def some_files_moved(draft: TaskDraft) -> Step:
    """The files of one kind move to another folder."""
    chosen, other = draft.rng.sample(("log", "csv", "txt", "xml", "json", "png"), 2)
    names = [draft.names.file(chosen) for _ in range(3)]
    rest = [draft.names.file(other) for _ in range(2)]
    texts = {name: text_of(prose(draft.rng, 1)) for name in (*names, *rest)}
    source, target = draft.setup_folder(texts), draft.setup_folder({})
    src, dst = quote(source), quote(target)
    return Step(
        instruction=draft.one_of(
            f"Move all .{chosen} files from {draft.show(source)} to {draft.show(target)}; leave "
            "the other files where they are.",
            f"The files in {draft.show(source)} whose names end in .{chosen} belong in "
            f"{draft.show(target)}: move them there under the same names, and only them.",
            f"Every *.{chosen} file of the directory {draft.show(source)} goes to the existing "
            f"directory {draft.show(target)}, nothing else does.",
        ),
        reference=f"mv {src}/*.{chosen} {dst}/",
        near_misses=(
            f"cp {src}/*.{chosen} {dst}/",
            f"mv {src}/* {dst}/",
            f"mv {quote(source + '/' + names[0])} {dst}/",
        ),
        assertions=(
            Listing(source, tuple(rest)),
            Listing(target, tuple(names)),
            *(Unchanged(f"{target}/{name}", digest(texts[name])) for name in names),
        ),
    )


@template("rm", split="train")
def some_files_removed(draft: TaskDraft) -> Step:
    """The files of one kind go, the others stay."""
    chosen, other = draft.rng.sample(("tmp", "bak", "old", "log", "cache", "txt"), 2)
    names = [draft.names.file(chosen) for _ in range(draft.rng.randint(2, 3))]
    rest = [draft.names.file(other) for _ in range(2)]
    folder = draft.setup_folder({name: f"{name}\n" for name in (*names, *rest)})
    path, src = draft.show(folder), quote(folder)
    return Step(
        instruction=draft.one_of(
            f"Delete all files in {path} whose names end in .{chosen}, and no others.",
            f"The .{chosen} files in {path} are not needed any more: remove them and keep "
            "everything else.",
            f"Clean up the directory {path}: every *.{chosen} file goes, the rest stays.",
        ),
        reference=f"rm {src}/*.{chosen}",
        near_misses=(
            f"rm {src}/*",
            f"rm {quote(folder + '/' + names[-1])}",
            f"rm {src}/*.{other}",
        ),
        assertions=(
            Listing(folder, tuple(rest)),
            *(Unchanged(f"{folder}/{name}", digest(f"{name}\n")) for name in rest),
        ),
    )


@template("rm", split="heldout")
def folder_removed(draft: TaskDraft) -> Step:
    """A folder goes with all that is in it; its neighbour with a similar name stays."""
    sub, name = draft.names.folder(), draft.names.file()
    parent = draft.setup_folder({f"{sub}/{name}": "x\n", f"{sub}-keep/{name}": f"{name}\n"})
    path = f"{parent}/{sub}"
    return Step(
        instruction=draft.one_of(
            f"Delete the directory {draft.show(path)} with everything in it, but not "
            f"{draft.show(path + '-keep')}.",
            f"Nothing of {draft.show(path)} may be left, neither the directory nor its files; "
            f"{draft.show(path + '-keep')} stays untouched.",
            f"Remove {draft.show(path)} completely, and nothing else in {draft.show(parent)}.",
        ),
        reference=f"rm -r {quote(path)}",
        near_misses=(
            f"rm -r {quote(path)}/*",
            f"rm -r {quote(path)}*",
            f"rm -r {quote(parent)}",
        ),
        assertions=(
            Absent(path),
            Unchanged(f"{path}-keep/{name}", digest(f"{name}\n")),
        ),
    )


@template("rm", split="heldout")
def dashed_file_removed(draft: TaskDraft) -> Step:
    """A file whose name looks like an option goes, the one without the dash stays."""
    name = draft.names.file()
    folder = draft.setup_folder({f"-{name}": "surplus\n", name: f"{name}\n"})
    path, dashed = draft.show(folder), draft.show(f"-{name}")
    return Step(
        instruction=draft.one_of(
            f"In {path} there is a file called {dashed} (with a leading dash). Delete it; "
            f"{draft.show(name)} without the dash stays.",
            f"Remove the file {dashed} from the directory {path}. Mind the dash its name begins "
            "with: the file without it must survive.",
        ),
        reference=f"rm -- {quote(folder + '/-' + name)}",
        near_misses=(
            f"rm {quote(folder + '/' + name)}",
            f"rm {quote(folder)}/*",
            f"mv {quote(folder + '/-' + name)} {quote(folder + '/' + name)}",
        ),
        assertions=(
            Listing(folder, (name,)),
            Unchanged(f"{folder}/{name}", digest(f"{name}\n")),
        ),
    )


TEMPLATES = templates_among(globals())


@template("find", split="train")
def files_listed_by_ending(draft: TaskDraft) -> Step:
    """The paths of all files with an ending, at any depth; a folder has that ending too."""
    chosen, other = draft.rng.sample(("log", "csv", "conf", "md", "yml"), 2)
    sub, deep = draft.names.folder(), draft.names.folder()
    names = [
        draft.names.file(chosen),
        f"{sub}/{draft.names.file(chosen)}",
        f"{sub}/{deep}/{draft.names.file(chosen)}",
    ]
    rest = [draft.names.file(other), f"{sub}/{draft.names.file(other)}"]
    trap = f"{deep}.{chosen}"
    folder = draft.setup_folder(dict.fromkeys((*names, *rest, f"{trap}/empty.dat"), "x\n"))
    target = draft.new_path("txt")
    src, dst = quote(folder), quote(target)
    return Step(
        instruction=draft.one_of(
            f"Write the full paths of all plain files below {draft.show(folder)}, at any depth, "
            f"whose names end in .{chosen} to {draft.show(target)}, one per line, in any order.",
            f"Search {draft.show(folder)} and all its sub-directories for files (not directories) "
            f"named *.{chosen}. Save their absolute paths in {draft.show(target)}, a line each; "
            "the order does not matter.",
            f"List every .{chosen} file under {draft.show(folder)}, however deep, with its "
            f"absolute path, one per line, in the file {draft.show(target)}. Directories do not "
            "count.",
        ),
        reference=f"find {src} -type f -name '*.{chosen}' > {dst}",
        near_misses=(
            f"find {src} -name '*.{chosen}' > {dst}",
            f"find {src} -maxdepth 1 -type f -name '*.{chosen}' > {dst}",
            f"find {src} -type f > {dst}",
            f"( cd {src} && find . -type f -name '*.{chosen}' ) > {dst}",
        ),
        assertions=(Lines(target, tuple(f"{folder}/{name}" for name in names), ordered=False),),
    )


@template("find", split="heldout")
def empty_files_deleted(draft: TaskDraft) -> Step:
    """Empty files go, at any depth; an empty folder and a file with one byte stay."""
    sub, bare = draft.names.folder(), draft.names.folder()
    empty = [draft.names.file(), f"{sub}/{draft.names.file()}"]
    full = [draft.names.file(), f"{sub}/{draft.names.file()}"]
    tree = {**dict.fromkeys(empty, ""), full[0]: "x", full[1]: text_of(prose(draft.rng, 2))}
    folder = draft.setup_folder(tree)
    draft.setup.append(f"mkdir {quote(folder + '/' + bare)}")
    path, src = draft.show(folder), quote(folder)
    return Step(
        instruction=draft.one_of(
            f"Delete all empty files below {path}, at any depth. Keep everything else, empty "
            "directories too.",
            f"Files of zero bytes anywhere under {path} must go; other files and all directories "
            "stay.",
            f"Find every empty plain file in {path} and its sub-directories and remove it, and "
            "remove nothing else.",
        ),
        reference=f"find {src} -type f -empty -delete",
        near_misses=(
            f"find {src} -empty -delete",
            f"find {src} -maxdepth 1 -type f -empty -delete",
            f"find {src} -type f -size -2 -delete",
        ),
        assertions=(Listing(folder, (sub, bare, *full), recursive=True),),
    )


@template("find", split="heldout")
def large_files_moved(draft: TaskDraft) -> Step:
    """The files above a size move to another folder; one has exactly that size."""
    limit = draft.rng.choice((1000, 2000, 3000))
    names = [draft.names.file("dat") for _ in range(4)]
    sizes = (limit + 1, limit + draft.rng.randint(50, 900), limit, limit // 2)
    folder, target = draft.setup_folder({}), draft.setup_folder({})
    for name, size in zip(names, sizes, strict=True):
        draft.setup.append(f"head -c {size} /dev/zero > {quote(folder + '/' + name)}")
    src, dst = quote(folder), quote(target)
    return Step(
        instruction=draft.one_of(
            f"Move all files in {draft.show(folder)} that are larger than {limit} bytes to "
            f"{draft.show(target)}.",
            f"Files of more than {limit} bytes (not {limit} itself) in {draft.show(folder)} belong "
            f"in {draft.show(target)}: move them there under the same names and leave the others.",
        ),
        reference=f"find {src} -type f -size +{limit}c -exec mv {{}} {dst}/ \\;",
        near_misses=(
            f"find {src} -type f -size +{limit - 1}c -exec mv {{}} {dst}/ \\;",
            f"find {src} -type f -size +{limit}c -exec cp {{}} {dst}/ \\;",
            f"find {src} -type f -size -{limit}c -exec mv {{}} {dst}/ \\;",
        ),
        assertions=(Listing(folder, tuple(names[2:])), Listing(target, tuple(names[:2]))),
    )


@template("ls", split="train")
def names_listed(draft: TaskDraft) -> Step:
    """The names in a folder, sorted, without the hidden ones."""
    names = [draft.names.file() for _ in range(draft.rng.randint(3, 5))]
    hidden = f".{draft.names.word()}"
    folder = draft.setup_folder({name: f"{name}\n" for name in (*names, hidden)})
    target = draft.new_path("txt")
    src, dst = quote(folder), quote(target)
    return Step(
        instruction=draft.one_of(
            f"Save the names of the files in {draft.show(folder)}, one per line and without hidden "
            f"ones, in {draft.show(target)}.",
            f"Write a list of what is in the directory {draft.show(folder)} to "
            f"{draft.show(target)}: only the names, one on each line, no names that begin with a "
            "dot.",
            f"The file {draft.show(target)} must list the non-hidden entries of "
            f"{draft.show(folder)} by bare name, one per line.",
        ),
        reference=f"ls -1 {src} > {dst}",
        near_misses=(
            f"ls -1A {src} > {dst}",
            f"ls -l {src} > {dst}",
            f"ls -1 {src} | tail -n +2 > {dst}",
        ),
        assertions=(Lines(target, tuple(names), ordered=False),),
    )


@template("ls", split="heldout")
def names_by_date_or_size(draft: TaskDraft) -> Step:
    """The names in a folder, newest or largest first."""
    names = [draft.names.file() for _ in range(4)]
    folder, target = draft.setup_folder({}), draft.new_path("txt")
    days = sorted(draft.rng.sample(range(10, 29), 4), reverse=True)
    sizes = sorted(draft.rng.sample(range(10, 90), 4), reverse=True)
    option, words = draft.rng.choice(
        (("-t", "the most recently modified first"), ("-S", "the largest first"))
    )
    draft.rng.shuffle(days if option == "-S" else sizes)
    for name, day, size in zip(names, days, sizes, strict=True):
        path = quote(f"{folder}/{name}")
        draft.setup.append(f"head -c {size} /dev/zero > {path}")
        draft.setup.append(f"touch -d '2023-05-{day} 12:00 UTC' {path}")
    src, dst = quote(folder), quote(target)
    return Step(
        instruction=draft.one_of(
            f"Write the names of the files in {draft.show(folder)} to {draft.show(target)}, one "
            f"per line, {words}.",
            f"List the files of {draft.show(folder)} by name in {draft.show(target)}, sorted so "
            f"that {words.replace('first', 'comes first')}; one name per line, nothing else.",
        ),
        reference=f"ls -1 {option} {src} > {dst}",
        near_misses=(
            f"ls -1 {option} -r {src} > {dst}",
            f"ls -l {option} {src} > {dst}",
            f"ls -1 {option} {src} | head -n 3 > {dst}",
        ),
        assertions=(Lines(target, tuple(names)),),
    )


FINDING_TEMPLATES = templates_among(globals())[len(TEMPLATES) :]
