"""What a colleague of TheAgentCompany says and when, read from its stage directions.

A scenario tells an actor what will happen (`extra_info`) and how to act (`strategy_hint`): "If
asked about the budget, say around 1500 dollars." Of that the colleague says "Around 1500 dollars.",
when asked about the budget. A sentence whose actor would have to make something up says nothing.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from practicum_envs.office.company_seed import Colleague, Fact, Person
from practicum_envs.office.stage_speech import (
    ASKS_FOR,
    DOES,
    MODAL,
    SAY_HEAD,
    SAYS,
    as_sentence,
    own,
    spoken,
)
from practicum_envs.office.understanding import words

NOT_AFTER = "".join(
    rf"(?<!\b{one})"
    for one in (
        *("they", "someone", "to", "you", "them", "person", "agent", "question"),
        *("not", "the", "a", "an", "first"),
    )
)
ACTS = (
    rf"{NOT_AFTER}(?:,\s*|\s+)(?=(?:then |also )?(?:{SAYS}|{DOES}|you (?:should|can|could|may|must)"
    r"|should you|please|at first)\b)"
)
LEADING = re.compile(
    rf"^(?P<when>(?:(?:only|also) )?(?:if|when|whenever|once|after|for)\b.+?){ACTS}(?P<act>.+)$",
    re.IGNORECASE | re.DOTALL,
)
BY_COMMA = re.compile(r"^(?P<when>(?:if|when|once)\b[^,]+),\s*(?P<act>.+)$", re.I | re.DOTALL)
TRAILING = re.compile(
    r"^(?P<act>.+?),?\s+(?:only )?(?P<when>(?:if|when|once) (?:they|the|someone|anyone|it|asked"
    r"|being|explicitly|directly|you are|you're|total)\b.*)$",
    re.IGNORECASE | re.DOTALL,
)
SCENE = re.compile(
    r"^(?:expect\b|be prepared\b|you (?:will|may|might|are going to) (?:also )?(?:be |receive|get)"
    r"|(?:he|she|they|he/her|he/she) (?:will|may|might)\b)"
    r"|\b(?:someone|anyone) (?:will|may|might)\b",
    re.IGNORECASE,
)
POLICY = re.compile(
    r"^(?:please )?(?:only (?:answer|give|tell|respond|provide) (?:the|what)|unless\b"
    r"|do(?:n't| not)\b|never\b|be \w+|just receive\b|act\b"
    r"|pretend\b|remember\b|keep\b|try\b|make sure\b)",
    re.IGNORECASE,
)
IS_BRIEF = re.compile(
    r"\bvolunteer\b|\bonly (?:give|answer|tell)\b.*\b(?:asked|directly)\b|\bspecifically ask\b",
    re.I,
)
IS_SILENT = re.compile(r"\bdo(?:n't| not)(?: need to)? (?:respond|reply|answer) (?:to|any)", re.I)
REFERS_BACK = re.compile(
    r"^(?:it|they|this|these)\b|\b(?:in|at|under|on) (?:this|these|that)\b"
    r"|\b(?:all|the) (?:other|rest)\b",
    re.I,
)
ORDINAL = re.compile(
    r"^(?:first|second|third|fourth|fifth|one|two|three|four|five|six)(?:ly)?,", re.IGNORECASE
)
HEADING = re.compile(r"^(?:for )?(?P<name>[A-Z][\w&/' -]{2,40}?):\s+(?=\S)")
PATH = re.compile(r"(?:^|[\s`'\"(])/\w|`\w+/|\w/\w[\w.-]*/|\w%20\w")
IS = r"(?:is|are|was|were|has been|can be found|will be|could be)\b"
ATTRIBUTE = re.compile(
    rf"^(?:i think |so |and |but )*(?P<of>(?:(?!\b{IS}|,).){{3,60}}?)\s+{IS}", re.IGNORECASE
)
DIRECTION = re.compile(
    r"\b(?:if|when|once|unless) (?:\w+ ){0,2}(?:asked|asks?|requested)\b|\bthe ai agent\b"
    r"|\btell them\b|\b(?:should|must) (?:\w+ )?(?:respond|reply|say|answer|tell|give)\b"
    r"|\bask (?:i|me) for\b|\bsomeone will\b",
    re.IGNORECASE,
)
"""What nobody says who answers: a direction that was not understood is not spoken."""
STOP = frozenset(
    words(
        """a about across again all also am an and any anyone anything are as asked ask asking asks
        at based be been being but by can could did directly do does doing don else even ever
        explicitly answer answering express finally following for from give given gives go had
        has have he her here him his how i if in into individual piece information instead is it
        its just let me mention might more my no not of on once only or other out over own
        person please possible possibly provide question questions related reply requested
        request requests respond response say she should so some someone something specific
        specifically start such tell than that the their them then there these they thing this
        those to too under up us very was we were what when where whether which while who why
        will with would you your yourself re ve ll want first another finally new following name
        named expect prepared discuss know recent receive send""",
    )
)
"""Words of directions that are about nothing."""
RULES_GIVEN = "character|uppercase|lowercase|digit|symbol|length|letter|at least"
"""Words of any rules: who was asked for them need not call them that."""


@dataclass(slots=True, kw_only=True)
class _Line:
    """One sentence of a scenario, as it is being understood."""

    says: list[str]
    topics: list[str] = field(default_factory=list)
    """What it is about, by its condition, heading or subject."""
    body: list[str] = field(default_factory=list)
    again: list[str] = field(default_factory=list)
    needs: tuple[str, ...] = ()
    otherwise: str = ""
    is_open: bool = True
    """Whether any question about the situation asks for it."""
    is_conditional: bool = False
    """Whether nothing but its condition asks for it."""
    is_list: bool = False
    is_question: bool = False


def colleague_of(person: Person, scenario: Mapping[str, str]) -> Colleague:
    """The colleague of a scenario: `extra_info` and `strategy_hint` of one person.

    >>> kim = Person(username="kim", name="Kim Ray")
    >>> hint = "If asked about the budget, say you can spend 1500 dollars."
    >>> [fact] = colleague_of(kim, {"strategy_hint": hint}).facts
    >>> fact.when, fact.say
    (('budget',), 'I can spend 1500 dollars.')
    """
    info, hint = (str(scenario.get(key, "")) for key in ("extra_info", "strategy_hint"))
    reader = _Reader(person)
    reader.read(info)
    reader.begin_hint()
    reader.read(hint)
    return Colleague(
        username=person.username,
        facts=tuple(reader.facts()),
        greeting=reader.greeting,
        otherwise=reader.otherwise,
        is_silent=bool(IS_SILENT.search(hint)),
        is_brief=bool(IS_BRIEF.search(f"{info}\n{hint}")),
        persona=f"You are {person.name}, {person.role}. {person.about}",
        goal=f"{info}\n{hint}".strip(),
    )


class _Reader:
    """Reads the sentences of one scenario in turn."""

    def __init__(self, person: Person) -> None:
        self._person = person
        self._lines: list[_Line] = []
        self._known: int | None = None
        """How many lines are the situation's, once all of them are read."""
        self._scene: list[str] = []
        self._asks_first: tuple[str, tuple[str, ...], list[str]] | None = None
        """A question of the colleague's, what answers it, and what it is about."""
        self.greeting = ""
        self.otherwise = ""
        """As those of `Colleague`."""

    def begin_hint(self) -> None:
        """What was read so far is the situation; directions may say to tell it."""
        self._known = len(self._lines)

    def read(self, text: str) -> None:
        """Read one text; each of its lines may be an item of what is announced before."""
        is_first_person = bool(re.search(r"\bI(?:'m| am| have| don't| think)\b", text))
        announced: _Line | None = None
        for block in filter(None, (one.strip() for one in text.split("\n"))):
            is_item = announced is not None
            for number, sentence in enumerate(_sentences(re.sub(r"^[-*•]\s*", "", block))):
                if is_item and announced is not None:
                    self._add_item(announced, sentence)
                elif not self._continues(sentence):
                    self._read_sentence(sentence, is_first_person)
                if number == 0 and is_item and self._lines:
                    self._lines[-1].is_list = bool(HEADING.match(sentence))
            if block.endswith(":") and self._lines and not is_item:
                announced = self._lines[-1]

    def _add_item(self, announced: _Line, item: str) -> None:
        """An item of a list is a fact of its own, but for names of files and the like."""
        if len(item.split()) <= 1:
            announced.says[-1] = f"{announced.says[-1].rstrip('.')} {item}"
            return
        if announced in self._lines and announced.says[-1].rstrip(". ").endswith(":"):
            self._lines.remove(announced)
        if self._lines and self._lines[-1].is_list and not HEADING.match(item):
            self._lines[-1].says.append(item)
            self._lines[-1].body += topics_of(item)
            return
        line = self._line_of([as_sentence(item)])
        line.topics += [] if announced.is_open else announced.topics
        line.is_open = True
        self._lines.append(line)

    def _continues(self, sentence: str) -> bool:
        """Whether a sentence is the next point of the list before it."""
        if not (self._lines and self._lines[-1].is_list and ORDINAL.match(sentence)):
            return False
        self._lines[-1].says.append(sentence)
        self._lines[-1].body += topics_of(sentence)
        return True

    def _read_sentence(self, sentence: str, is_first_person: bool) -> None:
        plain = re.sub(
            r"^(?:however|then|also|and|finally|instead)\b,?\s*", "", sentence, flags=re.I
        )
        if SCENE.search(plain):
            self._scene += topics_of(plain)
            return
        if POLICY.match(plain) and not LEADING.match(plain):
            if re.search(r"\back\b|acknowledge", plain, re.IGNORECASE):
                self.greeting = "Got it, thank you."
            return
        when, act = _condition(plain)
        if re.match(r"you (?:don't|do not) know\b", act, re.IGNORECASE) and not when:
            self.otherwise = as_sentence(own(act))
            return
        is_hint = self._known is not None
        last = self._lines[-1] if self._lines else None
        for line in self._lines_of(act, when, is_first_person):
            if is_hint and last is not None and not when and self._belongs(sentence, line, last):
                last.says += line.says
                last.topics += line.topics
                last.body += line.body
                continue
            if is_hint and sentence.startswith("But "):
                line.is_open, line.is_conditional = False, True
                before = {one for other in self._lines for one in other.body}
                line.topics = [one for one in line.body if one not in before]
            self._place(line, when)

    def _belongs(self, sentence: str, line: _Line, last: _Line) -> bool:
        """Whether what a sentence makes someone say is said together with what is before it."""
        follows = re.match(r"(?:then|and)\b", sentence, re.IGNORECASE)
        goes_on = not last.is_open and SAY_HEAD.match(sentence)
        return bool(follows or goes_on or REFERS_BACK.search(line.says[0]))

    def _lines_of(self, act: str, when: str, is_first_person: bool) -> list[_Line]:
        """What an act says; nothing where it says nothing by itself."""
        if re.match(r"(?:you |could |should )*refer\b", act, re.I):
            place = re.sub(r"^.*?\bto\b\s*", "", act).strip(" .")
            self.otherwise = f"I do not know that. Please have a look at {place}."
            return []
        if re.match(r"(?:please )?introduce yourself\b", act, re.I):
            known = f", {self._person.role}" if self._person.role else ""
            said = [f"I am {self._person.name}{known}. Nice to meet you."]
        elif is_first_person or (HEADING.match(act) and not MODAL.match(act)):
            said = [as_sentence(act)]
        else:
            said = list(spoken(act))
        said = [one for one in said if not DIRECTION.search(one)]
        if not said:
            self._describe(act, when)
            return []
        if len(said) > 1 and all(map(ATTRIBUTE.match, said)):
            return [self._line_of([one]) for one in said]
        line = self._line_of(said)
        line.is_question = bool(re.match(r"(?:you should )?ask\b", act, re.I))
        return [line]

    def _describe(self, act: str, when: str) -> None:
        """A direction to tell something that the situation says: what asks for it."""
        modal = MODAL.match(act)
        if not SAY_HEAD.match(act[modal.end() :] if modal else act):
            return
        topics = [*topics_of(act), *topics_of(when)]
        for line in self._lines[: self._known or 0]:
            line.topics = list(dict.fromkeys([*line.topics, *topics]))
            line.is_open &= not when and "only" not in act
        if not self._known:
            self._scene += topics

    def _line_of(self, said: list[str]) -> _Line:
        line = _Line(says=said)
        heading, subject = HEADING.match(said[0]), ATTRIBUTE.match(said[0])
        if heading:
            line.topics = topics_of(heading.group("name"))
            line.is_list = bool(ORDINAL.match(said[0][heading.end() :]))
        elif subject:
            line.topics = topics_of(subject.group("of"))
        line.body = topics_of(" ".join(said))
        return line

    def _place(self, line: _Line, when: str) -> None:
        """Add a line where its condition puts it: on its own, in turn, or after an answer."""
        about = topics_of(when)
        last = self._lines[-1] if self._lines else None
        if line.is_question and line.says[0].startswith(ASKS_FOR):
            wanted = tuple(topics_of(line.says[0].removeprefix(ASKS_FOR)))
            self._asks_first = (line.says[0], wanted, about)
            return
        if last is not None and re.search(r"\b(?:another|again)\b", when):
            last.again += line.says
            last.topics += about
            return
        told = re.match(
            r"(?:if|when|once) (?:they|someone|you are) (?:tells?|says?|told) ", when, re.I
        )
        if told and last is not None:
            line.needs = tuple(topics_of(when[told.end() :]))
            line.topics = [*last.topics]
            line.body = [one for other in self._lines for one in other.body]
        elif self._asks_first is not None:
            question, needed, asked_about = self._asks_first
            is_for_rules = re.search(r"\b(?:rules?|polic\w+|requirements?)\b", question)
            line.otherwise = question
            line.needs = (RULES_GIVEN,) if is_for_rules else needed
            line.topics, self._asks_first = [*asked_about, *line.topics], None
        else:
            line.topics = about or line.topics
            is_explicit = re.search(r"\b(?:explicitly|specifically|directly)\b", when)
            line.is_conditional |= bool(about)
            line.is_open &= not (about or is_explicit)
        self._lines.append(line)

    def facts(self) -> Iterator[Fact]:
        """All that was understood, as facts."""
        scene = self._scene or [one for line in self._lines for one in line.body]
        own = {one for line in self._lines for one in (*line.topics, *line.body)}
        general = [one for one in scene if one not in own] if self._scene else scene
        for line in self._lines:
            special = [one for one in line.body if one not in scene]
            of_scene = [one for one in line.body if one in scene]
            vaguely = [special, general, of_scene or scene]
            if line.is_conditional and line.topics:
                vaguely = [scene] if len(self._lines) == 1 else []
            elif not line.is_open:
                vaguely = [special, [], of_scene]
            yield Fact(
                when=_pattern(line.topics),
                say=" ".join(line.says),
                again=tuple(line.again),
                needs=line.needs,
                otherwise=line.otherwise,
                also=tuple("|".join(dict.fromkeys(one)) for one in vaguely),
            )


