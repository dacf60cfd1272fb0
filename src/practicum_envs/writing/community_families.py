"""Families of briefs to train on: texts for neighbors, members, guests and visitors."""

from practicum_envs.writing.brief_family import (
    Family,
    day,
    money,
    number,
    percent,
    person,
    place,
    thing,
    time,
    topics,
)

NOTICE = Family(
    name="notice",
    split="train",
    text_kind="notice",
    audiences=("all neighbors", "people in the street", "everyone in the building"),
    topic_label="about",
    topics=topics(
        "the book sale | the street cleaning | the water repair | the bike check | the plant swap",
        "the roof repair | the toy exchange | the fire drill | the garden day",
    ),
    openings=("Please note {topic}.", "This is a notice about {topic}."),
    slots=(
        day("day", "day", "It takes place on {v}.", "The date is {v}."),
        time(
            "start",
            "start",
            "It starts at {v}.",
            "We begin at {v}.",
            cues="start begin open",
            half=1,
        ),
        time(
            "end",
            "end",
            "It ends at {v}.",
            "We finish by {v}.",
            cues="end finish until clos",
            half=2,
        ),
        place("place", "place", "You find us in {v}.", "Please come to {v}."),
        person("contact", "questions to", "Please ask {v} if you have questions."),
        number(
            "volunteers",
            "volunteers needed",
            "volunteers",
            30,
            "We still need {v}.",
            "We look for {v}.",
        ),
        thing(
            "bring",
            "to bring",
            "a bag | warm clothes | work gloves | a folding chair | a flashlight",
            "Please bring {v} with you.",
            "You will need {v}.",
        ),
    ),
    private=(
        money("budget", "what it costs us", 900, "It costs us {v}."),
        person("late", "who was late with it", "It comes late because of {v}."),
    ),
    tones=("warm", "polite"),
    avoid=("guys", "awesome", "stuff", "crazy"),
    joined={("start", "end"): "It starts at {a} and ends at {b}."},
)

INVITATION = Family(
    name="invitation",
    split="train",
    text_kind="invitation",
    audiences=("the members", "our guests", "friends of the club"),
    topic_label="event",
    topics=topics(
        "the summer party | the quiz night | the spring concert | the film evening | the art show",
        "the chess evening | the harvest dinner | the poetry reading | the dance night",
    ),
    openings=("We invite you to {topic}.", "Please join us for {topic}."),
    slots=(
        day(
            "day",
            "day",
            "It is held on {v}.",
            "We meet on {v}.",
            cues="held meet day place come",
            half=2,
        ),
        day(
            "reply",
            "reply by",
            "Please reply by {v}.",
            "Let us know by {v} if you will come.",
            cues="reply answer know by",
            half=1,
        ),
        time("start", "start", "The doors open at {v}.", "It begins at {v}."),
        place("place", "place", "The place is {v}.", "You will find us at {v}."),
        person("host", "host", "Your host is {v}.", "The evening is hosted by {v}."),
        money("ticket", "ticket", 60, "A ticket costs {v}.", "Tickets cost {v} each."),
        thing(
            "food",
            "food",
            "soup and bread | salad and cheese | rice and beans | pancakes | grilled vegetables",
            "We will serve {v}.",
            "There will be {v} to eat.",
        ),
    ),
    private=(
        money("deposit", "rent we pay", 950, "We pay {v} for the rent."),
        person("unpaid", "who has not paid", "The fee of {v} is still open."),
    ),
    tones=("warm", "upbeat"),
    avoid=("cheap", "boring", "mandatory", "stuff"),
    joined={("day", "start"): "It is held on {a} and the doors open at {b}."},
)

