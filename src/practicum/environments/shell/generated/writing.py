"""Templates about writing files: one line, several files at once, files joined, scripts."""

from shlex import quote

from practicum.environments.shell.generated.assertions import Content, Lines, Mode
from practicum.environments.shell.generated.material import prose, text_of
from practicum.environments.shell.generated.step import Step, Template, template
from practicum.environments.shell.generated.story import Story, Thing
from practicum.environments.shell.generated.wording import and_list

__all__ = ["TEMPLATES"]


@template("echo", split="train")
def one_line_written(story: Story) -> Step:
    """A new file with one given line."""
    path = story.new_path()
    line = prose(story.chance, 1)[0]
    story.add(Thing(path, f"{line}\n", locked={"content"}))
    shown = story.show(path)
    return Step(
        told=story.say(
            f"Write the line '{line}' (without the quotes) into a new file {shown}.",
            f"Create {shown} with exactly one line in it: {line}",
            f"A file {shown} should hold this single line of text: {line}",
        ),
        reference=f"echo {quote(line)} > {quote(path)}",
        near_misses=(
            f"echo {quote(line.title())} > {quote(path)}",
            f"echo {quote(line)} > {quote(path)}; echo {quote(line)} >> {quote(path)}",
            f"echo {quote(repr(line))} > {quote(path)}",
        ),
        assertions=(Content(path, f"{line}\n"),),
    )


@template("echo", split="heldout")
def one_line_appended(story: Story) -> Step:
    """A line is added to the end of a file."""
    *before, line = prose(story.chance, story.chance.randint(4, 6))
    thing = story.give_file(text_of(before))
    thing.locked.update(("content", "place"))
    thing.text, thing.is_given = text_of([*before, line]), False
    path, place = story.show(thing.path), quote(thing.path)
    return Step(
        told=story.say(
            f"Append the line '{line}' (without the quotes) to {path}.",
            f"Add one more line at the end of {path}, keeping what is there: {line}",
            f"The file {path} must end with a new last line that reads: {line}",
        ),
        reference=f"echo {quote(line)} >> {place}",
        near_misses=(
            f"echo {quote(line)} > {place}",
            f"sed -i {quote('1i ' + line)} {place}",
            f"printf %s {quote(line)} >> {place}; echo . >> {place}",
        ),
        assertions=(Content(thing.path, thing.text),),
    )


@template("tee", split="train")
def line_in_two_files(story: Story) -> Step:
    """The same new line in two new files."""
    one, other = story.new_path(), story.new_path()
    line = prose(story.chance, 1)[0]
    for path in (one, other):
        story.add(Thing(path, f"{line}\n", locked={"content"}))
    both = f"{story.show(one)} and {story.show(other)}"
    return Step(
        told=story.say(
            f"Write the same line into both {both}: {line}",
            f"The files {both} must each hold exactly this one line: {line}",
            f"Put the text '{line}' (without the quotes) as the only line into two files at once: "
            f"{both}.",
        ),
        reference=f"echo {quote(line)} | tee {quote(one)} {quote(other)}",
        near_misses=(
            f"echo {quote(line)} > {quote(one)}",
            f"echo {quote(line)} | tee {quote(one)}; echo {quote(line + '.')} > {quote(other)}",
            f"echo {quote(line)} | tee {quote(one)} | tee -a {quote(one)} > {quote(other + '2')}",
        ),
        assertions=(Content(one, f"{line}\n"), Content(other, f"{line}\n")),
    )


@template("tee", split="heldout")
def line_added_to_several(story: Story) -> Step:
    """The same line at the end of several files."""
    line, *rest = prose(story.chance, 8)
    things = [story.give_file(text_of(rest[at : at + 2])) for at in (0, 2, 4)]
    before = [thing.text for thing in things]
    for thing in things:
        thing.text, thing.is_given = f"{thing.text}{line}\n", False
        thing.locked.update(("content", "place"))
    shown = and_list([story.show(thing.path) for thing in things])
    paths = [quote(thing.path) for thing in things]
    return Step(
        told=story.say(
            f"Append this line to each of {shown}: {line}",
            f"The files {shown} all need the same additional last line; what they hold now "
            f"stays. The line is: {line}",
            f"Add '{line}' (without the quotes) as a new last line to every one of {shown}.",
        ),
        reference=f"echo {quote(line)} | tee -a {' '.join(paths)}",
        near_misses=(
            f"echo {quote(line)} | tee {' '.join(paths)}",
            f"echo {quote(line)} | tee -a {' '.join(paths[:2])}",
        ),
        assertions=tuple(
            Content(thing.path, f"{text}{line}\n")
            for thing, text in zip(things, before, strict=True)
        ),
    )


