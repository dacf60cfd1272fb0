"""Builds the snapshot of a company from its seed."""

import json
import tempfile
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import Any

from practicum_envs.office.chat_model import Chat
from practicum_envs.office.cloud_model import Cloud
from practicum_envs.office.company_seed import (
    AGENT,
    NOW,
    Channel,
    CompanySeed,
    Person,
)
from practicum_envs.office.company_state import STATE, Company, Document
from practicum_envs.office.folders import remove_folder
from practicum_envs.office.seed_gitlab import add_gitlab
from practicum_envs.office.seed_plane import add_plane

THE_AGENT = Person(username=AGENT, name="theagentcompany", role="AI assistant", is_admin=True)
EMPTY: dict[str, Any] = {
    "rocketchat": {"users": {}, "rooms": {}, "messages": {}, "tokens": {}, "files": {}},
    "gitlab": {"users": {}, "projects": {}, "tokens": {}, "groups": {}, "todos": []},
    "plane": {"users": {}, "projects": {}, "keys": {}, "sessions": {}},
    "owncloud": {"users": {}, "shares": {}, "sessions": {}},
}


def build_company(seed: CompanySeed, snapshot: Path) -> None:
    """Write a snapshot; nothing is there under its name before it is whole."""
    with tempfile.TemporaryDirectory(dir=snapshot.parent) as scratch:
        empty = Path(scratch) / "empty"
        empty.mkdir()
        (empty / STATE).write_text(json.dumps(_opening(seed)))
        company = Company(empty, Path(scratch) / "work")
        _add_chat(company, seed)
        add_gitlab(company, seed, everyone(seed))
        add_plane(company, seed, everyone(seed))
        _add_files(company, seed)
        made = Path(scratch) / "made"
        company.save(made)
        made.chmod(0o755)
        if snapshot.exists():
            remove_folder(snapshot)
        made.rename(snapshot)


def everyone(seed: CompanySeed) -> list[Person]:
    """The people of a company, the agent's account first."""
    found = {person.username: person for person in (THE_AGENT, *seed.people)}
    return list(found.values())


def _opening(seed: CompanySeed) -> dict[str, Any]:
    return {
        "name": seed.name,
        "now": NOW,
        "clock": seed.clock,
        "counters": {},
        "people": {person.username: asdict(person) for person in everyone(seed)},
        "colleagues": {one.username: asdict(one) for one in seed.colleagues},
        **json.loads(json.dumps(EMPTY)),
    }


def _add_chat(company: Company, seed: CompanySeed) -> None:
    chat = Chat(company)
    for person in everyone(seed):
        chat.add_user(
            person.username,
            person.name,
            email=person.email,
            password=person.password,
            bio=f"{person.role}. {person.about}".strip(". "),
            roles=["user", "admin"] if person.is_admin else ["user"],
        )
    names = [person.username for person in everyone(seed)]
    channels = seed.channels
    if not any(channel.name == "general" for channel in channels):
        channels = (Channel(name="general", members=tuple(names)), *channels)
    for channel in channels:
        _add_channel(chat, channel)
    for talk in seed.talks:
        room = chat.open_direct(talk.between)
        for post in talk.posts:
            chat.post(room, _account(chat, post.sender), post.text)


def _add_channel(chat: Chat, channel: Channel) -> None:
    maker = _account(chat, channel.owners[0])
    people = dict.fromkeys(
        (*channel.owners, *channel.moderators, *channel.leaders, *channel.members)
    )
    for name in people:
        _account(chat, name)
    room = chat.create_room(channel.name, maker, people, is_private=channel.is_private)
    room["owners"] = list(channel.owners)
    room["moderators"] = list(channel.moderators)
    room["leaders"] = list(channel.leaders)
    room["topic"], room["description"] = channel.topic, channel.description
    room["announcement"], room["ro"] = channel.announcement, channel.is_read_only
    chat.messages[room["_id"]].clear()  # who joined before the day began is no news
    for post in channel.posts:
        chat.post(room, _account(chat, post.sender), post.text)


def _add_files(company: Company, seed: CompanySeed) -> None:
    cloud = Cloud(company)
    for person in everyone(seed):
        cloud.add_user(person.username, person.name, person.password, person.email)
    for folder in ("Documents", *seed.folders, *(str(Path(path).parent) for path in seed.files)):
        place = cloud.place(AGENT, "" if folder == "." else folder)
        place.file.mkdir(parents=True, exist_ok=True)
        cloud.touch(place, datetime.fromisoformat(company.data["now"]).timestamp())
    for path, content in seed.files.items():
        cloud.write(
            cloud.place(AGENT, path), content if isinstance(content, bytes) else content.encode()
        )


def _account(chat: Chat, username: str) -> Document:
    """The account of a person whom the seed names."""
    found = chat.user(username)
    if found is None:
        raise ValueError(f"the seed names {username!r}, who is not among its people")
    return found
