"""Templates about changing files in place: replaced words, deleted lines, new values."""

from shlex import quote

from practicum.environments.shell.generated.assertions import Content
from practicum.environments.shell.generated.material import prose, settings, text_of
from practicum.environments.shell.generated.step import Step, Template, template
from practicum.environments.shell.generated.story import Story, Thing

__all__ = ["TEMPLATES"]


def _edited(story: Story, before: list[str], after: list[str], extension: str) -> Thing:
    """A file that a step changes from one text to another."""
    thing = story.give_file(text_of(before), extension)
    thing.text, thing.is_given = text_of(after), False
    thing.locked.update(("content", "place"))
    return thing


@template("sed", split="train")
def word_replaced(story: Story) -> Step:
    """Every occurrence of a word becomes another one, also where a line has two."""
    old, new = story.names.word() + "1", story.names.word() + "2"
    lines = prose(story.chance, 6)
    for at in story.chance.sample(range(6), 3):
        lines[at] = f"{old} {lines[at]} {old}"
    lines[story.chance.randrange(6)] += f" {old}"
    after = [line.replace(old, new) for line in lines]
    thing = _edited(story, lines, after, "txt")
    path, place = story.show(thing.path), quote(thing.path)
    return Step(
        told=story.say(
            f"Replace every occurrence of {old} in {path} by {new}.",
            f"In the file {path}, the word {old} has to become {new} everywhere, several times in "
            "a line too. Nothing else changes.",
            f"Edit {path} in place: {old} -> {new}, all occurrences.",
        ),
        reference=f"sed -i 's/{old}/{new}/g' {place}",
        near_misses=(
            f"sed -i 's/{old}/{new}/' {place}",
            f"sed 's/{old}/{new}/g' {place} > {place}.new",
            f"sed -i 's/{old}//g' {place}",
        ),
        assertions=(Content(thing.path, thing.text),),
    )


@template("sed", split="heldout")
def lines_deleted(story: Story) -> Step:
    """A range of lines goes."""
    lines = prose(story.chance, story.chance.randint(8, 11))
    first = story.chance.randint(2, 4)
    last = first + story.chance.randint(1, 3)
    thing = _edited(story, lines, lines[: first - 1] + lines[last:], "txt")
    path, place = story.show(thing.path), quote(thing.path)
    return Step(
        told=story.say(
            f"Delete lines {first} to {last} (both included) from {path}.",
            f"The file {path} has to lose its lines {first} through {last}; line {first - 1} is "
            f"then followed by what is now line {last + 1}.",
            f"Remove from {path} everything from line {first} up to and including line {last}, in "
            "the file itself.",
        ),
        reference=f"sed -i '{first},{last}d' {place}",
        near_misses=(
            f"sed -i '{first},{last - 1}d' {place}",
            f"sed -i '{first + 1},{last}d' {place}",
            f"sed -n -i '{first},{last}p' {place}",
        ),
        assertions=(Content(thing.path, thing.text),),
    )


@template("sed", split="heldout")
def line_prefixed(story: Story) -> Step:
    """The lines with a word are commented out."""
    word = story.names.word() + "3"
    lines = prose(story.chance, 7)
    for at in story.chance.sample(range(7), 2):
        lines[at] = f"{lines[at]} {word}"
    after = [f"# {line}" if word in line else line for line in lines]
    thing = _edited(story, lines, after, "conf")
    path, place = story.show(thing.path), quote(thing.path)
    return Step(
        told=story.say(
            f"Comment out every line of {path} that contains {word}: put '# ' (a hash and a "
            "space) in front of it.",
            f"In {path}, each line with the word {word} in it must begin with a hash and one "
            "space before its present text. All other lines stay.",
        ),
        reference=f"sed -i '/{word}/s/^/# /' {place}",
        near_misses=(
            f"sed -i 's/^/# /' {place}",
            f"sed -i '/{word}/d' {place}",
            f"sed -i '0,/{word}/{{/{word}/s/^/# /}}' {place}",
        ),
        assertions=(Content(thing.path, thing.text),),
    )


