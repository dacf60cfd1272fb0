"""Families of briefs to train on: texts for customers, colleagues and people who look for work."""

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

PRODUCT_NOTE = Family(
    name="product-note",
    split="train",
    text_kind="product note",
    audiences=("customers", "shoppers", "people who visit our shop"),
    topic_label="product",
    topics=topics(
        "the desk lamp | the travel mug | the garden chair | the rain jacket | the tea kettle",
        "the wall clock | the picnic blanket | the bike lock | the reading light",
    ),
    openings=("We would like to show you {topic}.", "Here is what you should know about {topic}."),
    slots=(
        money(
            "price", "price", 90, "It costs {v}.", "You can buy it for {v}.", cues="cost price buy"
        ),
        money(
            "shipping",
            "shipping",
            20,
            "We ship it to you for {v}.",
            "Shipping is {v}.",
            cues="ship deliver send sent",
        ),
        thing(
            "color",
            "colors",
            "green and white | red and gray | blue and yellow | black and silver",
            "It comes in {v}.",
            "You can choose between {v}.",
        ),
        thing(
            "material",
            "material",
            "recycled steel | solid oak | soft cotton | clear glass",
            "It is made of {v}.",
            "We make it from {v}.",
        ),
        number("warranty", "warranty", "months", 48, "The warranty lasts for {v}."),
        day("from", "in shops from", "You can have it from {v}.", "It is in our shops from {v}."),
        person("designer", "designer", "It was designed by {v}.", "The design is by {v}."),
    ),
    private=(
        percent("margin", "our margin", "Our margin is {v}."),
        number("returned", "sent back", "pieces", 90, "Customers sent back {v}."),
    ),
    tones=("upbeat", "plain"),
    avoid=("best", "unbeatable", "cheap", "revolutionary"),
    joined={("price", "shipping"): "It costs {a}, and shipping is {b}."},
)

MEETING = Family(
    name="meeting-notes",
    split="train",
    text_kind="meeting notes",
    audiences=("the team", "colleagues who were away", "the board"),
    topic_label="about",
    topics=topics(
        "the website | the office move | the annual report | the training plan | the new schedule",
        "the phone system | the parking rules | the customer survey | the safety plan",
    ),
    openings=("The team has met about {topic}.", "These notes are about {topic}."),
    slots=(
        person(
            "owner",
            "in charge",
            "The work is led by {v}.",
            "{v} is in charge.",
            cues="led lead charge respons",
        ),
        person(
            "notes",
            "minutes by",
            "The minutes were written by {v}.",
            "{v} wrote the minutes.",
            cues="minutes wrote written notes",
        ),
        day(
            "due",
            "due",
            "It has to be done by {v}.",
            "The work is due on {v}.",
            cues="due done by",
            half=1,
        ),
        day(
            "next",
            "next meeting",
            "We meet again on {v}.",
            "The next meeting is on {v}.",
            cues="meet next again",
            half=2,
        ),
        money("budget", "budget", 950, "The budget is {v}.", "We may spend {v}."),
        thing(
            "decision",
            "decision",
            "start in small steps | ask the users first | hire some help | keep the old design",
            "We decided to {v}.",
            "The plan is to {v}.",
        ),
        number(
            "present", "present", "people", 20, "The meeting had {v}.", "There were {v} with us."
        ),
    ),
    private=(
        person("critic", "who was against it", "The plan was disliked by {v}."),
        percent("cut", "planned cut", "The staff may shrink by {v}."),
    ),
    tones=("plain", "polite"),
    avoid=("hopefully", "basically", "stuff", "blame"),
    joined={("owner", "due"): "The work is led by {a} and due on {b}."},
)

JOB = Family(
    name="job-advert",
    split="train",
    text_kind="job advert",
    audiences=("people who look for work", "students", "anyone in town"),
    topic_label="job",
    topics=topics(
        "the kitchen porter | the bus driver | the shop assistant | the night guard | the gardener",
        "the receptionist | the baker | the delivery rider | the painter",
    ),
    openings=("We are looking for {topic}.", "We want to fill the place of {topic}."),
    slots=(
        money("pay", "pay per hour", 45, "We pay {v} an hour.", "The pay is {v} an hour."),
        number("hours", "a week", "hours", 40, "You work {v} a week.", "The job takes {v} a week."),
        day(
            "start",
            "starts",
            "The work starts on {v}.",
            "You begin on {v}.",
            cues="start begin",
            half=2,
        ),
        day(
            "apply",
            "apply by",
            "Please apply by {v}.",
            "Send your letter by {v}.",
            cues="apply send by",
            half=1,
        ),
        email("write", "apply to", "Write to {v}.", "Please send a note to {v}."),
        thing(
            "skill",
            "needed",
            "a clean license | good English | some patience | a steady hand",
            "You need {v}.",
            "We ask for {v}.",
        ),
        place("place", "place", "You will work at {v}.", "The work is in {v}."),
    ),
    private=(
        person("left", "who left the job", "The place is free since {v} left."),
        money("most", "most we would pay", 95, "We could go up to {v}."),
    ),
    tones=("plain", "upbeat"),
    avoid=("young", "rockstar", "family", "ninja"),
    joined={("pay", "hours"): "You work {b} a week, and we pay {a} an hour."},
)