INSTRUCTIONS = Family(
    name="instructions",
    split="train",
    text_kind="instructions",
    audiences=("new volunteers", "the team", "visitors of the workshop"),
    topic_label="for",
    topics=topics(
        "the pottery class | the tool library | the bread course | the seed table | the print room",
        "the sewing corner | the repair table | the music room | the wood shop",
    ),
    openings=("This is how {topic} works.", "Please read this before you use {topic}."),
    slots=(
        time(
            "open",
            "opens at",
            "You can come in from {v}.",
            "We open at {v}.",
            cues="open from come",
            half=1,
        ),
        time(
            "close",
            "closes at",
            "We close at {v}.",
            "Please leave by {v}.",
            cues="clos leave end",
            half=2,
        ),
        thing(
            "first",
            "first step",
            "wash your hands | sign the list | put on an apron | check the lights",
            "First, {v}.",
            "Before you begin, {v}.",
        ),
        thing(
            "last",
            "last step",
            "wipe the table | return the tools | switch off the machine | sweep the floor",
            "At the end, {v}.",
            "Before you go, {v}.",
        ),
        number("people", "at most", "people", 25, "There is room for {v}.", "We can take {v}."),
        money("fee", "fee", 40, "The fee is {v}.", "You pay {v} at the desk."),
        person("help", "who helps", "If you need help, ask {v}.", "You can always ask {v}."),
    ),
    private=(
        thing("key", "where the key is", "under the blue pot | behind the sign", "The key is {v}."),
        money("box", "in the cash box", 300, "There is {v} in the box."),
    ),
    tones=("plain", "polite"),
    avoid=("obviously", "simply", "stuff", "stupid"),
    joined={("open", "close"): "We open at {a} and close at {b}."},
)

THANKS = Family(
    name="thanks",
    split="train",
    text_kind="letter of thanks",
    audiences=("our donors", "the sponsors", "people who gave to the project"),
    topic_label="project",
    topics=topics(
        "the school garden | the youth choir | "
        "the food bank | the animal shelter | the reading club",
        "the night shelter | the swim team | the village museum | the rescue boat",
    ),
    openings=("Your gift has helped {topic}.", "This letter is about {topic}."),
    slots=(
        money("raised", "raised", 900, "You gave {v} in all.", "Together you raised {v}."),
        number("donors", "donors", "donors", 90, "The money came from {v}.", "We heard from {v}."),
        thing(
            "bought",
            "bought",
            "new tables | a water pump | warm blankets | a small oven",
            "We could buy {v}.",
            "With it we bought {v}.",
        ),
        person("leader", "leader", "The work is led by {v}.", "{v} leads the project."),
        day("party", "open day", "Our open day is on {v}.", "You can visit us on {v}."),
        place("place", "place", "You find us in {v}.", "Our new home is {v}."),
        percent(
            "done", "done so far", "So far we have done {v} of the work.", "The work is {v} done."
        ),
    ),
    private=(
        money("debt", "debt", 950, "We still owe {v}."),
        person("quit", "who left", "We lost {v} this year."),
    ),
    tones=("thankful", "warm"),
    avoid=("unfortunately", "cheap", "finally", "must"),
    joined={("raised", "donors"): "In all, {b} gave {a}."},
)

CLOSURE = Family(
    name="closure",
    split="train",
    text_kind="announcement",
    audiences=("passengers", "visitors", "everyone who comes by"),
    topic_label="closed",
    topics=topics(
        "the swimming pool | the town library | "
        "the north bridge | the post office | the skate park",
        "the ice rink | the city museum | the bus station | the market hall",
    ),
    openings=("We have to close {topic}.", "This is about {topic}."),
    slots=(
        day(
            "from",
            "closed from",
            "It closes on {v}.",
            "It is shut from {v}.",
            cues="clos shut from",
            half=1,
        ),
        day(
            "until",
            "open again",
            "It opens again on {v}.",
            "You can come back on {v}.",
            cues="open again back until",
            half=2,
        ),
        thing(
            "why",
            "reason",
            "a leaking roof | new pipes | loose tiles | a safety check",
            "The reason is {v}.",
            "We close because of {v}.",
        ),
        place("instead", "instead", "Until then, please use {v}.", "You can go to {v}."),
        money("cost", "cost", 950, "The work costs {v}.", "We spend {v} on the work."),
        person("head", "in charge", "The work is led by {v}.", "{v} is in charge."),
        number(
            "workers", "workers", "workers", 40, "There will be {v} on the site.", "We have {v}."
        ),
    ),
    private=(
        percent("chance", "chance of delay", "There is a {v} chance of a delay."),
        person("guilty", "who found it too late", "It was seen too late by {v}."),
    ),
    tones=("polite", "sorry"),
    avoid=("disaster", "unfortunately", "chaos", "forever"),
    joined={("from", "until"): "It closes on {a} and opens again on {b}."},
)

