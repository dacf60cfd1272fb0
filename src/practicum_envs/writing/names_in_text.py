"""Names that a text says though its brief does not: capitals where no sentence begins.

A word that begins a sentence is a name where the dictionary has no such word in small letters; a
given name that is a word too (`Grace`, `Mark`) where a verb or another capital follows it.
"""

import re

from practicum_envs.writing.closed_words import VERBS
from practicum_envs.writing.language_checks import is_known

NO_NAMES = frozenset(
    "i i'm i'll i've i'd ok tv pdf usb id diy q&a mr ms mrs dr dear hello hi hey".split()
)
"""Words with capitals that name nobody."""
ADDRESSED = re.compile(r"^(?:dear|hello|hi|hey|good (?:morning|evening))\b", re.IGNORECASE)
AMBIGUOUS = frozenset(
    "amber art basil bill bob carol chase chip christian clay daisy dale dawn dean don drew faith "
    "frank gene glen grace hank harmony heather holly hope hunter iris ivy jack jade jasmine jay "
    "joy june ken lance lily lane mark mason max may miles nick norm olive opal page pat patience "
    "pearl penny pete ray reed rich rob robin rod rose ruby rusty sandy skip sky sterling sue "
    "summer terry tom tony trace trip troy victor violet wade ward will woody".split()
)
"""Given names that are words too."""
_TOKEN = re.compile(r"[A-Za-z]+(?:['’][A-Za-z]+)*")


def names_in(sentence: str, known: frozenset[str]) -> list[str]:
    """Names in a sentence in which everything that the brief gives is blanked.

    Args:
        sentence: The sentence; NUL stands for what is blanked.
        known: Words of the brief in small letters, which may have capitals too.

    >>> names_in("Karla and Mark Brixton will lead it.", frozenset())
    ['Karla', 'Mark Brixton']
    """
    tokens = list(_TOKEN.finditer(sentence))
    if ADDRESSED.match(sentence):
        known = known | frozenset(one[0].lower() for one in tokens[:3] if is_known(one[0].lower()))
    found: list[str] = []
    end = -2
    for at, token in enumerate(tokens):
        following = tokens[at + 1][0] if at + 1 < len(tokens) else ""
        starts = not re.search(r"[A-Za-z0-9\0]", sentence[: token.start()])
        if not _is_name(token[0], following, starts=starts, known=known):
            continue
        if token.start() - end <= 1 and found:
            found[-1] += f" {token[0]}"
        else:
            found.append(token[0])
        end = token.end()
    return found


def _is_name(word: str, following: str, *, starts: bool, known: frozenset[str]) -> bool:
    plain = re.sub(r"['’]s$", "", word)
    small = plain.lower()
    if small in known or small in NO_NAMES or len(plain) == 1:
        return False
    if plain.islower():
        return is_only_a_name(small)
    if plain.isupper() and is_known(small):
        return False
    if not starts:
        return True
    if not is_known(small):
        return True
    follows = following[:1].isupper() or (following in VERBS and following != small)
    return small in AMBIGUOUS and follows


def is_only_a_name(small: str) -> bool:
    """Whether the dictionary has a word with a capital and not without one."""
    return len(small) > 2 and not is_known(small) and is_known(small.capitalize())
