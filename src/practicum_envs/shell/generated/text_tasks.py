"""Templates about text: lines found, columns computed, words replaced, values changed."""

from shlex import quote

from practicum_envs.shell.generated.assertions import Content, Lines
from practicum_envs.shell.generated.material import (
    amount_table,
    log_lines,
    prose,
    settings,
    text_of,
)
from practicum_envs.shell.generated.step import Step, template, templates_among
from practicum_envs.shell.generated.task_draft import TaskDraft, TaskFile

LEVELS = ("ERROR", "WARN", "INFO", "DEBUG", "Error")
"""One word in two spellings: a search that ignores the case finds too much."""


def _source(draft: TaskDraft, lines: list[str], extension: str | None = None) -> TaskFile:
    """A file that is read and must not change."""
    file = draft.setup_file(text_of(lines), extension)
    file.locked.update(("content", "path"))
    return file


@template("grep", split="train")
def lines_found(draft: TaskDraft) -> Step:
    """The lines with a word, in their order, in a file."""
    lines = log_lines(draft.rng, draft.rng.randint(9, 14), LEVELS)
    source, target = _source(draft, lines, "log"), draft.new_path("txt")
    found = tuple(line for line in lines if " ERROR " in line)
    src, dst = quote(source.path), quote(target)
    return Step(
        instruction=draft.one_of(
            f"Save all lines of {draft.show(source.path)} that contain ERROR (upper case) in "
            f"{draft.show(target)}, in their order.",
            f"The file {draft.show(target)} must hold exactly those lines of "
            f"{draft.show(source.path)} in which the word ERROR occurs in capitals, in the same "
            "order.",
            f"Pick the lines with the word ERROR (this spelling only, not Error) out of "
            f"{draft.show(source.path)} and write them, unchanged and in order, to "
            f"{draft.show(target)}.",
        ),
        reference=f"grep ERROR {src} > {dst}",
        near_misses=(
            f"grep -i error {src} > {dst}",
            f"grep -v ERROR {src} > {dst}",
            f"grep -c ERROR {src} > {dst}",
            f"grep -n ERROR {src} > {dst}",
        ),
        assertions=(Lines(target, found), source.kept),
    )


@template("grep", split="heldout")
def lines_left_out(draft: TaskDraft) -> Step:
    """All lines but those that begin with a sign."""
    sign = draft.rng.choice("#;%")
    words = prose(draft.rng, 9)
    lines = [f"{sign} {line}" if at % 3 == 1 else line for at, line in enumerate(words)]
    lines[4] = f"{words[4]} {sign} {draft.names.word()}"
    source, target = _source(draft, lines), draft.new_path()
    kept = tuple(line for line in lines if not line.startswith(sign))
    src, dst = quote(source.path), quote(target)
    return Step(
        instruction=draft.one_of(
            f"Copy {draft.show(source.path)} to {draft.show(target)} without the lines that start "
            f"with the sign '{sign}'.",
            f"The file {draft.show(target)} must consist of all lines of "
            f"{draft.show(source.path)}, in order, except those whose first character is '{sign}'.",
            f"Filter the comment lines (first character '{sign}') out of {draft.show(source.path)} "
            f"and save what is left as {draft.show(target)}. The source does not change.",
        ),
        reference=f"grep -v '^{sign}' {src} > {dst}",
        near_misses=(
            f"grep -v '{sign}' {src} > {dst}",
            f"grep '^{sign}' {src} > {dst}",
            f"cp {src} {dst}",
        ),
        assertions=(Lines(target, kept), source.kept),
    )


