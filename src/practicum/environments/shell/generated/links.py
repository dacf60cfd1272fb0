"""Templates about links, and about working from inside a folder."""

import posixpath
from shlex import quote

from practicum.environments.shell.generated.assertions import (
    Absent,
    Content,
    Listing,
    SameFile,
    Symlink,
    Type,
)
from practicum.environments.shell.generated.step import Step, Template, template
from practicum.environments.shell.generated.story import Story
from practicum.environments.shell.generated.wording import and_list

__all__ = ["TEMPLATES"]


@template("ln", split="train")
def symbolic_link(story: Story) -> Step:
    """A symbolic link to a file."""
    thing = story.file()
    thing.locked.update(("place", "content"))
    link = story.new_path(story.say("", "link", "lnk"))
    one, other = quote(thing.path), quote(link)
    return Step(
        told=story.say(
            f"Create a symbolic link {story.show(link)} that points to {story.show(thing.path)}.",
            f"The file {story.show(thing.path)} should also be reachable as {story.show(link)}, "
            "by a symbolic link.",
            f"Make {story.show(link)} a symlink to {story.show(thing.path)}.",
        ),
        reference=f"ln -s {one} {other}",
        near_misses=(
            f"ln {one} {other}",
            f"cp {one} {other}",
            f"ln -s {quote(thing.path + '.old')} {other}",
        ),
        assertions=(Symlink(link, thing.path), thing.kept),
    )


@template("ln", split="train")
def hard_link(story: Story) -> Step:
    """A second name of a file."""
    thing = story.file()
    thing.locked.update(("place", "content"))
    link = story.new_path(story.say("", "same", "dat"))
    one, other = quote(thing.path), quote(link)
    return Step(
        told=story.say(
            f"Create a hard link {story.show(link)} to {story.show(thing.path)}.",
            f"{story.show(link)} and {story.show(thing.path)} must be two names of one and the "
            "same file (a hard link, not a symbolic one).",
            f"Give the file {story.show(thing.path)} a second name by a hard link: "
            f"{story.show(link)}.",
        ),
        reference=f"ln {one} {other}",
        near_misses=(f"ln -s {one} {other}", f"cp {one} {other}", f"mv {one} {other}"),
        assertions=(SameFile(link, thing.path), thing.kept),
    )


@template("ln", split="heldout")
def link_turned(story: Story) -> Step:
    """A link to one release folder is turned to another."""
    parent = story.give_folder({})
    old, new = f"v{story.chance.randint(1, 4)}", f"v{story.chance.randint(5, 9)}"
    marker = story.names.file("txt")
    for version in (old, new):
        story.write(f"{parent}/{version}/{marker}", f"{version}\n")
    link = f"{parent}/current"
    story.setup.append(f"ln -s {quote(f'{parent}/{old}')} {quote(link)}")
    target, other = quote(f"{parent}/{new}"), quote(link)
    return Step(
        told=story.say(
            f"The symbolic link {story.show(link)} points to {old} now; make it point to "
            f"{story.show(f'{parent}/{new}')} instead.",
            f"Turn the link {story.show(link)} from {story.show(f'{parent}/{old}')} to "
            f"{story.show(f'{parent}/{new}')}. Both directories stay as they are.",
            f"Switch {story.show(link)} over: it must be a symlink to "
            f"{story.show(f'{parent}/{new}')}, and neither version directory may change.",
        ),
        reference=f"ln -sfn {target} {other}",
        near_misses=(
            f"ln -sf {target} {other}",
            f"rm {other}; cp -r {target} {other}",
            f"rm -r {quote(f'{parent}/{old}')}; ln -sfn {target} {other}",
        ),
        assertions=(
            Symlink(link, f"{parent}/{new}"),
            Listing(parent, ("current", new, old)),
            Listing(f"{parent}/{old}", (marker,)),
            Listing(f"{parent}/{new}", (marker,)),
        ),
    )


