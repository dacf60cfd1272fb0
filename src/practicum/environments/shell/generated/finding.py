"""Templates about finding and listing files."""

from shlex import quote

from practicum.environments.shell.generated.assertions import Lines, Listing
from practicum.environments.shell.generated.material import prose, text_of
from practicum.environments.shell.generated.step import Step, Template, template
from practicum.environments.shell.generated.story import Story

__all__ = ["TEMPLATES"]


@template("find", split="train")
def files_listed_by_ending(story: Story) -> Step:
    """The paths of all files with an ending, at any depth; a folder has that ending too."""
    chosen, other = story.chance.sample(("log", "csv", "conf", "md", "yml"), 2)
    sub, deep = story.names.place(), story.names.place()
    names = [
        story.names.file(chosen),
        f"{sub}/{story.names.file(chosen)}",
        f"{sub}/{deep}/{story.names.file(chosen)}",
    ]
    rest = [story.names.file(other), f"{sub}/{story.names.file(other)}"]
    trap = f"{deep}.{chosen}"
    folder = story.give_folder(dict.fromkeys((*names, *rest, f"{trap}/empty.dat"), "x\n"))
    target = story.new_path("txt")
    one, out = quote(folder), quote(target)
    return Step(
        told=story.say(
            f"Write the full paths of all plain files below {story.show(folder)}, at any depth, "
            f"whose names end in .{chosen} to {story.show(target)}, one per line, in any order.",
            f"Search {story.show(folder)} and all its sub-directories for files (not directories) "
            f"named *.{chosen}. Save their absolute paths in {story.show(target)}, a line each; "
            "the order does not matter.",
            f"List every .{chosen} file under {story.show(folder)}, however deep, with its "
            f"absolute path, one per line, in the file {story.show(target)}. Directories do not "
            "count.",
        ),
        reference=f"find {one} -type f -name '*.{chosen}' > {out}",
        near_misses=(
            f"find {one} -name '*.{chosen}' > {out}",
            f"find {one} -maxdepth 1 -type f -name '*.{chosen}' > {out}",
            f"find {one} -type f > {out}",
            f"( cd {one} && find . -type f -name '*.{chosen}' ) > {out}",
        ),
        assertions=(Lines(target, tuple(f"{folder}/{name}" for name in names), ordered=False),),
    )


@template("find", split="heldout")
def empty_files_deleted(story: Story) -> Step:
    """Empty files go, at any depth; an empty folder and a file with one byte stay."""
    sub, bare = story.names.place(), story.names.place()
    empty = [story.names.file(), f"{sub}/{story.names.file()}"]
    full = [story.names.file(), f"{sub}/{story.names.file()}"]
    tree = {**dict.fromkeys(empty, ""), full[0]: "x", full[1]: text_of(prose(story.chance, 2))}
    folder = story.give_folder(tree)
    story.setup.append(f"mkdir {quote(folder + '/' + bare)}")
    path, one = story.show(folder), quote(folder)
    return Step(
        told=story.say(
            f"Delete all empty files below {path}, at any depth. Keep everything else, empty "
            "directories too.",
            f"Files of zero bytes anywhere under {path} must go; other files and all directories "
            "stay.",
            f"Find every empty plain file in {path} and its sub-directories and remove it, and "
            "remove nothing else.",
        ),
        reference=f"find {one} -type f -empty -delete",
        near_misses=(
            f"find {one} -empty -delete",
            f"find {one} -maxdepth 1 -type f -empty -delete",
            f"find {one} -type f -size -2 -delete",
        ),
        assertions=(Listing(folder, (sub, bare, *full), recursive=True),),
    )