APOLOGY = Family(
    name="apology",
    split="train",
    text_kind="letter of apology",
    audiences=("a customer", "our customers", "people who ordered"),
    topic_label="order",
    topics=topics(
        "the kitchen table | the winter coat | the school books | the coffee machine | the printer",
        "the bed frame | the camera | the running shoes | the oven",
    ),
    openings=("We are sorry about {topic}.", "We write to you because of {topic}."),
    slots=(
        number("late", "late by", "days", 30, "It is late by {v}.", "Your order is {v} late."),
        thing(
            "cause",
            "cause",
            "a broken truck | a wrong label | a lost parcel | a flooded store",
            "The cause was {v}.",
            "This happened because of {v}.",
        ),
        money(
            "refund",
            "refund",
            90,
            "We will pay back {v}.",
            "You get a refund of {v}.",
            cues="back refund return",
        ),
        money(
            "voucher",
            "voucher",
            40,
            "We add a voucher for {v}.",
            "You also get a voucher for {v}.",
            cues="voucher coupon",
        ),
        day("arrives", "arrives", "It will arrive on {v}.", "You will have it on {v}."),
        person("contact", "contact", "Please call {v} with any questions.", "{v} can help you."),
        email("write", "write to", "You can write to {v}.", "Please send a note to {v}."),
    ),
    private=(
        person("fault", "whose fault it was", "It was the fault of {v}."),
        number("others", "others waiting", "customers", 90, "We have kept {v} waiting."),
    ),
    tones=("sorry", "polite"),
    avoid=("but", "inconvenience", "mistaken", "lawyer"),
    joined={("refund", "voucher"): "We will pay back {a} and add a voucher for {b}."},
)

REMINDER = Family(
    name="reminder",
    split="train",
    text_kind="reminder",
    audiences=("the tenants", "all members", "parents"),
    topic_label="about",
    topics=topics(
        "the yearly fee | the health check | the library books | the school trip | the key return",
        "the parking card | the dental check | the club fee | the locker key",
    ),
    openings=("This is a reminder about {topic}.", "Please do not forget {topic}."),
    slots=(
        day("due", "due", "It is due on {v}.", "The last day is {v}."),
        money("amount", "amount", 90, "The amount is {v}.", "Please pay {v}.", cues="amount pay"),
        money("late", "late fee", 20, "A late fee is {v}.", "Being late costs {v}.", cues="late"),
        place("place", "where", "Please come to {v}.", "You can do this at {v}."),
        time("until", "open until", "The desk is open until {v}.", "Come before {v}."),
        person("contact", "contact", "You can ask {v}.", "Please talk to {v} if you need help."),
        thing(
            "bring",
            "to bring",
            "your card | the signed form | last year's letter | a photo",
            "Please bring {v}.",
            "You need {v}.",
        ),
    ),
    private=(
        number("unpaid", "have not paid", "people", 60, "The fee was not paid by {v}."),
        person("worst", "who owes most", "Most is owed by {v}."),
    ),
    tones=("polite", "plain"),
    avoid=("immediately", "punish", "lazy", "demand"),
    joined={("due", "amount"): "It is due on {a}, and the amount is {b}."},
)

RECOMMENDATION = Family(
    name="recommendation",
    split="train",
    text_kind="letter of recommendation",
    audiences=("the school board", "a new employer", "the committee"),
    topic_label="for the job of",
    topics=topics(
        "the team leader | the school nurse | the music teacher | the head cook | the librarian",
        "the sports coach | the lab assistant | the office manager | the tour guide",
    ),
    openings=("This letter is about {topic}.", "You are looking for {topic}."),
    slots=(
        person(
            "who",
            "person",
            "We recommend {v}.",
            "Our choice for you is {v}.",
            cues="recommend choice hire suit",
        ),
        person(
            "boss",
            "reported to",
            "The work was reported to {v}.",
            "The manager was {v}.",
            cues="report manager boss",
        ),
        number(
            "years",
            "with us",
            "years",
            25,
            "We have worked together for {v}.",
            "That is after {v}.",
        ),
        thing(
            "strength",
            "strength",
            "clear planning | calm advice | honest work | great patience",
            "We value {v}.",
            "What stands out is {v}.",
        ),
        percent(
            "gain", "visitors up by", "The number of visits grew by {v}.", "Visits rose by {v}."
        ),
        day("free", "free from", "The new work can start on {v}.", "A start is possible on {v}."),
        email("write", "write to", "For more, write to {v}.", "You can reach us at {v}."),
    ),
    private=(
        number("sick", "sick leave", "days", 60, "Last year there were {v} of sick leave."),
        money("salary", "last salary", 950, "The last pay was {v} a week."),
    ),
    tones=("formal", "warm"),
    avoid=("nice", "perfect", "genius", "flawless"),
    joined={("who", "years"): "We recommend {a}, after {b} of good work."},
)

TRADE_FAMILIES = (
    PRODUCT_NOTE,
    MEETING,
    JOB,
    APOLOGY,
    REMINDER,
    RECOMMENDATION,
)