@template("ln", split="heldout")
def relative_link(story: Story) -> Step:
    """A symbolic link written relative to the folder it lies in."""
    sub, name, link = story.names.place(), story.names.file(), story.names.file("link")
    folder = story.give_folder({f"{sub}/{name}": f"{name}\n"})
    text, place = f"{sub}/{name}", f"{folder}/{link}"
    return Step(
        told=story.say(
            f"In {story.show(folder)}, create the symbolic link {story.show(link)} whose target is "
            f"the relative path {story.show(text)} (not an absolute one).",
            f"Make {story.show(place)} a symlink that contains exactly the relative target "
            f"{story.show(text)}.",
        ),
        reference=f"ln -s {quote(text)} {quote(place)}",
        near_misses=(
            f"ln -s {quote(f'{folder}/{text}')} {quote(place)}",
            f"ln {quote(f'{folder}/{text}')} {quote(place)}",
            f"ln -s {quote(name)} {quote(place)}",
        ),
        assertions=(Symlink(place, text, exact=True), Type(f"{folder}/{text}", "file")),
    )


def _script(output: str) -> str:
    """A program that works on the folder it is called in."""
    return f'#!/bin/sh\nls -1 *.dat | wc -l > {output}\nbasename "$PWD" >> {output}\n'


@template("cd", split="train")
def run_inside(story: Story) -> Step:
    """A script that works on the current folder is run in the right one."""
    output, count = story.names.place() + ".out", story.chance.randint(2, 5)
    folder = story.give_folder({f"{n}.dat": "x\n" for n in range(count)})
    script = story.give_file(_script(output), "sh")
    story.setup.append(f"chmod 755 {quote(script.path)}")
    script.mode = 0o755
    script.locked.update(("content", "place"))
    parent = posixpath.dirname(script.path)
    here, run = quote(folder), quote(script.path)
    text = f"{count}\n{posixpath.basename(folder)}\n"
    return Step(
        told=story.say(
            f"Change to {story.show(folder)} and run {story.show(script.path)} there: it works on "
            "the current directory and leaves its result in it.",
            f"The script {story.show(script.path)} writes a file {output} into whatever directory "
            f"it is called from. Run it from {story.show(folder)}, and leave no such file anywhere "
            "else.",
            f"Execute {story.show(script.path)} with {story.show(folder)} as the working "
            "directory.",
        ),
        reference=f"cd {here} && {run}",
        near_misses=(
            f"cd {quote(parent)} && {run}",
            f"cd {quote(parent)} && {run}; mv {quote(f'{parent}/{output}')} {here}/",
            f"touch {quote(f'{folder}/{output}')}",
        ),
        assertions=(
            Content(f"{folder}/{output}", text),
            Absent(f"{parent}/{output}"),
            script.kept,
        ),
    )


@template("cd", split="heldout")
def run_in_each(story: Story) -> Step:
    """A script that works on the current folder is run in several, but not in all."""
    output = story.names.place() + ".count"
    folders = [story.give_folder({f"{n}.dat": "x\n" for n in range(at + 2)}) for at in range(3)]
    left_out = story.give_folder({"0.dat": "x\n"})
    script = story.give_file(_script(output), "sh")
    story.setup.append(f"chmod 755 {quote(script.path)}")
    script.mode = 0o755
    script.locked.update(("content", "place"))
    run = quote(script.path)
    shown = and_list([story.show(folder) for folder in folders])
    calls = [f"( cd {quote(folder)} && {run} )" for folder in folders]
    return Step(
        told=story.say(
            f"Run {story.show(script.path)} once in each of the directories {shown} (it writes its "
            f"result into the current directory), but not in {story.show(left_out)}.",
            f"The script {story.show(script.path)} makes a file {output} in the directory it is "
            f"started in. Have it do so in {shown}, and nowhere else.",
        ),
        reference="\n".join(calls),
        near_misses=(
            "\n".join(calls[:-1]),
            "\n".join((*calls, f"( cd {quote(left_out)} && {run} )")),
            "\n".join([calls[0], *(run for _ in calls[1:])]),
        ),
        assertions=(
            *(
                Content(f"{folder}/{output}", f"{at + 2}\n{posixpath.basename(folder)}\n")
                for at, folder in enumerate(folders)
            ),
            Listing(left_out, ("0.dat",)),
        ),
    )


TEMPLATES: tuple[Template, ...] = (
    symbolic_link,
    hard_link,
    link_turned,
    relative_link,
    run_inside,
    run_in_each,
)
