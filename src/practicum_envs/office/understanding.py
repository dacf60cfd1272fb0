"""What a message is about, whatever its wording: words without their endings, numbers, synonyms.

There is no model in this. Words of one line of `SYNONYMS` mean the same in an office; a word that
someone's facts have themselves is taken as it is, so that a "cost centre" is no price.
"""

import re
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from functools import lru_cache

SYNONYMS = """
price cost charge fee howmuch expensive quote rate
budget money spend afford howmuch fund cost > sum dollar
salary pay wage compensation earn howmuch remuneration
total sum overall altogether
amount quantity howmany number count piece pieces
deadline date due when soon till until finish done late outdated cutoff expire
day days date howlong long duration week when > length
length long characters
available availability free time slot calendar schedule when suit busy work make interview meet
unavailable busy decline refuse reject impossible
interview interviewer candidate applicant
weekday day monday tuesday wednesday thursday friday saturday sunday week when
destination place location city country where go
vacation holiday trip travel break > destination where city country
path folder directory where location place located stored
document file doc paper sheet record quote offer
quote quotes offer bid vendor supplier
equipment item gear hardware thing stuff device supplies buy purchase order get request want need
requirement need must require criteria spec specification specs condition look expect want should
minimum least basic mandatory required
preferred nice bonus plus ideal optional
responsibility duty task daytoday role job responsible
qualification degree education skill experience ability able graduate
competency skill ability can expertise background knowledge
effort workload staffing capacity allocation
memory ram
cpu processor core chip
storage disk ssd nvme drive space
warranty guarantee
participant attend attendee present join who anybody anyone somebody everyone people person name
feedback opinion think impression view thought judge like comment review performance happy
performance job work doing perform
score rating grade mark rate point number star scale
reimbursement reimburse refund expense claim payback receipt bill cover repay
bill receipt invoice expense
half part partially
procedure process policy rule handle way
status state progress update finish finished done complete completed ready far started ticket
issue ticket bug problem error case card task work
description describe detail text content
milestone release version
fix repair solve solution resolve answer
discount rebate percent reduction
delivery deliver ship shipping arrive ready
host hostname machine server
approve approval approved accept agree allow ok okay permit sign authorise authorize
reply answer respond say
remove delete drop erase
reduce cut lower less save
logo avatar picture image icon
repository repo project
phone telephone mobile call
born birth native country
nationality citizenship citizen passport national
category class type kind ebs eb
department team unit division group
reason why
password passphrase credential secret > key
rule requirement policy criteria
wiki page documentation handbook
introduce introduction greeting hello hi hey morning afternoon meet
research r&d development
hour time long week
unzip unpack extract decompress
archive zip
elect election choose opt claim
prior previous past last earlier
notify notification inform message announce tell distribute
next afterwards after else
"""
"""Each line: words that mean the same at work; those after ">" may stand for those before it, not
the other way. A word may be on several lines."""
PHRASES = (
    (r"\bcan(?:['’]|no)t\b", "can not"),
    (r"\bwon['’]t\b", "will not"),
    (r"n['’]t\b", " not"),
    (r"\bhow much\b", "howmuch"),
    (r"\bhow many\b", "howmany"),
    (r"\bhow long\b", "howlong"),
    (r"\bday[ -]to[ -]day\b", "daytoday"),
    (r"\b(?:took|take|taken|taking) part\b", "attend"),
    (r"\bcut-?off\b", "cutoff"),
    (r"\bpay (?:me |it |us )?back\b|\bmoney back\b|\bget (?:\w+ )?back\b", "payback"),
    (
        r"\b(?:out of (?:five|5)|1 ?(?:-|to) ?5|(?:between )?(?:one|1) (?:and|to) (?:five|5))\b",
        "score",
    ),
    (
        r"\b(?:not (?:\w+ )?(?:available|able|free)|unable|can not|no time|too busy|turned down"
        r"|said no|will not|would not)\b",
        "unavailable",
    ),
    (r"\b(?:com(?:e|ing) along|gett?(?:ing)? on|go(?:ing)? with|far along)\b", "status"),
    (r"\bat most\b|\blimit\b", "budget"),
    (r"\b(?:50|fifty) ?(?:%|percent\b|per cent\b)", "half"),
)
"""Several words that are read as one."""
ONES = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen "
    "sixteen seventeen eighteen nineteen twenty"
)
TENS = "thirty forty fifty sixty"
NUMBERS = {
    **{word: str(n) for n, word in enumerate(re.findall(r"\w+", ONES))},
    **{word: str(10 * n) for n, word in enumerate(re.findall(r"\w+", TENS), 3)},
}
TOKEN = re.compile(r"\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+\.\d+(?!\w)|r&d|[a-z0-9]+")
LEAST_FUZZY = 7
"""Letters of a word whose misspelling is recognised."""
ALIKE = 0.84
NEGATIONS = frozenset(["not", "no", "never", "without", "unavailable"])
NEGATION_REACH = 3
"""Words before which a "not" is one about them."""


