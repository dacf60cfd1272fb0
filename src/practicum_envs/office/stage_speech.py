"""What stage directions make someone say.

"Tell them your name is Kim" is spoken as "My name is Kim."; quotes stay as they are.
"""

import re
from collections.abc import Iterator, Sequence

SAYS = (
    r"(?:say(?:ing)?|answer(?:ing)?|respon(?:d|se)|reply|mention(?:ing)?|express|state|note|explain"
    r"|suggest(?:ing)?|tell(?:ing)?|giv(?:e|ing)|provid(?:e|ing)|show|add|inform|remind|send)"
)
DOES = (
    r"(?:ask|instruct|refer|deny|decline|refuse|reject|accept|approve|agree|ack|acknowledge"
    r"|introduce|confirm|start|let|just)"
)
WHOM = r"(?:them|him|her|the person|anyone|the anyone|people|the (?:ai )?agent)"
MODAL = re.compile(
    r"^(?:(?:please|also|only|then|so|and|but|instead,?|first ask(?= [A-Z])|explicitly)\s+"
    r"|(?:you|your|the response|should you|he|she)\s+(?:should|can|could|may|must)\s+"
    r"|should you\s+)+",
    re.IGNORECASE,
)
SAY_HEAD = re.compile(
    rf"^{SAYS}\b(?:\s+only)?(?:\s+{WHOM}\b)?(?:\s+any information)?(?:\s+with\b)?(?:\s+that\b)?"
    r"\s*:?\s*",
    re.IGNORECASE,
)
HANDS_OVER = re.compile(r"^(?:tell|giv|provid|send|show|inform)", re.IGNORECASE)
HANDED = re.compile(
    r"^the (?:first |only |last )?(?P<what>[\w ]+?) (?:that )?you (?:should|can|must)"
    r" (?:give|tell|say)(?: them)? is (?:that )?(?P<it>.+)$",
    re.IGNORECASE | re.DOTALL,
)
AND_THAT = re.compile(r" and that ")
AND_DO = re.compile(r"\s+and (?=(?:then |also )?(?:introduce|instruct|ask|tell|mention)\b)")
VERB = re.compile(
    r"\b(?:is|are|am|was|were|has|have|had|will|would|can|could|should|does|do|did|may|might|must"
    r"|needs?|wants?|likes?|works?|costs?|spends?|thinks?|leads?|specializes|includes?|plans?"
    r"|there \w+s)\b|'(?:s|m|re|ve)\b",
    re.IGNORECASE,
)
PERSONS = (
    (r"\byou(?: a|')re\b", "I am"),
    (r"\byou(?:'ve| have)\b", "I have"),
    (r"\byourself\b", "myself"),
    (r"\byours\b", "mine"),
    (r"\byour\b", "my"),
    (
        r"\b(asks?|asked|tells?|told|gives?|gave|helps?|to|for|with|from|of|by|let|like|contact|call"
        r"|email|see|meet|sends?|sent|remind|reach|than) you\b",
        r"\1 me",
    ),
    (r"\byou\b", "I"),
)
"""What is said to someone, and what they say of themselves."""
ASKER = (
    (r"\bthemselves\b", "yourself"),
    (r"\btheir\b", "your"),
    (r"\bthey(?: a|')re\b", "you are"),
    (r"\b(?:them|they|the ai agent|the person)\b", "you"),
)
"""Who asks, in a direction, and in what is said to them."""
QUOTED = re.compile(r"""(`[^`]*`|"[^"]*"|(?<!\w)'[^']*'(?!\w))""")
ASKS_FOR = "Could you tell me"
DONE = (
    (r"(?:not|never) (.+?)(?:,? even if .*)?$", "Sorry, I cannot {0}"),
    (r"(deny|decline|refuse|reject)\b(.*)$", "I have to {0}{1}"),
    (r"(accept|approve|agree|confirm)\b(.*)$", "Yes, I {0}{1}"),
    (r"introduce (.+?) as (.+)$", "{0} could be {1}"),
    (rf"(?:instruct|ask) {WHOM} to (.+)$", "Please {0}"),
    (r"ask for (.+?)\.?$", f"{ASKS_FOR} {{0}} first?"),
    (rf"ask {WHOM} (why|what|who|when|where|how) they are (.+?)\.?$", "{0} are you {1}?"),
    (rf"ask (?:someone|{WHOM}) (?:to )?(.+?)\.?$", "Could you please {0}?"),
)
"""What someone says who does what a direction says."""


def spoken(act: str) -> Iterator[str]:
    """What a direction makes someone say, sentence by sentence; nothing where it is not its words.

    >>> list(spoken("You should tell them your phone number is 516-837-4592."))
    ['My phone number is 516-837-4592.']
    >>> list(spoken("You should decline it and introduce Kim as a candidate."))
    ['I have to decline it.', 'Kim could be a candidate.']
    >>> list(spoken("Provide some instructions."))
    []
    """
    handed = HANDED.match(act)
    if handed:
        named = "info" not in handed.group("what").lower()
        about = f"The {handed.group('what')} is " if named else ""
        yield from (as_sentence(f"{about}{own(one)}") for one in AND_THAT.split(handed.group("it")))
        return
    for part in AND_DO.split(AND_THAT.sub(" and ", act)):
        said = _spoken_part(part.strip())
        if said:
            yield as_sentence(said)