@template("cat", split="train")
def files_joined(story: Story) -> Step:
    """Files one after another in a new file, in an order that is not the alphabet's."""
    rest = prose(story.chance, 9)
    things = [story.give_file(text_of(rest[at : at + 3])) for at in (0, 3, 6)]
    things.sort(key=lambda thing: thing.path, reverse=True)
    for thing in things:
        thing.locked.update(("content", "place"))
    target = story.new_path()
    text = "".join(thing.text for thing in things)
    story.add(Thing(target, text, locked={"content"}))
    paths = [quote(thing.path) for thing in things]
    shown = ", then ".join(story.show(thing.path) for thing in things)
    return Step(
        told=story.say(
            f"Join these files into {story.show(target)}, in this order: {shown}.",
            f"The new file {story.show(target)} is to hold the contents of {shown}, one after "
            "another and nothing else; the sources stay.",
            f"Concatenate {shown} and save the result as {story.show(target)}.",
        ),
        reference=f"cat {' '.join(paths)} > {quote(target)}",
        near_misses=(
            f"cat {' '.join(reversed(paths))} > {quote(target)}",
            f"cat {' '.join(paths[:2])} > {quote(target)}",
            f"cat {' '.join(paths)} > {quote(target)}; rm {paths[1]}",
        ),
        assertions=(Content(target, text), *(thing.kept for thing in things)),
    )


@template("cat", split="heldout")
def file_appended_to_file(story: Story) -> Step:
    """One file's content goes to the end of another."""
    rest = prose(story.chance, 6)
    source, target = story.give_file(text_of(rest[:3])), story.give_file(text_of(rest[3:]))
    for thing in (source, target):
        thing.locked.update(("content", "place"))
    text = target.text + source.text
    one, other = quote(source.path), quote(target.path)
    target.text, target.is_given = text, False
    return Step(
        told=story.say(
            f"Append the content of {story.show(source.path)} to {story.show(target.path)}; the "
            "first file itself does not change.",
            f"At the end of {story.show(target.path)}, add everything that is in "
            f"{story.show(source.path)}.",
            f"Extend {story.show(target.path)} by the lines of {story.show(source.path)}: they "
            "come after the lines that are there, and the source is kept.",
        ),
        reference=f"cat {one} >> {other}",
        near_misses=(
            f"cat {one} > {other}",
            f"cat {other} >> {one}",
            f"cat {one} {other} > {other}.new && mv {other}.new {other}",
        ),
        assertions=(Content(target.path, text), source.kept),
    )


@template("exit", split="train")
def script_with_status(story: Story) -> Step:
    """A script of two lines that ends with a given status."""
    path, status = story.new_path("sh"), story.chance.randint(2, 120)
    shown, place = story.show(path), quote(path)
    text = f"#!/bin/sh\nexit {status}\n"
    write = f"printf '#!/bin/sh\\nexit %s\\n' {status} > {place}"
    story.add(Thing(path, text, 0o755, locked={"content", "mode", "place"}))
    return Step(
        told=story.say(
            f"Write a script {shown} of exactly two lines, '#!/bin/sh' and 'exit {status}' "
            "(without the quotes), and give it mode 755.",
            f"Create the script {shown}: its first line is #!/bin/sh, its second and last line is "
            f"exit {status}; its mode is 755.",
            f"We need a stand-in program {shown} that only ends with status {status}. It has two "
            f"lines, #!/bin/sh and exit {status}, and its permissions are 755.",
        ),
        reference=f"{write}\nchmod 755 {place}",
        near_misses=(
            write,
            f"printf '#!/bin/sh\\nexit 0\\n' > {place}\nchmod 755 {place}",
            f"printf 'exit %s\\n' {status} > {place}\nchmod 755 {place}",
        ),
        assertions=(Content(path, text), Mode(path, 0o755)),
    )


@template("exit", split="heldout")
def statuses_recorded(story: Story) -> Step:
    """Scripts are run and the status each ends with is written down."""
    names = sorted(story.names.place() + ".sh" for _ in range(3))
    statuses = story.chance.sample(range(0, 90), 3)
    folder = story.give_folder(
        {
            name: f'#!/bin/sh\nn={status + 7}\nexit "$((n - 7))"\n'
            for name, status in zip(names, statuses, strict=True)
        }
    )
    story.setup.append(f"chmod 755 {quote(folder)}/*.sh")
    target = story.new_path("txt")
    out, inside = quote(target), quote(folder)
    return Step(
        told=story.say(
            f"Run each script in {story.show(folder)} and write to {story.show(target)} one line "
            "for each: its file name, a space and its exit status (any order).",
            f"The scripts {and_list(names)} in {story.show(folder)} end with different exit "
            f"statuses. Record them in {story.show(target)}, a line per script such as "
            f"'{names[0]} 0' (name, space, status; no quotes).",
            f"Find out with which status every script of {story.show(folder)} exits. Save the "
            f"result in {story.show(target)} as lines of the form NAME STATUS, where NAME is "
            "the file name without its directory.",
        ),
        reference=f"for s in {inside}/*.sh; do\n"
        f'  "$s"; r=$?; echo "$(basename "$s") $r"\ndone > {out}',
        near_misses=(
            f'for s in {inside}/*.sh; do "$s"; r=$?; echo "$(basename "$s") 0"; done > {out}',
            f'for s in {inside}/*.sh; do "$s"; r=$?; echo "$s $r"; done > {out}',
            f'for s in {inside}/*.sh; do "$s"; r=$?; echo "$(basename "$s") $r" > {out}; done',
        ),
        assertions=(
            Lines(
                target,
                tuple(f"{name} {status}" for name, status in zip(names, statuses, strict=True)),
                ordered=False,
            ),
        ),
    )


TEMPLATES: tuple[Template, ...] = (
    one_line_written,
    one_line_appended,
    line_in_two_files,
    line_added_to_several,
    files_joined,
    file_appended_to_file,
    script_with_status,
    statuses_recorded,
)
