"""Templates about reading text: lines found, columns computed, things counted."""

from shlex import quote

from practicum.environments.shell.generated.assertions import Content, Lines
from practicum.environments.shell.generated.material import (
    amount_table,
    log_lines,
    prose,
    text_of,
)
from practicum.environments.shell.generated.step import Step, Template, template
from practicum.environments.shell.generated.story import Story, Thing

__all__ = ["TEMPLATES"]

LEVELS = ("ERROR", "WARN", "INFO", "DEBUG", "Error")
"""One word in two spellings: a search that ignores the case finds too much."""


def _source(story: Story, lines: list[str], extension: str | None = None) -> Thing:
    """A file that is read and must not change."""
    thing = story.give_file(text_of(lines), extension)
    thing.locked.update(("content", "place"))
    return thing


@template("grep", split="train")
def lines_found(story: Story) -> Step:
    """The lines with a word, in their order, in a file."""
    lines = log_lines(story.chance, story.chance.randint(9, 14), LEVELS)
    source, target = _source(story, lines, "log"), story.new_path("txt")
    found = tuple(line for line in lines if " ERROR " in line)
    one, other = quote(source.path), quote(target)
    return Step(
        told=story.say(
            f"Save all lines of {story.show(source.path)} that contain ERROR (upper case) in "
            f"{story.show(target)}, in their order.",
            f"The file {story.show(target)} must hold exactly those lines of "
            f"{story.show(source.path)} in which the word ERROR occurs in capitals, in the same "
            "order.",
            f"Pick the lines with the word ERROR (this spelling only, not Error) out of "
            f"{story.show(source.path)} and write them, unchanged and in order, to "
            f"{story.show(target)}.",
        ),
        reference=f"grep ERROR {one} > {other}",
        near_misses=(
            f"grep -i error {one} > {other}",
            f"grep -v ERROR {one} > {other}",
            f"grep -c ERROR {one} > {other}",
            f"grep -n ERROR {one} > {other}",
        ),
        assertions=(Lines(target, found), source.kept),
    )


@template("grep", split="heldout")
def lines_left_out(story: Story) -> Step:
    """All lines but those that begin with a sign."""
    sign = story.chance.choice("#;%")
    words = prose(story.chance, 9)
    lines = [f"{sign} {line}" if at % 3 == 1 else line for at, line in enumerate(words)]
    lines[4] = f"{words[4]} {sign} {story.names.word()}"
    source, target = _source(story, lines), story.new_path()
    kept = tuple(line for line in lines if not line.startswith(sign))
    one, other = quote(source.path), quote(target)
    return Step(
        told=story.say(
            f"Copy {story.show(source.path)} to {story.show(target)} without the lines that start "
            f"with the sign '{sign}'.",
            f"The file {story.show(target)} must consist of all lines of "
            f"{story.show(source.path)}, in order, except those whose first character is '{sign}'.",
            f"Filter the comment lines (first character '{sign}') out of {story.show(source.path)} "
            f"and save what is left as {story.show(target)}. The source does not change.",
        ),
        reference=f"grep -v '^{sign}' {one} > {other}",
        near_misses=(
            f"grep -v '{sign}' {one} > {other}",
            f"grep '^{sign}' {one} > {other}",
            f"cp {one} {other}",
        ),
        assertions=(Lines(target, kept), source.kept),
    )


@template("grep", split="heldout")
def files_with_a_word(story: Story) -> Step:
    """The names of the files in a folder that hold a word."""
    word = f"{story.names.word()}{story.chance.randint(10, 99)}"
    names = [story.names.file() for _ in range(5)]
    texts = {name: text_of(prose(story.chance, 3)) for name in names}
    chosen = story.chance.sample(names, 2)
    for name in chosen:
        texts[name] += f"see {word} here\n"
    near = next(name for name in names if name not in chosen)
    texts[near] += f"see {word[:-1]} here\n"
    folder, target = story.give_folder(texts), story.new_path("txt")
    one, other = quote(folder), quote(target)
    return Step(
        told=story.say(
            f"Which files in {story.show(folder)} contain {word}? Write their names (without the "
            f"directory), one per line and in any order, to {story.show(target)}.",
            f"Save in {story.show(target)} the bare file names, one per line, of all files in "
            f"{story.show(folder)} that have the word {word} in them.",
        ),
        reference=f"( cd {one} && grep -l -- {word} * ) > {other}",
        near_misses=(
            f"( cd {one} && grep -L -- {word} * ) > {other}",
            f"( cd {one} && grep -l -- {word[:-1]} * ) > {other}",
            f"( cd {one} && grep -- {word} * ) > {other}",
        ),
        assertions=(Lines(target, tuple(chosen), ordered=False),),
    )


