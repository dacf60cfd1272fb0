"""The small words of English, which are few enough to list, and common verbs in all their forms."""

ARTICLES = "the a an our your their my every".split()
PREPOSITIONS = "of at for from with by to in on into about before after until during".split()
CONJUNCTIONS = "and or but because if so that than when while".split()
PRONOUNS = "i you he she it we they us them me him this these those who which what".split()
AUXILIARIES = (
    "is are was were be been being am has have had do does did will would can could may might must "
    "shall should"
).split()
OTHERS = (
    "please not no there here as all any both each some more most other such only also very too "
    "just then its his her less per once again out up down over under between through via how "
    "where why"
).split()

FUNCTION_WORDS = frozenset(
    [*ARTICLES, *PREPOSITIONS, *CONJUNCTIONS, *PRONOUNS, *AUXILIARIES, *OTHERS]
)
"""Words that join others; a list of keywords has none."""

_PLAIN = ["of", "at", "for", "from", "with", "by"]
IMPOSSIBLE_AFTER: dict[str, frozenset[str]] = {
    **dict.fromkeys(
        ("the", "a", "an", "our", "your", "their", "my", "every"),
        frozenset(
            [
                *ARTICLES,
                *PREPOSITIONS,
                *(
                    "and or but if because is are was were be been has have had does did would "
                    "could we you they he she it i us them me him"
                ).split(),
            ]
        ),
    ),
    **dict.fromkeys(
        _PLAIN,
        frozenset(
            [
                *_PLAIN,
                *(
                    "to and or but is are was were be has have had does did would could must we "
                    "they he she i"
                ).split(),
            ]
        ),
    ),
    **dict.fromkeys(
        ("in", "on", "into"),
        frozenset(["of", "for", "is", "are", "was", "were", "be", "has", "have", "had", "does"]),
    ),
    "to": frozenset(["of", "for", "at", "with", "is", "are", "was", "were", "and", "or", "has"]),
    **dict.fromkeys(
        ("is", "are", "was", "were"),
        frozenset(["is", "are", "was", "were", "has", "have", "had", "does", "do", "did", "will"]),
    ),
    **dict.fromkeys(
        ("will", "must", "can", "would", "could", "should"),
        frozenset(["is", "are", "was", "were", "has", "had", "of", "for", "at", "the", "a", "and"]),
    ),
    "and": frozenset(["and", "or", "but", "of"]),
}
"""What can never follow a small word directly; found by hand, and few on purpose."""
NEVER_LAST = frozenset([*ARTICLES, "and", "or", "but", "of", "because", "if", "than"])
"""Words with which no sentence ends."""

_REGULAR = """
accept add adopt advise agree aim allow answer apologize apply appreciate arrange arrive ask
attend bake balance belong block book borrow call cancel care carry change charge check clean
clear click close collect come compare complain complete confirm connect consider contact contain
contribute cook cost count cover decide decline decorate delay deliver depend describe deserve
discover discuss donate drop earn email end enjoy enroll ensure enter exchange expect explain
explore extend face fail file fill finish fit fix follow gather glue grow guide handle happen hear
help host hope include increase inform inspect install interest introduce invite join jump keep
kick know last launch lead learn leave lend let lift like limit list listen live look love lower
manage mark measure meet mend mention miss move need note notice offer open order organize own
pack paint park pass pay perform phone place plan plant play point pour prefer prepare present
press print promise protect provide pull push raise reach read receive recommend refund regret
release remain remember remind remove rent repair replace reply report request require reserve
rest return review roll run save say schedule score see seem sell send serve set share ship show
sign sit slow sort speak spend stand start state stay step stop store study submit suggest supply
support take talk teach tell test thank tidy touch train travel trust try turn understand update
use value visit volunteer vote wait walk want warm wash watch water wear weigh welcome win wipe
wish wonder work write
""".split()
_IRREGULAR = """
ate became become becomes began begin beginning begins begun bought bring bringing brings brought
build builds built buy buying buys came choose chooses chose chosen cost costs did do does done
drew drive drives drove eat eats fell felt find finds found gave get gets give given gives giving
go goes going gone got grew had heard held hold holding holds hung kept knew known laid lay lead
leads led left lend lends lent let lets lose loses lost made make makes making met paid put puts
putting ran read rise risen rises rose run running runs said sat saw seen sent set sets shut sits
sleep slept sold spent spoke stood sweep swept taken takes taught think thinking thinks thought
threw told took understood went won wore worn writes written wrote
""".split()


def _forms(verb: str) -> list[str]:
    """The forms of a regular verb.

    >>> _forms("apply"), _forms("close")
    (['apply', 'applies', 'applied', 'applying'], ['close', 'closes', 'closed', 'closing'])
    """
    if verb.endswith("e"):
        return [verb, f"{verb}s", f"{verb}d", f"{verb[:-1]}ing"]
    if verb.endswith("y") and verb[-2] not in "aeiou":
        return [verb, f"{verb[:-1]}ies", f"{verb[:-1]}ied", f"{verb}ing"]
    s = "es" if verb.endswith(("s", "sh", "ch", "x", "o")) else "s"
    doubled = verb + verb[-1]
    return [verb, verb + s, f"{verb}ed", f"{verb}ing", f"{doubled}ed", f"{doubled}ing"]


VERBS = frozenset(
    [*AUXILIARIES, *_IRREGULAR, *(form for verb in _REGULAR for form in _forms(verb))]
)
"""Forms of common verbs: a sentence without any of them is taken for a fragment."""