def words(text: str) -> tuple[str, ...]:
    """The words of a text in order, without endings; numbers as numbers.

    >>> words("How much are the two desk-lamps? $1,200.50!")
    ('howmuch', 'ar', 'th', '2', 'desk', 'lamp', '1200.5')
    """
    lowered = text.lower()
    for phrase, one in PHRASES:
        lowered = re.sub(phrase, one, lowered)
    return tuple(_plain(token) for token in TOKEN.findall(lowered))


def _plain(token: str) -> str:
    if token in NUMBERS:
        return NUMBERS[token]
    if token[0].isdigit():
        number = token.replace(",", "")
        return number.rstrip("0").rstrip(".") if "." in number else number
    return stem(token)


def stem(word: str) -> str:
    """A word without its endings; a stem is its own stem.

    >>> [stem(word) for word in ("rating", "rated", "participants", "companies", "preferred")]
    ['rat', 'rat', 'participant', 'company', 'prefer']
    """
    shorter = _shorter(word)
    return word if shorter == word else stem(shorter)


def _shorter(word: str) -> str:
    if word.endswith("ies") and len(word) > 4:
        return word[:-3] + "y"
    if re.search(r"(?:x|ch|sh|z|ss)es$", word):
        return word[:-2]
    if word.endswith("s") and len(word) > 3 and not word.endswith(("ss", "us", "is")):
        return word[:-1]
    for ending in ("ing", "ed"):
        if word.endswith(ending) and len(word) > len(ending) + 2:
            word = word[: -len(ending)]
            is_doubled = len(word) > 3 and word[-1] == word[-2] and word[-1] not in "ls"
            return word[:-1] if is_doubled else word
    return word[:-1] if word.endswith("e") and len(word) > 2 else word


@lru_cache(maxsize=1)
def _groups() -> tuple[dict[str, set[int]], dict[str, set[int]]]:
    """The lines of `SYNONYMS` that a word is on, as one that is said and as one that is meant."""
    said: dict[str, set[int]] = {}
    meant: dict[str, set[int]] = {}
    for number, line in enumerate(SYNONYMS.strip().splitlines()):
        both, _, only_said = line.partition(">")
        for one in [*both.split(), *only_said.split()]:
            said.setdefault(_plain(one), set()).add(number)
        for one in both.split():
            meant.setdefault(_plain(one), set()).add(number)
    return said, meant


def means(said: str, wanted: str) -> bool:
    """Whether one word stands for another; both without endings."""
    lines, meant = _groups()
    return not lines.get(said, set()).isdisjoint(meant.get(wanted, ())) or _is_misspelt(
        said, wanted
    )


def _is_misspelt(said: str, wanted: str) -> bool:
    if min(len(said), len(wanted)) < LEAST_FUZZY or said[:2] != wanted[:2]:
        return False
    return SequenceMatcher(None, said, wanted).ratio() >= ALIKE


def known_words(patterns: Sequence[str]) -> frozenset[str]:
    """The single words of patterns such as `budget|money`."""
    alternatives = [words(one) for pattern in patterns for one in pattern.split("|")]
    return frozenset(one[0] for one in alternatives if len(one) == 1)


def places(pattern: str, said: Sequence[str], known: frozenset[str]) -> frozenset[int]:
    """Where words of a message match one of the alternatives of a pattern.

    A word that is in `known` stands for itself alone.
    """
    found: set[int] = set()
    for alternative in pattern.split("|"):
        wanted = words(alternative)
        if len(wanted) == 1:
            found.update(
                n
                for n, one in enumerate(said)
                if one == wanted[0] or (one not in known and means(one, wanted[0]))
            )
        elif wanted:
            found.update(
                n for start in _runs(wanted, said) for n in range(start, start + len(wanted))
            )
    return frozenset(found)


def _runs(wanted: Sequence[str], said: Sequence[str]) -> Iterator[int]:
    for start in range(len(said) - len(wanted) + 1):
        if tuple(said[start : start + len(wanted)]) == tuple(wanted):
            yield start


def matches(patterns: Sequence[str], said: Sequence[str], known: frozenset[str]) -> frozenset[int]:
    """Where a message has something of each pattern; nowhere unless it has all.

    >>> matches(["budget|money", "server"], words("What can we spend on the server?"), frozenset())
    frozenset({3, 6})
    >>> matches(["budget"], words("How are you?"), frozenset())
    frozenset()
    """
    found = [places(pattern, said, known) for pattern in patterns]
    return frozenset().union(*found) if found and all(found) else frozenset()


def states(pattern: str, text: str, known: frozenset[str]) -> bool:
    """Whether a message states something, and not that it is not so.

    >>> states("approved", "Ann has approved it.", frozenset())
    True
    >>> states("approved", "Ann has not approved it.", frozenset())
    False
    """
    said = words(text)
    return any(
        said[n] in NEGATIONS or not NEGATIONS & set(said[max(0, n - NEGATION_REACH) : n])
        for n in places(pattern, said, known)
    )


