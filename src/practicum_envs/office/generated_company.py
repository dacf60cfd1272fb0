"""A company made up from chance: people with jobs, and the channels they talk in."""

import random

from practicum.core.task import Split
from practicum_envs.office.company_seed import Channel, CompanySeed, Person

FIRST: dict[Split, tuple[str, ...]] = {
    "train": (
        *("Ada", "Bruno", "Chen", "Dana", "Elif", "Femi", "Greta", "Hugo", "Ines", "Jonas"),
        *("Kofi", "Lena", "Marta", "Nils", "Olga", "Pavel", "Quinn", "Rosa", "Samir", "Tala"),
    ),
    "heldout": (
        *("Alma", "Boris", "Clara", "Dev", "Esra", "Finn", "Gita", "Hana", "Igor", "Jade"),
        *("Karim", "Luis", "Mina", "Noor", "Oskar", "Petra", "Rhea", "Sven", "Tomas", "Uma"),
    ),
}
LAST: dict[Split, tuple[str, ...]] = {
    "train": (
        *("Adler", "Bauer", "Costa", "Dietz", "Evans", "Farah", "Gomez", "Haas", "Ivanov"),
        *("Jansen", "Kaya", "Lopez", "Meyer", "Nowak", "Okafor", "Perez", "Reyes", "Sato"),
    ),
    "heldout": (
        *("Abbas", "Brandt", "Cruz", "Duarte", "Ekman", "Fuchs", "Garcia", "Holm", "Iyer"),
        *("Jensen", "Khan", "Lund", "Moreno", "Nakata", "Ortiz", "Popov", "Rossi", "Silva"),
    ),
}
"""No name is in both splits."""
JOBS = (
    ("Chief Technology Officer", "leads the technical teams"),
    ("HR Manager", "looks after hiring, leave and onboarding"),
    ("Finance Director", "approves budgets and expenses"),
    ("Product Manager", "plans releases and priorities"),
    ("Software Engineer", "builds the web shop"),
    ("Software Engineer", "builds the data pipeline"),
    ("Data Analyst", "prepares reports"),
    ("QA Engineer", "tests releases"),
    ("Sales Director", "talks with customers"),
    ("Office Administrator", "books rooms and orders equipment"),
)
CHANNELS = ("engineering", "product", "sales-marketing", "hr-announcements", "random", "tech-talk")
PRODUCTS = (
    *("desk lamp", "office chair", "monitor stand", "keyboard", "headset", "webcam", "notebook"),
    *("whiteboard", "coffee maker", "label printer", "projector", "docking station", "stapler"),
)
CUSTOMERS = (
    *("Acorn Foods", "Birch Travel", "Cobalt Labs", "Delta Freight", "Ember Studio", "Fjord Bank"),
    *("Granite Works", "Harbor Clinic", "Indigo Press", "Juniper Farms", "Kite Telecom", "Lumen"),
)
CITIES = ("Oslo", "Lisbon", "Zagreb", "Nairobi", "Quito", "Hanoi", "Tampere", "Izmir", "Porto")
AREAS = ("billing", "search", "login", "export", "reports", "checkout", "profile", "upload")
DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday")


def generate_company(rng: random.Random, split: Split) -> CompanySeed:
    """People with jobs and the channels they are in; the names belong to the split."""
    firsts = rng.sample(FIRST[split], len(JOBS))
    lasts = rng.sample(LAST[split], len(JOBS))
    people = tuple(
        Person(
            username=f"{first}_{last}".lower(),
            name=f"{first} {last}",
            role=role,
            about=f"{first} {about}.",
        )
        for first, last, (role, about) in zip(firsts, lasts, JOBS, strict=True)
    )
    names = [person.username for person in people]
    everyone = Channel(name="general", members=tuple(names))
    others = tuple(
        Channel(name=name, members=tuple(sorted(rng.sample(names, 5)))) for name in CHANNELS
    )
    return CompanySeed(
        name=f"{split}-{rng.randrange(1 << 32):08x}", people=people, channels=(everyone, *others)
    )
