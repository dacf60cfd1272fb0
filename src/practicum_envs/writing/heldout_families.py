"""Families of briefs that are never trained on, with other kinds of texts and other facts."""

from practicum_envs.writing.brief_family import (
    Family,
    day,
    email,
    money,
    number,
    percent,
    person,
    place,
    thing,
    time,
    topics,
)

COMPARISON = Family(
    name="comparison",
    split="heldout",
    text_kind="comparison",
    audiences=("the buyers", "the purchasing team", "readers of our magazine"),
    topic_label="compared",
    topics=topics(
        "the two vacuum cleaners | the two printers | the two phones | the two heaters",
        "the two bikes | the two mixers | the two tents | the two drills",
    ),
    openings=("We have looked at {topic}.", "Here is how we see {topic}."),
    slots=(
        money(
            "old",
            "price of the first",
            90,
            "The first costs {v}.",
            "You pay {v} for the first.",
            cues="first",
        ),
        money(
            "new",
            "price of the second",
            90,
            "The second costs {v}.",
            "You pay {v} for the second.",
            cues="second other",
        ),
        number("weeks", "test", "weeks", 20, "We tested both for {v}.", "Our test took {v}."),
        percent(
            "saving", "less power", "The second needs {v} less power.", "It saves {v} of the power."
        ),
        person("tester", "tester", "The test was done by {v}.", "{v} has done the test."),
        thing(
            "weak",
            "weak point",
            "a short cable | a loud fan | a thin handle | a slow start",
            "The weak point of the first is {v}.",
            "The first has {v}.",
        ),
        thing(
            "winner",
            "our choice",
            "the second one | the first one",
            "We would buy {v}.",
            "Our choice is {v}.",
        ),
    ),
    private=(
        money("gift", "paid by the maker", 900, "The maker paid us {v}."),
        person("friend", "friend at the maker", "We know {v} at the maker."),
    ),
    tones=("plain", "formal"),
    avoid=("garbage", "best", "amazing", "cheap"),
    joined={("old", "new"): "The first costs {a}, and the second costs {b}."},
)

SUMMARY = Family(
    name="summary",
    split="heldout",
    text_kind="summary",
    audiences=("the mayor", "busy readers", "the council"),
    topic_label="report on",
    topics=topics(
        "the bike lanes | the school meals | the night buses | the city parks",
        "the tap water | the street lights | the public toilets | the cable car",
    ),
    openings=("This is a summary of the report on {topic}.", "The report looks at {topic}."),
    slots=(
        number(
            "asked",
            "people asked",
            "people",
            90,
            "It is based on answers from {v}.",
            "We asked {v}.",
        ),
        percent(
            "happy",
            "content",
            "In the end {v} are content.",
            "It finds {v} content.",
            cues="content happy satisf",
        ),
        percent(
            "rise",
            "rise since last year",
            "Use rose by {v} since the last report.",
            "Use went up by {v}.",
            cues="rise rose up grew grow increas",
        ),
        person("author", "author", "It was written by {v}.", "The author is {v}."),
        day("out", "published", "It was published on {v}.", "It came out on {v}."),
        thing(
            "problem",
            "main problem",
            "broken signs | long waits | poor light | high prices",
            "The main problem is {v}.",
            "Most of them complain about {v}.",
        ),
        money(
            "cost", "advised budget", 950, "It advises to spend {v}.", "The advised budget is {v}."
        ),
    ),
    private=(
        person("source", "who told us first", "We heard of it from {v}."),
        number("errors", "errors in the report", "errors", 40, "There are {v} in it."),
    ),
    tones=("formal", "plain"),
    avoid=("shocking", "scandal", "obviously", "clearly"),
    joined={("author", "out"): "It was written by {a} and published on {b}."},
)