def _spoken_part(act: str) -> str:
    text = act
    hands_over = says = False
    while True:
        modal = MODAL.match(text)
        rest = text[modal.end() :] if modal else text
        head = SAY_HEAD.match(rest)
        if head is None:
            break
        hands_over |= bool(HANDS_OVER.match(rest))
        says, text = True, rest[head.end() :]
    if says and re.match(r"to [a-z]", text):
        return f"Please {_to_asker(text[3:])}"
    if says:
        return "" if _only_describes(text, hands_over=hands_over) else _content(text)
    is_told = modal is not None and re.search(r"should|can|could|may|must", modal.group(), re.I)
    does = re.match(rf"(?:{DOES}|not|never)\b", rest, re.IGNORECASE)
    if not is_told and not does and VERB.search(rest):
        return own(text)
    return _done(rest, is_told=bool(is_told))


def _done(text: str, *, is_told: bool) -> str:
    is_clause = text[:1].islower()
    text = text[:1].lower() + text[1:]
    for form, said in DONE:
        if found := re.match(form, text, re.IGNORECASE | re.DOTALL):
            return as_sentence(said.format(*map(_to_asker, found.groups())))
    if found := re.match(r"(?:at )?(?:first|start)(?: with| say)? (.+)$", text, re.IGNORECASE):
        return _content(found.group(1))
    if is_told:
        return f"I {own(text)}"
    if VERB.search(text):
        return own(text)
    return f"I will {own(text)}" if is_clause else ""


def _only_describes(text: str, *, hands_over: bool) -> bool:
    """Whether a direction says what is to be told without telling it, as in `the address of it`."""
    if re.search(r"^[a-z ]*\b(?:information|instructions|details)\W*$", text):
        return True
    is_plain = not re.search(r"\d|['\"`:/]", text) and not VERB.search(text)
    return hands_over and is_plain and text[:1].islower()


def _content(text: str) -> str:
    """The words of a direction after its verb as they are said."""
    if found := re.match(r"['\"`](\S+?)['\"`] as your (\w+)", text):
        return f"My {found.group(2)} is {found.group(1)}"
    if found := re.match(r"(?:this |the )(?:list|names?)[\w ]* ['\"`](.+)['\"`]\.?$", text):
        return found.group(1)
    text = re.sub(r"^(?:the following(?: requirements:)?\s*:?\s*|an application for )", "", text)
    if found := re.match(r"agreement to (.+)$", text):
        return f"Yes, I agree to {found.group(1)}"
    if found := re.match(r"(\w+ opinions?) (?:for|about|of|on) (.+)$", text):
        return f"I have {found.group(1)} of {found.group(2)}"
    follow = r"[,;]? but (?:then |quickly |later )*follow(?:ing)? up (?:with )?(?:saying )?"
    text = re.sub(follow, ". No, wait: ", text)
    text = re.sub(r" in the next message\b", "", text)
    text = re.sub(r"\b(but|and) (?:also )?(?:say|mention)(?: that)? ", r"\1 ", text)
    return _to_asker(text.strip("'\"`") if text.count("'") < 3 else text)


def _to_asker(text: str) -> str:
    return _replaced(own(text), ASKER)


def own(text: str) -> str:
    """A text about the actor as the actor says it.

    >>> own("You like 'your day', and people ask you for your advice.")
    "I like 'your day', and people ask me for my advice."
    """
    return _replaced(text, PERSONS)


def _replaced(text: str, forms: Sequence[tuple[str, str]]) -> str:
    """A text with forms of words replaced, but for what it quotes."""
    parts = QUOTED.split(text)
    for n in range(0, len(parts), 2):
        for theirs, ours in forms:
            parts[n] = re.sub(theirs, ours, parts[n], flags=re.IGNORECASE)
    return "".join(parts)


def as_sentence(text: str) -> str:
    """A text as a sentence; a password, a name of a file or a number keeps its end as it is.

    >>> [as_sentence(one) for one in ("around a week", "the key is a_b7.", "mj123")]
    ['Around a week.', 'The key is a_b7', 'mj123']
    """
    text = re.sub(r"\s+([.,])(?=\s|$)", r"\1", text.strip())
    ended = text.removesuffix(".")
    last = ended.split()[-1] if ended else ""
    is_quoted = last.endswith(("'", '"', "`"))
    if re.search(r"[#@_/]|[a-z]\d|\d[a-z]|\w\.\w", last, re.IGNORECASE) and not is_quoted:
        text = ended
    elif not re.search(r"[.!?:'\"`)]$", text):
        text = f"{text}."
    return text[:1].upper() + text[1:] if " " in text or text.endswith(".") else text
