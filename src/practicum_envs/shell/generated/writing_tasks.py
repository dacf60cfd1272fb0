"""Templates about writing files: one line, several files at once, files joined, scripts."""

from shlex import quote

from practicum_envs.shell.generated.assertions import Content, Lines, Mode
from practicum_envs.shell.generated.material import and_list, prose, text_of
from practicum_envs.shell.generated.step import Step, template, templates_among
from practicum_envs.shell.generated.task_draft import TaskDraft, TaskFile


@template("echo", split="train")
def one_line_written(draft: TaskDraft) -> Step:
    """A new file with one given line."""
    path = draft.new_path()
    line = prose(draft.rng, 1)[0]
    draft.add(TaskFile(path, f"{line}\n", locked={"content"}))
    shown = draft.show(path)
    return Step(
        instruction=draft.one_of(
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
def one_line_appended(draft: TaskDraft) -> Step:
    """A line is added to the end of a file."""
    *before, line = prose(draft.rng, draft.rng.randint(4, 6))
    file = draft.setup_file(text_of(before))
    file.locked.update(("content", "path"))
    file.text, file.from_setup = text_of([*before, line]), False
    path, quoted = draft.show(file.path), quote(file.path)
    return Step(
        instruction=draft.one_of(
            f"Append the line '{line}' (without the quotes) to {path}.",
            f"Add one more line at the end of {path}, keeping what is there: {line}",
            f"The file {path} must end with a new last line that reads: {line}",
        ),
        reference=f"echo {quote(line)} >> {quoted}",
        near_misses=(
            f"echo {quote(line)} > {quoted}",
            f"sed -i {quote('1i ' + line)} {quoted}",
            f"printf %s {quote(line)} >> {quoted}; echo . >> {quoted}",
        ),
        assertions=(Content(file.path, file.text),),
    )


@template("tee", split="train")
def line_in_two_files(draft: TaskDraft) -> Step:
    """The same new line in two new files."""
    one, other = draft.new_path(), draft.new_path()
    line = prose(draft.rng, 1)[0]
    for path in (one, other):
        draft.add(TaskFile(path, f"{line}\n", locked={"content"}))
    both = f"{draft.show(one)} and {draft.show(other)}"
    return Step(
        instruction=draft.one_of(
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
def line_added_to_several(draft: TaskDraft) -> Step:
    """The same line at the end of several files."""
    line, *rest = prose(draft.rng, 8)
    files = [draft.setup_file(text_of(rest[at : at + 2])) for at in (0, 2, 4)]
    before = [file.text for file in files]
    for file in files:
        file.text, file.from_setup = f"{file.text}{line}\n", False
        file.locked.update(("content", "path"))
    shown = and_list([draft.show(file.path) for file in files])
    paths = [quote(file.path) for file in files]
    return Step(
        instruction=draft.one_of(
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
            Content(file.path, f"{text}{line}\n") for file, text in zip(files, before, strict=True)
        ),
    )


@template("cat", split="train")
def files_joined(draft: TaskDraft) -> Step:
    """Files one after another in a new file, in an order that is not the alphabet's."""
    rest = prose(draft.rng, 9)
    files = [draft.setup_file(text_of(rest[at : at + 3])) for at in (0, 3, 6)]
    files.sort(key=lambda file: file.path, reverse=True)
    for file in files:
        file.locked.update(("content", "path"))
    target = draft.new_path()
    text = "".join(file.text for file in files)
    draft.add(TaskFile(target, text, locked={"content"}))
    paths = [quote(file.path) for file in files]
    shown = ", then ".join(draft.show(file.path) for file in files)
    return Step(
        instruction=draft.one_of(
            f"Join these files into {draft.show(target)}, in this order: {shown}.",
            f"The new file {draft.show(target)} is to hold the contents of {shown}, one after "
            "another and nothing else; the sources stay.",
            f"Concatenate {shown} and save the result as {draft.show(target)}.",
        ),
        reference=f"cat {' '.join(paths)} > {quote(target)}",
        near_misses=(
            f"cat {' '.join(reversed(paths))} > {quote(target)}",
            f"cat {' '.join(paths[:2])} > {quote(target)}",
            f"cat {' '.join(paths)} > {quote(target)}; rm {paths[1]}",
        ),
        assertions=(Content(target, text), *(file.kept for file in files)),
    )


@template("cat", split="heldout")
def file_appended_to_file(draft: TaskDraft) -> Step:
    """One file's content goes to the end of another."""
    rest = prose(draft.rng, 6)
    source, target = draft.setup_file(text_of(rest[:3])), draft.setup_file(text_of(rest[3:]))
    for file in (source, target):
        file.locked.update(("content", "path"))
    text = target.text + source.text
    src, dst = quote(source.path), quote(target.path)
    target.text, target.from_setup = text, False
    return Step(
        instruction=draft.one_of(
            f"Append the content of {draft.show(source.path)} to {draft.show(target.path)}; the "
            "first file itself does not change.",
            f"At the end of {draft.show(target.path)}, add everything that is in "
            f"{draft.show(source.path)}.",
            f"Extend {draft.show(target.path)} by the lines of {draft.show(source.path)}: they "
            "come after the lines that are there, and the source is kept.",
        ),
        reference=f"cat {src} >> {dst}",
        near_misses=(
            f"cat {src} > {dst}",
            f"cat {dst} >> {src}",
            f"cat {src} {dst} > {dst}.new && mv {dst}.new {dst}",
        ),
        assertions=(Content(target.path, text), source.kept),
    )


@template("exit", split="train")
def script_with_status(draft: TaskDraft) -> Step:
    """A script of two lines that ends with a given status."""
    path, status = draft.new_path("sh"), draft.rng.randint(2, 120)
    shown, quoted = draft.show(path), quote(path)
    text = f"#!/bin/sh\nexit {status}\n"
    write = f"printf '#!/bin/sh\\nexit %s\\n' {status} > {quoted}"
    draft.add(TaskFile(path, text, 0o755, locked={"content", "mode", "path"}))
    return Step(
        instruction=draft.one_of(
            f"Write a script {shown} of exactly two lines, '#!/bin/sh' and 'exit {status}' "
            "(without the quotes), and give it mode 755.",
            f"Create the script {shown}: its first line is #!/bin/sh, its second and last line is "
            f"exit {status}; its mode is 755.",
            f"We need a stand-in program {shown} that only ends with status {status}. It has two "
            f"lines, #!/bin/sh and exit {status}, and its permissions are 755.",
        ),
        reference=f"{write}\nchmod 755 {quoted}",
        near_misses=(
            write,
            f"printf '#!/bin/sh\\nexit 0\\n' > {quoted}\nchmod 755 {quoted}",
            f"printf 'exit %s\\n' {status} > {quoted}\nchmod 755 {quoted}",
        ),
        assertions=(Content(path, text), Mode(path, 0o755)),
    )


@template("exit", split="heldout")
def statuses_recorded(draft: TaskDraft) -> Step:
    """Scripts are run and the status each ends with is written down."""
    names = sorted(draft.names.folder() + ".sh" for _ in range(3))
    statuses = draft.rng.sample(range(0, 90), 3)
    folder = draft.setup_folder(
        {
            name: f'#!/bin/sh\nn={status + 7}\nexit "$((n - 7))"\n'
            for name, status in zip(names, statuses, strict=True)
        }
    )
    draft.setup.append(f"chmod 755 {quote(folder)}/*.sh")
    target = draft.new_path("txt")
    out, inside = quote(target), quote(folder)
    return Step(
        instruction=draft.one_of(
            f"Run each script in {draft.show(folder)} and write to {draft.show(target)} one line "
            "for each: its file name, a space and its exit status (any order).",
            f"The scripts {and_list(names)} in {draft.show(folder)} end with different exit "
            f"statuses. Record them in {draft.show(target)}, a line per script such as "
            f"'{names[0]} 0' (name, space, status; no quotes).",
            f"Find out with which status every script of {draft.show(folder)} exits. Save the "
            f"result in {draft.show(target)} as lines of the form NAME STATUS, where NAME is "
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


TEMPLATES = templates_among(globals())
