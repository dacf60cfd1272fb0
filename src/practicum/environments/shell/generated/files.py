"""Templates about files and folders: made, copied, moved, removed."""

import posixpath
from datetime import UTC, datetime, timedelta
from shlex import quote

from practicum.environments.shell.generated.assertions import (
    Absent,
    Content,
    Listing,
    Mode,
    Modified,
    SameFile,
    Type,
    Unchanged,
    digest,
)
from practicum.environments.shell.generated.material import prose, text_of
from practicum.environments.shell.generated.step import Step, Template, template
from practicum.environments.shell.generated.story import Story, Thing
from practicum.environments.shell.generated.wording import and_list

__all__ = ["TEMPLATES"]


@template("mkdir", split="train")
def nested_folders(story: Story) -> Step:
    """A path of new folders, and one beside its end."""
    top = story.new_folder()
    deep = f"{top}/{story.names.place()}/{story.names.place()}"
    side = f"{top}/{story.names.place()}"
    story.add_place(deep)
    story.add_place(side)
    return Step(
        told=story.say(
            f"Create the directories {story.show(deep)} and {story.show(side)}, with every missing "
            "directory above them.",
            f"These directories must exist, parents included: {story.show(deep)} and "
            f"{story.show(side)}.",
            f"Make the directory {story.show(deep)} (none of its last three levels exists yet), "
            f"and also {story.show(side)}.",
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
def private_folder(story: Story) -> Step:
    """A new folder with a mode of its own."""
    folder = story.new_folder()
    mode = story.chance.choice((0o700, 0o750, 0o711, 0o770))
    story.add_place(folder)
    path = story.show(folder)
    return Step(
        told=story.say(
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
def empty_files(story: Story) -> Step:
    """Two or three new empty files."""
    paths = [story.new_path() for _ in range(story.chance.randint(2, 3))]
    for path in paths:
        story.add(Thing(path, "", locked={"content"}))
    shown, quoted = and_list([story.show(path) for path in paths]), [quote(p) for p in paths]
    return Step(
        told=story.say(
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
def file_dated(story: Story) -> Step:
    """A file gets a time of modification."""
    thing = story.give_file(text_of(prose(story.chance, 3)))
    thing.locked.update(("content", "place"))
    time = datetime(2019, 1, 1, tzinfo=UTC) + timedelta(
        days=story.chance.randrange(1500), minutes=story.chance.randrange(1440)
    )
    when, path = f"{time:%Y-%m-%d %H:%M:00} UTC", story.show(thing.path)
    return Step(
        told=story.say(
            f"Set the modification time of {path} to {when} and keep its content.",
            f"The file {path} must look as if it was last modified at {when}; what is in it does "
            "not change.",
            f"Give {path} the modification time {when}, content untouched.",
        ),
        reference=f"touch -m -d '{when}' {quote(thing.path)}",
        near_misses=(
            f"touch -m -d '{time + timedelta(days=1):%Y-%m-%d %H:%M:00} UTC' {quote(thing.path)}",
            f"touch {quote(thing.path)}",
            f"touch -a -d '{when}' {quote(thing.path)}",
        ),
        assertions=(Modified(thing.path, int(time.timestamp())), thing.kept),
    )


@template("cp", split="train")
def file_copied(story: Story) -> Step:
    """A copy of a file beside the file itself."""
    source = story.file()
    source.locked.update(("content", "place"))
    copy = story.new_path(story.say("bak", "copy", "orig", "txt"))
    story.add(Thing(copy, source.text, locked={"content", "place"}))
    one, other = quote(source.path), quote(copy)
    return Step(
        told=story.say(
            f"Copy {story.show(source.path)} to {story.show(copy)}.",
            f"Keep a separate copy of {story.show(source.path)} under the name "
            f"{story.show(copy)}; the original stays as it is.",
            f"There should be a second, independent file {story.show(copy)} with the same content "
            f"as {story.show(source.path)}.",
        ),
        reference=f"cp {one} {other}",
        near_misses=(f"mv {one} {other}", f"ln {one} {other}", f"ln -s {one} {other}"),
        assertions=(
            source.kept,
            Content(copy, source.text),
            SameFile(copy, source.path, same=False),
        ),
    )


@template("cp", split="heldout")
def tree_copied(story: Story) -> Step:
    """A copy of a folder, hidden files and sub-folders included."""
    sub, hidden = story.names.place(), f".{story.names.word()}"
    files = {
        story.names.file(): text_of(prose(story.chance, 2)),
        f"{sub}/{story.names.file()}": text_of(prose(story.chance, 2)),
        hidden: f"{story.names.word()}={story.chance.randint(1, 999)}\n",
    }
    source, copy = story.give_folder(files), story.new_folder()
    names = (sub, *files)
    one, other = quote(source), quote(copy)
    return Step(
        told=story.say(
            f"Copy the directory {story.show(source)} with everything in it to {story.show(copy)}, "
            "which does not exist yet.",
            f"Make {story.show(copy)} a full copy of the directory {story.show(source)}: all "
            "sub-directories and files, hidden ones too. The source stays.",
            f"Duplicate {story.show(source)} as {story.show(copy)} (recursively, hidden files "
            "included).",
        ),
        reference=f"cp -a {one} {other}",
        near_misses=(
            f"mkdir {other}; cp -r {one}/* {other}/",
            f"mkdir {other}; cp -r {one} {other}/",
            f"mv {one} {other}",
            f"ln -s {one} {other}",
        ),
        assertions=(
            Listing(source, names, recursive=True),
            Listing(copy, names, recursive=True),
            *(Unchanged(f"{place}/{name}", digest(text))
              for place in (source, copy) for name, text in files.items()),
        ),
    )  # fmt: skip


@template("mv", split="train")
def file_renamed(story: Story) -> Step:
    """A file gets another name."""
    thing = story.file("place", "content")
    old, new = thing.path, story.new_path()
    thing.path = new
    return Step(
        told=story.say(
            f"Rename {story.show(old)} to {story.show(new)}.",
            f"Move the file {story.show(old)} so that it becomes {story.show(new)}; nothing stays "
            "behind under the old name.",
            f"The file {story.show(old)} must be called {story.show(new)} from now on.",
        ),
        reference=f"mv {quote(old)} {quote(new)}",
        near_misses=(
            f"cp {quote(old)} {quote(new)}",
            f"mv {quote(old)} {quote(new + '.1')}",
            f"rm {quote(old)}; touch {quote(new)}",
        ),
        assertions=(Absent(old), thing.kept),
    )


@template("mv", split="heldout")
def some_files_moved(story: Story) -> Step:
    """The files of one kind move to another folder."""
    chosen, other = story.chance.sample(("log", "csv", "txt", "xml", "json", "png"), 2)
    names = [story.names.file(chosen) for _ in range(3)]
    rest = [story.names.file(other) for _ in range(2)]
    texts = {name: text_of(prose(story.chance, 1)) for name in (*names, *rest)}
    source, target = story.give_folder(texts), story.give_folder({})
    one, two = quote(source), quote(target)
    return Step(
        told=story.say(
            f"Move all .{chosen} files from {story.show(source)} to {story.show(target)}; leave "
            "the other files where they are.",
            f"The files in {story.show(source)} whose names end in .{chosen} belong in "
            f"{story.show(target)}: move them there under the same names, and only them.",
            f"Every *.{chosen} file of the directory {story.show(source)} goes to the existing "
            f"directory {story.show(target)}, nothing else does.",
        ),
        reference=f"mv {one}/*.{chosen} {two}/",
        near_misses=(
            f"cp {one}/*.{chosen} {two}/",
            f"mv {one}/* {two}/",
            f"mv {quote(source + '/' + names[0])} {two}/",
        ),
        assertions=(
            Listing(source, tuple(rest)),
            Listing(target, tuple(names)),
            *(Unchanged(f"{target}/{name}", digest(texts[name])) for name in names),
        ),
    )


@template("rm", split="train")
def some_files_removed(story: Story) -> Step:
    """The files of one kind go, the others stay."""
    chosen, other = story.chance.sample(("tmp", "bak", "old", "log", "cache", "txt"), 2)
    names = [story.names.file(chosen) for _ in range(story.chance.randint(2, 3))]
    rest = [story.names.file(other) for _ in range(2)]
    folder = story.give_folder({name: f"{name}\n" for name in (*names, *rest)})
    path, one = story.show(folder), quote(folder)
    return Step(
        told=story.say(
            f"Delete all files in {path} whose names end in .{chosen}, and no others.",
            f"The .{chosen} files in {path} are not needed any more: remove them and keep "
            "everything else.",
            f"Clean up the directory {path}: every *.{chosen} file goes, the rest stays.",
        ),
        reference=f"rm {one}/*.{chosen}",
        near_misses=(
            f"rm {one}/*",
            f"rm {quote(folder + '/' + names[-1])}",
            f"rm {one}/*.{other}",
        ),
        assertions=(
            Listing(folder, tuple(rest)),
            *(Unchanged(f"{folder}/{name}", digest(f"{name}\n")) for name in rest),
        ),
    )


@template("rm", split="heldout")
def folder_removed(story: Story) -> Step:
    """A folder goes with all that is in it; its neighbour with a similar name stays."""
    sub, name = story.names.place(), story.names.file()
    parent = story.give_folder({f"{sub}/{name}": "x\n", f"{sub}-keep/{name}": f"{name}\n"})
    path = f"{parent}/{sub}"
    return Step(
        told=story.say(
            f"Delete the directory {story.show(path)} with everything in it, but not "
            f"{story.show(path + '-keep')}.",
            f"Nothing of {story.show(path)} may be left, neither the directory nor its files; "
            f"{story.show(path + '-keep')} stays untouched.",
            f"Remove {story.show(path)} completely, and nothing else in {story.show(parent)}.",
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
def dashed_file_removed(story: Story) -> Step:
    """A file whose name looks like an option goes, the one without the dash stays."""
    name = story.names.file()
    folder = story.give_folder({f"-{name}": "surplus\n", name: f"{name}\n"})
    path, dashed = story.show(folder), story.show(f"-{name}")
    return Step(
        told=story.say(
            f"In {path} there is a file called {dashed} (with a leading dash). Delete it; "
            f"{story.show(name)} without the dash stays.",
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


TEMPLATES: tuple[Template, ...] = (
    nested_folders,
    private_folder,
    empty_files,
    file_dated,
    file_copied,
    tree_copied,
    file_renamed,
    some_files_moved,
    some_files_removed,
    folder_removed,
    dashed_file_removed,
)