@template("find", split="heldout")
def large_files_moved(story: Story) -> Step:
    """The files above a size move to another folder; one has exactly that size."""
    limit = story.chance.choice((1000, 2000, 3000))
    names = [story.names.file("dat") for _ in range(4)]
    sizes = (limit + 1, limit + story.chance.randint(50, 900), limit, limit // 2)
    folder, target = story.give_folder({}), story.give_folder({})
    for name, size in zip(names, sizes, strict=True):
        story.setup.append(f"head -c {size} /dev/zero > {quote(folder + '/' + name)}")
    one, two = quote(folder), quote(target)
    return Step(
        told=story.say(
            f"Move all files in {story.show(folder)} that are larger than {limit} bytes to "
            f"{story.show(target)}.",
            f"Files of more than {limit} bytes (not {limit} itself) in {story.show(folder)} belong "
            f"in {story.show(target)}: move them there under the same names and leave the others.",
        ),
        reference=f"find {one} -type f -size +{limit}c -exec mv {{}} {two}/ \\;",
        near_misses=(
            f"find {one} -type f -size +{limit - 1}c -exec mv {{}} {two}/ \\;",
            f"find {one} -type f -size +{limit}c -exec cp {{}} {two}/ \\;",
            f"find {one} -type f -size -{limit}c -exec mv {{}} {two}/ \\;",
        ),
        assertions=(Listing(folder, tuple(names[2:])), Listing(target, tuple(names[:2]))),
    )


@template("ls", split="train")
def names_listed(story: Story) -> Step:
    """The names in a folder, sorted, without the hidden ones."""
    names = [story.names.file() for _ in range(story.chance.randint(3, 5))]
    hidden = f".{story.names.word()}"
    folder = story.give_folder({name: f"{name}\n" for name in (*names, hidden)})
    target = story.new_path("txt")
    one, out = quote(folder), quote(target)
    return Step(
        told=story.say(
            f"Save the names of the files in {story.show(folder)}, one per line and without hidden "
            f"ones, in {story.show(target)}.",
            f"Write a list of what is in the directory {story.show(folder)} to "
            f"{story.show(target)}: only the names, one on each line, no names that begin with a "
            "dot.",
            f"The file {story.show(target)} must list the non-hidden entries of "
            f"{story.show(folder)} by bare name, one per line.",
        ),
        reference=f"ls -1 {one} > {out}",
        near_misses=(
            f"ls -1A {one} > {out}",
            f"ls -l {one} > {out}",
            f"ls -1 {one} | tail -n +2 > {out}",
        ),
        assertions=(Lines(target, tuple(names), ordered=False),),
    )


@template("ls", split="heldout")
def names_by_date_or_size(story: Story) -> Step:
    """The names in a folder, newest or largest first."""
    names = [story.names.file() for _ in range(4)]
    folder, target = story.give_folder({}), story.new_path("txt")
    days = sorted(story.chance.sample(range(10, 29), 4), reverse=True)
    sizes = sorted(story.chance.sample(range(10, 90), 4), reverse=True)
    option, words = story.chance.choice(
        (("-t", "the most recently modified first"), ("-S", "the largest first"))
    )
    story.chance.shuffle(days if option == "-S" else sizes)
    for name, day, size in zip(names, days, sizes, strict=True):
        path = quote(f"{folder}/{name}")
        story.setup.append(f"head -c {size} /dev/zero > {path}")
        story.setup.append(f"touch -d '2023-05-{day} 12:00 UTC' {path}")
    one, out = quote(folder), quote(target)
    return Step(
        told=story.say(
            f"Write the names of the files in {story.show(folder)} to {story.show(target)}, one "
            f"per line, {words}.",
            f"List the files of {story.show(folder)} by name in {story.show(target)}, sorted so "
            f"that {words.replace('first', 'comes first')}; one name per line, nothing else.",
        ),
        reference=f"ls -1 {option} {one} > {out}",
        near_misses=(
            f"ls -1 {option} -r {one} > {out}",
            f"ls -l {option} {one} > {out}",
            f"ls -1 {option} {one} | head -n 3 > {out}",
        ),
        assertions=(Lines(target, tuple(names)),),
    )


TEMPLATES: tuple[Template, ...] = (
    files_listed_by_ending,
    empty_files_deleted,
    large_files_moved,
    names_listed,
    names_by_date_or_size,
)