def _pattern(topics: Sequence[str]) -> tuple[str, ...]:
    return ("|".join(dict.fromkeys(topics)),) if topics else ()


def _sentences(block: str) -> list[str]:
    return [one for one in re.split(r"(?<=[.!?])['\"`]?\s+(?=[A-Z'\"(`])", block) if one]


def topics_of(text: str) -> list[str]:
    """The words of a text that say what it is about.

    >>> topics_of("Someone will ask you for your phone number.")
    ['phon', 'number']
    """
    text, links = re.subn(r"https?:/\S+", " ", text)
    text = re.sub(r"\bneed (?:any |some |more )?info(?:rmation)?\b", " ", text, flags=re.IGNORECASE)
    text += " link address" * bool(links) + " path folder" * bool(PATH.search(text))
    kept = [one for one in words(text) if one not in STOP and len(one) > 1]
    return list(dict.fromkeys(one for one in kept if not one[0].isdigit()))


def _condition(sentence: str) -> tuple[str, str]:
    """The condition of a direction, empty where it has none, and what is to be done.

    >>> _condition("When asked about the budget, say 5 dollars.")
    ('When asked about the budget', 'say 5 dollars.')
    >>> _condition("Approve it when someone asks for it.")
    ('when someone asks for it.', 'Approve it')
    """
    for form in (LEADING, BY_COMMA, TRAILING):
        if found := form.match(sentence):
            act = re.sub(r",? even$", "", found.group("act").strip())
            return found.group("when").strip(), act
    return "", sentence