SENTENCES = re.compile(r"(?<=[.!?])\s+|\n+")
GREETING = re.compile(
    r"^\W*(?:hi|hey|hello|dear|good (?:morning|afternoon|evening)|greetings|nice to meet)\b"
    r"|\bmy name is\b|\bi(?: a|')m (?:new|the new|an? )|\bintroduce myself\b",
    re.IGNORECASE,
)
THANKS = re.compile(r"\b(?:thanks|thank you|thx|cheers|bye|goodbye|have a (?:nice|good))\b", re.I)
REQUEST = re.compile(
    r"\?|^(?:\W*(?:hi|hey|hello)\W+)?(?:what|which|who|whom|where|when|why|how|is|are|do|does|did"
    r"|can|could|may|would|will|have|has|any)\b"
    r"|\b(?:please|tell|give|send|share|show|provide|list|name|explain|describe|confirm|repeat"
    r"|remind|let me know|(?:i|we)(?: would|'d)? (?:need|want|like|wish|request)|want to know"
    r"|\w+ (?:needs|wants|requires) (?:an?|your|to know)"
    r"|choose|pick|what do you|may i|(?:can|could|would|will) you|ask(?:ing)? (?:you|for|about)"
    r"|need anything|hand in|waiting for)\b",
    re.IGNORECASE,
)
SOFT_REQUEST = re.compile(
    r"\b(?:collecting|gathering|looking for|wondering|interested|planning|preparing|putting"
    r"|compiling|making|writing|heard|help|about|regarding|concerning|missing|reported)\b",
    re.IGNORECASE,
)
STATEMENT = re.compile(
    r"\b(?:is|are|am|was|were|has|have|had|will|did|do|does)\b|(?<=\w)'(?:s|re|m|ve)\b",
    re.IGNORECASE,
)
REPEAT = re.compile(
    r"\b(?:repeat|remind|say (?:that|it) again|(?<!try )once more|what was|did you say)\b",
    re.IGNORECASE,
)
REFUSED = re.compile(
    r"\b(?:invalid|wrong|not (?:\w+ ){0,2}(?:valid|follow|meet|allowed|ok|okay|enough)|does ?n.t"
    r"|is ?n.t|too (?:short|long|weak)|short(?:er)? than|lacks|violates?|breaks)\b",
    re.IGNORECASE,
)
"""What was told will not do."""
ANOTHER = re.compile(
    rf"{REFUSED.pattern}"
    r"|\b(?:another|different|other one|new one|next one|else|again|once more|instead|missing)\b",
    re.IGNORECASE,
)
BACK_REFERENCE = re.compile(
    r"\b(?:that|this|those|these|it|them|why|how many|how much|which|sure)\b", re.IGNORECASE
)
SHORT = 9
"""Words of a sentence without a verb that may still ask for something."""


def asking_parts(text: str) -> Iterator[str]:
    """Those parts of a message that ask for something, the plainest first, and last all of it.

    Nothing of a message that only tells something.

    >>> list(asking_parts("We have a new server. What may it cost?"))
    ['What may it cost?', 'We have a new server. What may it cost?']
    >>> list(asking_parts("The budget is spent."))
    []
    """
    sentences = [one for one in SENTENCES.split(text) if one.strip()]
    plain = [one for one in sentences if REQUEST.search(one)]
    softly = [one for one in sentences if one in plain or SOFT_REQUEST.search(one)]
    any_way = [one for one in sentences if one in softly or _is_fragment(one)]
    whole = sentences if any_way else []
    yield from dict.fromkeys(" ".join(parts) for parts in (plain, softly, whole) if parts)


LIST_ITEM = re.compile(r"[,;?]+\s*(?:and|or|as well as)?\b|\s+(?:and|as well as)\s+", re.IGNORECASE)
MOST_OF_A_NAME = 3
"""Words of what is asked for by its name alone."""


def list_items(question: str) -> list[str]:
    """The things that a question lists; nothing where it asks for one.

    >>> list_items("The place, the number of days and your budget?")
    ['The place', 'the number of days', 'your budget?']
    >>> list_items("What is your budget?")
    []
    """
    items = [one.strip() for one in LIST_ITEM.split(question) if one.strip(" .:-)")]
    return items if len(items) > 1 else []


def is_bare(item: str) -> bool:
    """Whether an item of a list is no more than the name of what is asked for."""
    return len(item.split()) <= MOST_OF_A_NAME and _is_fragment(item) and not REQUEST.search(item)


def _is_fragment(sentence: str) -> bool:
    """Such as `the budget for the server`."""
    return (
        len(sentence.split()) <= SHORT
        and not STATEMENT.search(sentence)
        and not THANKS.search(sentence)
        and not GREETING.match(sentence)
    )