@template("awk", split="train")
def column_summed(story: Story) -> Step:
    """The sum of a column."""
    names = [story.names.word() for _ in range(4)]
    rows = amount_table(story.chance, story.chance.randint(5, 9), names)
    fees = story.chance.sample(range(2, 60), len(rows))
    lines = [
        f"{n} {area} {amount} {fee}" for (n, area, amount), fee in zip(rows, fees, strict=True)
    ]
    source, target = _source(story, lines), story.new_path("txt")
    total = sum(amount for _, _, amount in rows)
    one, other = quote(source.path), quote(target)
    story.add(Thing(target, f"{total}\n", locked={"content", "place"}))
    return Step(
        told=story.say(
            f"Add up the third column of {story.show(source.path)} (columns are separated by "
            f"spaces) and write only the sum to {story.show(target)}.",
            f"The file {story.show(target)} should contain nothing but the total of "
            f"all numbers in column 3 of {story.show(source.path)}.",
            f"What is the sum of the values in the third field of {story.show(source.path)}? Save "
            f"the number, and nothing else, in {story.show(target)}.",
        ),
        reference=f"awk '{{ s += $3 }} END {{ print s }}' {one} > {other}",
        near_misses=(
            f"awk '{{ s += $4 }} END {{ print s }}' {one} > {other}",
            f"awk 'NR > 1 {{ s += $3 }} END {{ print s }}' {one} > {other}",
            f"awk '{{ print $3 }}' {one} > {other}",
        ),
        assertions=(Content(target, f"{total}\n", trimmed=True), source.kept),
    )


@template("awk", split="train")
def sums_by_name(story: Story) -> Step:
    """A sum for each name in a table with commas."""
    names = list(dict.fromkeys(story.names.word() for _ in range(3)))
    rows = amount_table(story.chance, 8, names)
    source = _source(story, [f"{n},{area},{amount}" for n, area, amount in rows], "csv")
    target = story.new_path("txt")
    sums: dict[str, int] = {}
    for name, _, amount in rows:
        sums[name] = sums.get(name, 0) + amount
    one, other = quote(source.path), quote(target)
    printed = "END { for (n in s) print n, s[n] }"
    return Step(
        told=story.say(
            f"For each name in the first column of {story.show(source.path)} (comma-separated, no "
            "header), add up the third column; write lines of the form NAME TOTAL to "
            f"{story.show(target)}, in any order.",
            f"The table {story.show(source.path)} has the columns name, area, amount, "
            f"separated by commas and without a header. Save in {story.show(target)} one line per "
            "name: the name, a space, the sum of its amounts. The order does not matter.",
        ),
        reference=f"awk -F, '{{ s[$1] += $3 }} {printed}' {one} > {other}",
        near_misses=(
            f"awk -F, '{{ s[$1]++ }} {printed}' {one} > {other}",
            f"awk -F, '{{ s[$2] += $3 }} {printed}' {one} > {other}",
            f"awk -F, '{{ print $1, $3 }}' {one} | head -n 7 > {other}",
        ),
        assertions=(
            Lines(target, tuple(f"{n} {total}" for n, total in sums.items()), ordered=False),
            source.kept,
        ),
    )


