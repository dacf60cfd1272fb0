"""Templates about links, and about working from inside a folder."""

import posixpath
from shlex import quote

from practicum_envs.shell.generated.assertions import (
    Absent,
    Content,
    Listing,
    SameFile,
    Symlink,
    Type,
)
from practicum_envs.shell.generated.material import and_list
from practicum_envs.shell.generated.step import Step, template, templates_among
from practicum_envs.shell.generated.task_draft import TaskDraft


@template("ln", split="train")
def symbolic_link(draft: TaskDraft) -> Step:
    """A symbolic link to a file."""
    file = draft.file()
    file.locked.update(("path", "content"))
    link = draft.new_path(draft.one_of("", "link", "lnk"))
    src, dst = quote(file.path), quote(link)
    return Step(
        instruction=draft.one_of(
            f"Create a symbolic link {draft.show(link)} that points to {draft.show(file.path)}.",
            f"The file {draft.show(file.path)} should also be reachable as {draft.show(link)}, "
            "by a symbolic link.",
            f"Make {draft.show(link)} a symlink to {draft.show(file.path)}.",
        ),
        reference=f"ln -s {src} {dst}",
        near_misses=(
            f"ln {src} {dst}",
            f"cp {src} {dst}",
            f"ln -s {quote(file.path + '.old')} {dst}",
        ),
        assertions=(Symlink(link, file.path), file.kept),
    )


@template("ln", split="train")
def hard_link(draft: TaskDraft) -> Step:
    """A second name of a file."""
    file = draft.file()
    file.locked.update(("path", "content"))
    link = draft.new_path(draft.one_of("", "same", "dat"))
    src, dst = quote(file.path), quote(link)
    return Step(
        instruction=draft.one_of(
            f"Create a hard link {draft.show(link)} to {draft.show(file.path)}.",
            f"{draft.show(link)} and {draft.show(file.path)} must be two names of one and the "
            "same file (a hard link, not a symbolic one).",
            f"Give the file {draft.show(file.path)} a second name by a hard link: "
            f"{draft.show(link)}.",
        ),
        reference=f"ln {src} {dst}",
        near_misses=(f"ln -s {src} {dst}", f"cp {src} {dst}", f"mv {src} {dst}"),
        assertions=(SameFile(link, file.path), file.kept),
    )


@template("ln", split="heldout")
def link_turned(draft: TaskDraft) -> Step:
    """A link to one release folder is turned to another."""
    parent = draft.setup_folder({})
    old, new = f"v{draft.rng.randint(1, 4)}", f"v{draft.rng.randint(5, 9)}"
    marker = draft.names.file("txt")
    for version in (old, new):
        draft.write(f"{parent}/{version}/{marker}", f"{version}\n")
    link = f"{parent}/current"
    draft.setup.append(f"ln -s {quote(f'{parent}/{old}')} {quote(link)}")
    target, other = quote(f"{parent}/{new}"), quote(link)
    return Step(
        instruction=draft.one_of(
            f"The symbolic link {draft.show(link)} points to {old} now; make it point to "
            f"{draft.show(f'{parent}/{new}')} instead.",
            f"Turn the link {draft.show(link)} from {draft.show(f'{parent}/{old}')} to "
            f"{draft.show(f'{parent}/{new}')}. Both directories stay as they are.",
            f"Switch {draft.show(link)} over: it must be a symlink to "
            f"{draft.show(f'{parent}/{new}')}, and neither version directory may change.",
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
def relative_link(draft: TaskDraft) -> Step:
    """A symbolic link written relative to the folder it lies in."""
    sub, name, link = draft.names.folder(), draft.names.file(), draft.names.file("link")
    folder = draft.setup_folder({f"{sub}/{name}": f"{name}\n"})
    text, place = f"{sub}/{name}", f"{folder}/{link}"
    return Step(
        instruction=draft.one_of(
            f"In {draft.show(folder)}, create the symbolic link {draft.show(link)} whose target is "
            f"the relative path {draft.show(text)} (not an absolute one).",
            f"Make {draft.show(place)} a symlink that contains exactly the relative target "
            f"{draft.show(text)}.",
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
def run_inside(draft: TaskDraft) -> Step:
    """A script that works on the current folder is run in the right one."""
    output, count = draft.names.folder() + ".out", draft.rng.randint(2, 5)
    folder = draft.setup_folder({f"{n}.dat": "x\n" for n in range(count)})
    script = draft.setup_file(_script(output), "sh")
    draft.setup.append(f"chmod 755 {quote(script.path)}")
    script.mode = 0o755
    script.locked.update(("content", "path"))
    parent = posixpath.dirname(script.path)
    here, run = quote(folder), quote(script.path)
    text = f"{count}\n{posixpath.basename(folder)}\n"
    return Step(
        instruction=draft.one_of(
            f"Change to {draft.show(folder)} and run {draft.show(script.path)} there: it works on "
            "the current directory and leaves its result in it.",
            f"The script {draft.show(script.path)} writes a file {output} into whatever directory "
            f"it is called from. Run it from {draft.show(folder)}, and leave no such file anywhere "
            "else.",
            f"Execute {draft.show(script.path)} with {draft.show(folder)} as the working "
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
def run_in_each(draft: TaskDraft) -> Step:
    """A script that works on the current folder is run in several, but not in all."""
    output = draft.names.folder() + ".count"
    folders = [draft.setup_folder({f"{n}.dat": "x\n" for n in range(at + 2)}) for at in range(3)]
    left_out = draft.setup_folder({"0.dat": "x\n"})
    script = draft.setup_file(_script(output), "sh")
    draft.setup.append(f"chmod 755 {quote(script.path)}")
    script.mode = 0o755
    script.locked.update(("content", "path"))
    run = quote(script.path)
    shown = and_list([draft.show(folder) for folder in folders])
    calls = [f"( cd {quote(folder)} && {run} )" for folder in folders]
    return Step(
        instruction=draft.one_of(
            f"Run {draft.show(script.path)} once in each of the directories {shown} (it writes its "
            f"result into the current directory), but not in {draft.show(left_out)}.",
            f"The script {draft.show(script.path)} makes a file {output} in the directory it is "
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


TEMPLATES = templates_among(globals())