@template("grep", split="heldout")
def files_with_a_word(draft: TaskDraft) -> Step:
    """The names of the files in a folder that hold a word."""
    word = f"{draft.names.word()}{draft.rng.randint(10, 99)}"
    names = [draft.names.file() for _ in range(5)]
    texts = {name: text_of(prose(draft.rng, 3)) for name in names}
    chosen = draft.rng.sample(names, 2)
    for name in chosen:
        texts[name] += f"see {word} here\n"
    near = next(name for name in names if name not in chosen)
    texts[near] += f"see {word[:-1]} here\n"
    folder, target = draft.setup_folder(texts), draft.new_path("txt")
    src, dst = quote(folder), quote(target)
    return Step(
        instruction=draft.one_of(
            f"Which files in {draft.show(folder)} contain {word}? Write their names (without the "
            f"directory), one per line and in any order, to {draft.show(target)}.",
            f"Save in {draft.show(target)} the bare file names, one per line, of all files in "
            f"{draft.show(folder)} that have the word {word} in them.",
        ),
        reference=f"( cd {src} && grep -l -- {word} * ) > {dst}",
        near_misses=(
            f"( cd {src} && grep -L -- {word} * ) > {dst}",
            f"( cd {src} && grep -l -- {word[:-1]} * ) > {dst}",
            f"( cd {src} && grep -- {word} * ) > {dst}",
        ),
        assertions=(Lines(target, tuple(chosen), ordered=False),),
    )


@template("awk", split="train")
def column_summed(draft: TaskDraft) -> Step:
    """The sum of a column."""
    names = [draft.names.word() for _ in range(4)]
    rows = amount_table(draft.rng, draft.rng.randint(5, 9), names)
    fees = draft.rng.sample(range(2, 60), len(rows))
    lines = [
        f"{n} {area} {amount} {fee}" for (n, area, amount), fee in zip(rows, fees, strict=True)
    ]
    source, target = _source(draft, lines), draft.new_path("txt")
    total = sum(amount for _, _, amount in rows)
    src, dst = quote(source.path), quote(target)
    draft.add(TaskFile(target, f"{total}\n", locked={"content", "path"}))
    return Step(
        instruction=draft.one_of(
            f"Add up the third column of {draft.show(source.path)} (columns are separated by "
            f"spaces) and write only the sum to {draft.show(target)}.",
            f"The file {draft.show(target)} should contain nothing but the total of "
            f"all numbers in column 3 of {draft.show(source.path)}.",
            f"What is the sum of the values in the third field of {draft.show(source.path)}? Save "
            f"the number, and nothing else, in {draft.show(target)}.",
        ),
        reference=f"awk '{{ s += $3 }} END {{ print s }}' {src} > {dst}",
        near_misses=(
            f"awk '{{ s += $4 }} END {{ print s }}' {src} > {dst}",
            f"awk 'NR > 1 {{ s += $3 }} END {{ print s }}' {src} > {dst}",
            f"awk '{{ print $3 }}' {src} > {dst}",
        ),
        assertions=(Content(target, f"{total}\n", trimmed=True), source.kept),
    )


@template("awk", split="train")
def sums_by_name(draft: TaskDraft) -> Step:
    """A sum for each name in a table with commas."""
    names = list(dict.fromkeys(draft.names.word() for _ in range(3)))
    rows = amount_table(draft.rng, 8, names)
    source = _source(draft, [f"{n},{area},{amount}" for n, area, amount in rows], "csv")
    target = draft.new_path("txt")
    sums: dict[str, int] = {}
    for name, _, amount in rows:
        sums[name] = sums.get(name, 0) + amount
    src, dst = quote(source.path), quote(target)
    printed = "END { for (n in s) print n, s[n] }"
    return Step(
        instruction=draft.one_of(
            f"For each name in the first column of {draft.show(source.path)} (comma-separated, no "
            "header), add up the third column; write lines of the form NAME TOTAL to "
            f"{draft.show(target)}, in any order.",
            f"The table {draft.show(source.path)} has the columns name, area, amount, "
            f"separated by commas and without a header. Save in {draft.show(target)} one line per "
            "name: the name, a space, the sum of its amounts. The order does not matter.",
        ),
        reference=f"awk -F, '{{ s[$1] += $3 }} {printed}' {src} > {dst}",
        near_misses=(
            f"awk -F, '{{ s[$1]++ }} {printed}' {src} > {dst}",
            f"awk -F, '{{ s[$2] += $3 }} {printed}' {src} > {dst}",
            f"awk -F, '{{ print $1, $3 }}' {src} | head -n 7 > {dst}",
        ),
        assertions=(
            Lines(target, tuple(f"{n} {total}" for n, total in sums.items()), ordered=False),
            source.kept,
        ),
    )