@template("awk", split="heldout")
def columns_of_rows(story: Story) -> Step:
    """Two columns of the rows whose number is above a limit; one row is exactly at it."""
    names = [story.names.word() for _ in range(5)]
    rows = amount_table(story.chance, story.chance.randint(7, 10), names)
    limit = sorted(amount for _, _, amount in rows)[len(rows) // 2]
    source = _source(story, [f"{n}:{area}:{amount}" for n, area, amount in rows])
    target = story.new_path()
    found = tuple(f"{n} {amount}" for n, _, amount in rows if amount > limit)
    one, other = quote(source.path), quote(target)
    return Step(
        told=story.say(
            f"The fields of {story.show(source.path)} are separated by colons. For every line "
            f"whose third field is greater than {limit}, write the first and the third field, "
            f"separated by one space, to {story.show(target)}, in the order of the file.",
            f"From {story.show(source.path)} (colon-separated: name, area, amount), save 'name "
            f"amount' (with one space between, no quotes) of each line with an amount above "
            f"{limit} (not equal to it) in {story.show(target)}; keep the order.",
        ),
        reference=f"awk -F: '$3 > {limit} {{ print $1, $3 }}' {one} > {other}",
        near_misses=(
            f"awk -F: '$3 >= {limit} {{ print $1, $3 }}' {one} > {other}",
            f"awk -F: '$3 > {limit} {{ print $1, $2 }}' {one} > {other}",
            f"awk -F: '$3 > {limit}' {one} > {other}",
        ),
        assertions=(Lines(target, found), source.kept),
    )


@template("wc", split="train")
def lines_counted(story: Story) -> Step:
    """How many lines a file has."""
    count = story.chance.randint(11, 60)
    source, target = _source(story, prose(story.chance, count)), story.new_path("txt")
    one, other = quote(source.path), quote(target)
    story.add(Thing(target, f"{count}\n", locked={"content", "place"}))
    return Step(
        told=story.say(
            f"Count the lines of {story.show(source.path)} and write just the number to "
            f"{story.show(target)}.",
            f"How many lines does {story.show(source.path)} have? Put the number, without the "
            f"file name, into {story.show(target)}.",
            f"The file {story.show(target)} must contain only the number of lines "
            f"in {story.show(source.path)}.",
        ),
        reference=f"wc -l < {one} > {other}",
        near_misses=(
            f"wc -w < {one} > {other}",
            f"wc -l {one} > {other}",
            f"tail -n +2 {one} | wc -l > {other}",
        ),
        assertions=(Content(target, f"{count}\n", trimmed=True), source.kept),
    )


@template("wc", split="heldout")
def words_or_bytes_counted(story: Story) -> Step:
    """How many words or bytes a file has."""
    option, what = story.chance.choice((("-w", "words"), ("-c", "bytes")))
    lines = [
        " ".join(line.split()[: story.chance.randint(1, 5)]) + f" {at}"
        for at, line in enumerate(prose(story.chance, story.chance.randint(5, 9)))
    ]
    source, target = _source(story, lines), story.new_path("txt")
    count = len(source.text.split()) if option == "-w" else len(source.text.encode())
    one, other = quote(source.path), quote(target)
    story.add(Thing(target, f"{count}\n", locked={"content", "place"}))
    return Step(
        told=story.say(
            f"Write the number of {what} in {story.show(source.path)}, and nothing else, to "
            f"{story.show(target)}.",
            f"Count the {what} of {story.show(source.path)}; the file {story.show(target)} gets "
            "the bare number.",
            f"The file {story.show(target)} is to hold one number: how many {what} "
            f"there are in {story.show(source.path)}.",
        ),
        reference=f"wc {option} < {one} > {other}",
        near_misses=(
            f"wc -l < {one} > {other}",
            f"wc {option} {one} > {other}",
            f"head -n -1 {one} | wc {option} > {other}",
        ),
        assertions=(Content(target, f"{count}\n", trimmed=True), source.kept),
    )


TEMPLATES: tuple[Template, ...] = (
    lines_found,
    lines_left_out,
    files_with_a_word,
    column_summed,
    sums_by_name,
    columns_of_rows,
    lines_counted,
    words_or_bytes_counted,
)