@template("vi", split="train")
def value_changed(story: Story) -> Step:
    """One setting gets another value, its neighbours do not."""
    values = settings(story.chance, 5)
    key = story.chance.choice(list(values))
    lines = [f"{name}={value}" for name, value in values.items()]
    lines.insert(1, f"max_{key}={int(values[key]) + 1}")
    new = story.chance.randint(9001, 9999)
    after = [f"{key}={new}" if line == f"{key}={values[key]}" else line for line in lines]
    thing = _edited(story, lines, after, story.say("conf", "ini", "cfg"))
    path, place = story.show(thing.path), quote(thing.path)
    return Step(
        told=story.say(
            f"Edit {path}: the setting {key} must be {new}; every other line stays as it is.",
            f"Open {path} in an editor and change the value of {key} (now {values[key]}) to {new}, "
            "without changing anything else.",
            f"In the configuration file {path}, set {key} to {new} on the line where it is set "
            "now.",
        ),
        reference=f"vi -es -c '%s/^{key}=.*/{key}={new}/' -c wq {place}",
        near_misses=(
            f"echo {key}={new} >> {place}",
            f"sed -i 's/{key}=.*/{key}={new}/' {place}",
            f"echo {key}={new} > {place}",
        ),
        assertions=(Content(thing.path, thing.text),),
    )


@template("vi", split="heldout")
def line_inserted(story: Story) -> Step:
    """A new line goes in behind a given one."""
    *lines, new = prose(story.chance, story.chance.randint(6, 9))
    at = story.chance.randint(2, len(lines) - 2)
    thing = _edited(story, lines, [*lines[:at], new, *lines[at:]], "txt")
    path, place = story.show(thing.path), quote(thing.path)
    return Step(
        told=story.say(
            f"Insert a new line after line {at} of {path}. It reads: {new}",
            f"Edit the file {path} so that its line {at + 1} is the following new line, and the "
            f"lines after it move down by one: {new}",
            f"Open {path} and add, between the present lines {at} and {at + 1}, this line: {new}",
        ),
        reference=f"printf '%s\\n' {at}a {quote(new)} . wq | vi -es {place}",
        near_misses=(
            f"sed -i {quote(f'{at}i {new}')} {place}",
            f"sed -i {quote(f'{at + 1}a {new}')} {place}",
            f"echo {quote(new)} >> {place}",
            f"sed -i {quote(f'{at}c {new}')} {place}",
        ),
        assertions=(Content(thing.path, thing.text),),
    )


@template("vi", split="heldout")
def lines_swapped(story: Story) -> Step:
    """Two neighbouring lines change places."""
    lines = prose(story.chance, story.chance.randint(5, 8))
    at = story.chance.randint(1, len(lines) - 2)
    after = [*lines[: at - 1], lines[at], lines[at - 1], *lines[at + 1 :]]
    thing = _edited(story, lines, after, "txt")
    path, place = story.show(thing.path), quote(thing.path)
    return Step(
        told=story.say(
            f"Swap lines {at} and {at + 1} of {path}.",
            f"In {path}, the lines {at} and {at + 1} are in the wrong order: exchange them and "
            "leave all others in place.",
        ),
        reference=f"vi -es -c '{at}m{at + 1}' -c wq {place}",
        near_misses=(
            f"vi -es -c '{at + 1}m{at + 2}' -c wq {place}",
            f"vi -es -c '{at}t{at + 1}' -c wq {place}",
            f"vi -es -c '{at}m$' -c '$d' -c wq {place}",
        ),
        assertions=(Content(thing.path, thing.text),),
    )


TEMPLATES: tuple[Template, ...] = (
    word_replaced,
    lines_deleted,
    line_prefixed,
    value_changed,
    line_inserted,
    lines_swapped,
)