COURSE = Family(
    name="course",
    split="train",
    text_kind="course description",
    audiences=("beginners", "adults who want to learn", "people over sixty"),
    topic_label="course",
    topics=topics(
        "the cooking course | the first aid course | the Spanish course | the yoga class",
        "the drawing class | the sailing course | the typing course | the bread class",
    ),
    openings=("You can now sign up for {topic}.", "Here is what to know about {topic}."),
    slots=(
        number(
            "lessons",
            "lessons",
            "lessons",
            20,
            "There are {v} in all.",
            "It has {v}.",
            cues="lesson",
        ),
        number(
            "seats", "seats", "seats", 30, "We have {v}.", "There are {v} in the room.", cues="seat"
        ),
        money("fee", "fee", 300, "The fee is {v}.", "You pay {v} for all of it."),
        person("teacher", "teacher", "Your teacher is {v}.", "It is taught by {v}."),
        day("first", "first day", "The first day is {v}.", "We start on {v}."),
        time("time", "time", "Each lesson begins at {v}.", "We meet at {v}."),
        place("place", "place", "It takes place in {v}.", "The class meets in {v}."),
    ),
    private=(
        number("signed", "signed up so far", "people", 60, "So far {v} have signed up."),
        money("wage", "teacher's pay", 900, "The teacher gets {v}."),
    ),
    tones=("upbeat", "warm"),
    avoid=("easy", "expert", "guaranteed", "elderly"),
    joined={("first", "time"): "We start on {a} at {b}."},
)

TRIP = Family(
    name="trip-plan",
    split="train",
    text_kind="plan for a trip",
    audiences=("the class", "the hiking group", "the guests"),
    topic_label="trip",
    topics=topics(
        "the lake trip | the castle visit | the forest walk | the zoo visit | the farm trip",
        "the island trip | the cave tour | the beach walk | the mill visit",
    ),
    openings=("This is the plan for {topic}.", "We look forward to {topic}."),
    slots=(
        day("day", "day", "We go on {v}.", "The trip is on {v}."),
        time(
            "leave",
            "bus leaves",
            "The bus leaves at {v}.",
            "We leave at {v}.",
            cues="leav depart start",
            half=1,
        ),
        time(
            "back",
            "back at",
            "We are back at {v}.",
            "We return at {v}.",
            cues="back return home",
            half=2,
        ),
        place("meet", "meeting point", "We meet in front of {v}.", "Please come to {v}."),
        person("guide", "guide", "Our guide is {v}.", "We walk with {v}."),
        money("price", "price", 60, "The price is {v}.", "It costs {v} for each of you."),
        thing(
            "pack",
            "to pack",
            "a rain coat | sun cream | a water bottle | good boots",
            "Please pack {v}.",
            "You will need {v}.",
        ),
    ),
    private=(
        person("sick", "who gets sick on buses", "The bus is hard for {v}."),
        money("fund", "left in the fund", 300, "We have {v} left in the fund."),
    ),
    tones=("upbeat", "plain"),
    avoid=("boring", "dangerous", "mandatory", "kids"),
    joined={("leave", "back"): "The bus leaves at {a}, and we are back at {b}."},
)

COMMUNITY_FAMILIES = (
    NOTICE,
    INVITATION,
    INSTRUCTIONS,
    THANKS,
    CLOSURE,
    COURSE,
    TRIP,
)