LOST = Family(
    name="lost-and-found",
    split="heldout",
    text_kind="poster",
    audiences=("people who walk by", "the neighborhood", "guests of the hotel"),
    topic_label="lost",
    topics=topics(
        "the brown dog | the silver ring | the red backpack | the green parrot",
        "the gray cat | the leather wallet | the blue scooter | the violin case",
    ),
    openings=("We are looking for {topic}.", "Please help us to find {topic}."),
    slots=(
        day("lost", "lost on", "It was lost on {v}.", "We lost it on {v}."),
        time("time", "about", "We last saw it at {v}.", "That was at {v}."),
        place("place", "near", "It was last seen near {v}.", "We were close to {v}."),
        money(
            "reward", "reward", 95, "The reward is {v}.", "We give {v} to the person who finds it."
        ),
        thing(
            "mark",
            "mark",
            "a white spot | a small dent | a yellow ribbon | a torn corner",
            "You can tell it by {v}.",
            "It has {v}.",
        ),
        person("owner", "owner", "It belongs to {v}.", "The owner is {v}."),
        email("write", "write to", "Please write to {v}.", "You can reach us at {v}."),
    ),
    private=(
        money("worth", "what it is worth", 950, "It is worth {v}."),
        person("suspect", "who may have it", "We think that {v} has it."),
    ),
    tones=("polite", "thankful"),
    avoid=("thief", "stolen", "police", "desperate"),
    joined={("lost", "place"): "It was lost on {a} near {b}."},
)

RENTAL = Family(
    name="rental",
    split="heldout",
    text_kind="advert for a room",
    audiences=("students", "people who move to town", "nurses"),
    topic_label="room",
    topics=topics(
        "the sunny attic room | the quiet back room | the small studio",
        "the corner room | the garden flat | the top floor room",
    ),
    openings=("We are letting {topic}.", "You can now rent {topic}."),
    slots=(
        money(
            "rent",
            "rent a month",
            950,
            "The rent is {v} a month.",
            "You pay {v} a month.",
            cues="rent month",
        ),
        money(
            "deposit",
            "deposit",
            900,
            "The deposit is {v}.",
            "We ask for a deposit of {v}.",
            cues="deposit",
        ),
        number("size", "size", "square meters", 40, "It has {v}.", "The size is {v}."),
        day("from", "free from", "You can move in on {v}.", "It is free from {v}."),
        place("near", "close to", "It is close to {v}.", "You can walk to {v}."),
        person("show", "shown by", "It is shown by {v}.", "{v} will show it to you."),
        time("view", "viewing at", "You can see it at {v}.", "We show it at {v}."),
    ),
    private=(
        thing("fault", "known fault", "noisy pipes | mice in the cellar", "There are {v}."),
        number("asked", "have asked", "people", 40, "So far {v} have asked."),
    ),
    tones=("plain", "warm"),
    avoid=("luxury", "unique", "cozy", "exclusive"),
    joined={("rent", "deposit"): "The rent is {a} a month, and the deposit is {b}."},
)

PRESS = Family(
    name="press-release",
    split="heldout",
    text_kind="press release",
    audiences=("the local paper", "the radio", "reporters"),
    topic_label="news",
    topics=topics(
        "the new bakery | the electric ferry | the rooftop farm | the bike factory",
        "the solar plant | the glass studio | the honey shop | the toy museum",
    ),
    openings=("This is the latest news about {topic}.", "We would like you to report on {topic}."),
    slots=(
        day("opens", "opens", "It opens on {v}.", "The opening is on {v}."),
        time("hour", "opening hour", "The doors open at {v}.", "We begin at {v}."),
        place("place", "place", "You find it next to {v}.", "It stands beside {v}."),
        person("founder", "founder", "It was founded by {v}.", "The founder is {v}.", cues="found"),
        person(
            "speaker",
            "speaker",
            "A speech is given by {v}.",
            "The speaker is {v}.",
            cues="speech speak talk",
        ),
        number("jobs", "new jobs", "jobs", 90, "It brings {v} to the town.", "There will be {v}."),
        money("cost", "invested", 950, "The owners have spent {v}.", "It has cost {v}."),
    ),
    private=(
        money("loan", "bank loan", 900, "The bank lent {v}."),
        percent("share", "share sold", "The owners have sold {v} of it."),
    ),
    tones=("formal", "upbeat"),
    avoid=("revolutionary", "historic", "unique", "exciting"),
    joined={("founder", "speaker"): "It was founded by {a}, and the speaker is {b}."},
)

HELDOUT_FAMILIES = (COMPARISON, SUMMARY, LOST, RENTAL, PRESS)
"""Five."""