@template("awk", split="heldout")
def columns_of_rows(draft: TaskDraft) -> Step:
    """Two columns of the rows whose number is above a limit; one row is exactly at it."""
    names = [draft.names.word() for _ in range(5)]
    rows = amount_table(draft.rng, draft.rng.randint(7, 10), names)
    limit = sorted(amount for _, _, amount in rows)[len(rows) // 2]
    source = _source(draft, [f"{n}:{area}:{amount}" for n, area, amount in rows])
    target = draft.new_path()
    found = tuple(f"{n} {amount}" for n, _, amount in rows if amount > limit)
    src, dst = quote(source.path), quote(target)
    return Step(
        instruction=draft.one_of(
            f"The fields of {draft.show(source.path)} are separated by colons. For every line "
            f"whose third field is greater than {limit}, write the first and the third field, "
            f"separated by one space, to {draft.show(target)}, in the order of the file.",
            f"From {draft.show(source.path)} (colon-separated: name, area, amount), save 'name "
            f"amount' (with one space between, no quotes) of each line with an amount above "
            f"{limit} (not equal to it) in {draft.show(target)}; keep the order.",
        ),
        reference=f"awk -F: '$3 > {limit} {{ print $1, $3 }}' {src} > {dst}",
        near_misses=(
            f"awk -F: '$3 >= {limit} {{ print $1, $3 }}' {src} > {dst}",
            f"awk -F: '$3 > {limit} {{ print $1, $2 }}' {src} > {dst}",
            f"awk -F: '$3 > {limit}' {src} > {dst}",
        ),
        assertions=(Lines(target, found), source.kept),
    )


@template("wc", split="train")
def lines_counted(draft: TaskDraft) -> Step:
    """How many lines a file has."""
    count = draft.rng.randint(11, 60)
    source, target = _source(draft, prose(draft.rng, count)), draft.new_path("txt")
    src, dst = quote(source.path), quote(target)
    draft.add(TaskFile(target, f"{count}\n", locked={"content", "path"}))
    return Step(
        instruction=draft.one_of(
            f"Count the lines of {draft.show(source.path)} and write just the number to "
            f"{draft.show(target)}.",
            f"How many lines does {draft.show(source.path)} have? Put the number, without the "
            f"file name, into {draft.show(target)}.",
            f"The file {draft.show(target)} must contain only the number of lines "
            f"in {draft.show(source.path)}.",
        ),
        reference=f"wc -l < {src} > {dst}",
        near_misses=(
            f"wc -w < {src} > {dst}",
            f"wc -l {src} > {dst}",
            f"tail -n +2 {src} | wc -l > {dst}",
        ),
        assertions=(Content(target, f"{count}\n", trimmed=True), source.kept),
    )


@template("wc", split="heldout")
def words_or_bytes_counted(draft: TaskDraft) -> Step:
    """How many words or bytes a file has."""
    option, what = draft.rng.choice((("-w", "words"), ("-c", "bytes")))
    lines = [
        " ".join(line.split()[: draft.rng.randint(1, 5)]) + f" {at}"
        for at, line in enumerate(prose(draft.rng, draft.rng.randint(5, 9)))
    ]
    source, target = _source(draft, lines), draft.new_path("txt")
    count = len(source.text.split()) if option == "-w" else len(source.text.encode())
    src, dst = quote(source.path), quote(target)
    draft.add(TaskFile(target, f"{count}\n", locked={"content", "path"}))
    return Step(
        instruction=draft.one_of(
            f"Write the number of {what} in {draft.show(source.path)}, and nothing else, to "
            f"{draft.show(target)}.",
            f"Count the {what} of {draft.show(source.path)}; the file {draft.show(target)} gets "
            "the bare number.",
            f"The file {draft.show(target)} is to hold one number: how many {what} "
            f"there are in {draft.show(source.path)}.",
        ),
        reference=f"wc {option} < {src} > {dst}",
        near_misses=(
            f"wc -l < {src} > {dst}",
            f"wc {option} {src} > {dst}",
            f"head -n -1 {src} | wc {option} > {dst}",
        ),
        assertions=(Content(target, f"{count}\n", trimmed=True), source.kept),
    )


TEMPLATES = templates_among(globals())


def _edited(draft: TaskDraft, before: list[str], after: list[str], extension: str) -> TaskFile:
    """A file that a step changes from one text to another."""
    file = draft.setup_file(text_of(before), extension)
    file.text, file.from_setup = text_of(after), False
    file.locked.update(("content", "path"))
    return file


@template("sed", split="train")
def word_replaced(draft: TaskDraft) -> Step:
    """Every occurrence of a word becomes another one, also where a line has two."""
    old, new = draft.names.word() + "1", draft.names.word() + "2"
    lines = prose(draft.rng, 6)
    for at in draft.rng.sample(range(6), 3):
        lines[at] = f"{old} {lines[at]} {old}"
    lines[draft.rng.randrange(6)] += f" {old}"
    after = [line.replace(old, new) for line in lines]
    file = _edited(draft, lines, after, "txt")
    path, quoted = draft.show(file.path), quote(file.path)
    return Step(
        instruction=draft.one_of(
            f"Replace every occurrence of {old} in {path} by {new}.",
            f"In the file {path}, the word {old} has to become {new} everywhere, several times in "
            "a line too. Nothing else changes.",
            f"Edit {path} in place: {old} -> {new}, all occurrences.",
        ),
        reference=f"sed -i 's/{old}/{new}/g' {quoted}",
        near_misses=(
            f"sed -i 's/{old}/{new}/' {quoted}",
            f"sed 's/{old}/{new}/g' {quoted} > {quoted}.new",
            f"sed -i 's/{old}//g' {quoted}",
        ),
        assertions=(Content(file.path, file.text),),
    )


@template("sed", split="heldout")
def lines_deleted(draft: TaskDraft) -> Step:
    """A range of lines goes."""
    lines = prose(draft.rng, draft.rng.randint(8, 11))
    first = draft.rng.randint(2, 4)
    last = first + draft.rng.randint(1, 3)
    file = _edited(draft, lines, lines[: first - 1] + lines[last:], "txt")
    path, quoted = draft.show(file.path), quote(file.path)
    return Step(
        instruction=draft.one_of(
            f"Delete lines {first} to {last} (both included) from {path}.",
            f"The file {path} has to lose its lines {first} through {last}; line {first - 1} is "
            f"then followed by what is now line {last + 1}.",
            f"Remove from {path} everything from line {first} up to and including line {last}, in "
            "the file itself.",
        ),
        reference=f"sed -i '{first},{last}d' {quoted}",
        near_misses=(
            f"sed -i '{first},{last - 1}d' {quoted}",
            f"sed -i '{first + 1},{last}d' {quoted}",
            f"sed -n -i '{first},{last}p' {quoted}",
        ),
        assertions=(Content(file.path, file.text),),
    )


@template("sed", split="heldout")
def line_prefixed(draft: TaskDraft) -> Step:
    """The lines with a word are commented out."""
    word = draft.names.word() + "3"
    lines = prose(draft.rng, 7)
    for at in draft.rng.sample(range(7), 2):
        lines[at] = f"{lines[at]} {word}"
    after = [f"# {line}" if word in line else line for line in lines]
    file = _edited(draft, lines, after, "conf")
    path, quoted = draft.show(file.path), quote(file.path)
    return Step(
        instruction=draft.one_of(
            f"Comment out every line of {path} that contains {word}: put '# ' (a hash and a "
            "space) in front of it.",
            f"In {path}, each line with the word {word} in it must begin with a hash and one "
            "space before its present text. All other lines stay.",
        ),
        reference=f"sed -i '/{word}/s/^/# /' {quoted}",
        near_misses=(
            f"sed -i 's/^/# /' {quoted}",
            f"sed -i '/{word}/d' {quoted}",
            f"sed -i '0,/{word}/{{/{word}/s/^/# /}}' {quoted}",
        ),
        assertions=(Content(file.path, file.text),),
    )


@template("vi", split="train")
def value_changed(draft: TaskDraft) -> Step:
    """One setting gets another value, its neighbours do not."""
    values = settings(draft.rng, 5)
    key = draft.rng.choice(list(values))
    lines = [f"{name}={value}" for name, value in values.items()]
    lines.insert(1, f"max_{key}={int(values[key]) + 1}")
    new = draft.rng.randint(9001, 9999)
    after = [f"{key}={new}" if line == f"{key}={values[key]}" else line for line in lines]
    file = _edited(draft, lines, after, draft.one_of("conf", "ini", "cfg"))
    path, quoted = draft.show(file.path), quote(file.path)
    return Step(
        instruction=draft.one_of(
            f"Edit {path}: the setting {key} must be {new}; every other line stays as it is.",
            f"Open {path} in an editor and change the value of {key} (now {values[key]}) to {new}, "
            "without changing anything else.",
            f"In the configuration file {path}, set {key} to {new} on the line where it is set "
            "now.",
        ),
        reference=f"vi -es -c '%s/^{key}=.*/{key}={new}/' -c wq {quoted}",
        near_misses=(
            f"echo {key}={new} >> {quoted}",
            f"sed -i 's/{key}=.*/{key}={new}/' {quoted}",
            f"echo {key}={new} > {quoted}",
        ),
        assertions=(Content(file.path, file.text),),
    )


@template("vi", split="heldout")
def line_inserted(draft: TaskDraft) -> Step:
    """A new line goes in behind a given one."""
    *lines, new = prose(draft.rng, draft.rng.randint(6, 9))
    at = draft.rng.randint(2, len(lines) - 2)
    file = _edited(draft, lines, [*lines[:at], new, *lines[at:]], "txt")
    path, quoted = draft.show(file.path), quote(file.path)
    return Step(
        instruction=draft.one_of(
            f"Insert a new line after line {at} of {path}. It reads: {new}",
            f"Edit the file {path} so that its line {at + 1} is the following new line, and the "
            f"lines after it move down by one: {new}",
            f"Open {path} and add, between the present lines {at} and {at + 1}, this line: {new}",
        ),
        reference=f"printf '%s\\n' {at}a {quote(new)} . wq | vi -es {quoted}",
        near_misses=(
            f"sed -i {quote(f'{at}i {new}')} {quoted}",
            f"sed -i {quote(f'{at + 1}a {new}')} {quoted}",
            f"echo {quote(new)} >> {quoted}",
            f"sed -i {quote(f'{at}c {new}')} {quoted}",
        ),
        assertions=(Content(file.path, file.text),),
    )


@template("vi", split="heldout")
def lines_swapped(draft: TaskDraft) -> Step:
    """Two neighbouring lines change places."""
    lines = prose(draft.rng, draft.rng.randint(5, 8))
    at = draft.rng.randint(1, len(lines) - 2)
    after = [*lines[: at - 1], lines[at], lines[at - 1], *lines[at + 1 :]]
    file = _edited(draft, lines, after, "txt")
    path, quoted = draft.show(file.path), quote(file.path)
    return Step(
        instruction=draft.one_of(
            f"Swap lines {at} and {at + 1} of {path}.",
            f"In {path}, the lines {at} and {at + 1} are in the wrong order: exchange them and "
            "leave all others in place.",
        ),
        reference=f"vi -es -c '{at}m{at + 1}' -c wq {quoted}",
        near_misses=(
            f"vi -es -c '{at + 1}m{at + 2}' -c wq {quoted}",
            f"vi -es -c '{at}t{at + 1}' -c wq {quoted}",
            f"vi -es -c '{at}m$' -c '$d' -c wq {quoted}",
        ),
        assertions=(Content(file.path, file.text),),
    )


EDITING_TEMPLATES = templates_among(globals())[len(TEMPLATES) :]
