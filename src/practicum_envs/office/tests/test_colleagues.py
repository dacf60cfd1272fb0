"""Colleagues: facts when asked, refusals, who knows more, and models that play them."""

import json
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from practicum.core.errors import UserError
from practicum_envs.office.checkout_company import (
    colleagues_from_scenarios,
    company_from_checkout,
)
from practicum_envs.office.colleagues import MOST_HEARD, model_messages
from practicum_envs.office.companies import Companies
from practicum_envs.office.company_seed import Colleague, CompanySeed
from practicum_envs.office.office_client import Office
from practicum_envs.office.tests.serving_companies import SEED, Served


def ask(office: Office, username: str, text: str) -> list[str]:
    """All that a colleague said after one more message."""
    office.rocketchat("POST", "chat.postMessage", {"channel": f"@{username}", "text": text})
    return [m["msg"] for m in office.talk(username) if m["u"]["username"] == username]


def test_a_fact_is_told_to_who_asks_for_it_and_not_otherwise(office: Office) -> None:
    assert ask(office, "cy_holm", "Hi!") == ["Hello, Cy here."]
    assert ask(office, "cy_holm", "What is the budget?")[-1] == "It is $500."
    assert ask(office, "cy_holm", "And the budget again?")[-1] == "As I said, $500."


def test_a_colleague_refuses_until_what_it_needs_was_said(office: Office) -> None:
    asked = "May I have the server password?"
    assert ask(office, "bo_cruz", asked)[-1] == "Ann must approve that first."
    ask(office, "bo_cruz", "Ann has approved it.")
    assert ask(office, "bo_cruz", asked)[-1] == "It is correct-horse."


@pytest.mark.parametrize(
    "asked", ["What may we spend?", "How much money is there?", "the budgets, please"]
)
def test_a_fact_is_told_in_whatever_words_it_is_asked_for(office: Office, asked: str) -> None:
    assert ask(office, "cy_holm", asked) == ["It is $500."]


def test_who_was_refused_is_answered_as_soon_as_what_was_needed_is_said(office: Office) -> None:
    ask(office, "bo_cruz", "May I have the passphrase of the server?")
    assert ask(office, "bo_cruz", "No, Ann has not approved it yet.")[-1] != "It is correct-horse."
    assert ask(office, "bo_cruz", "Ann has approved it now.")[-1] == "It is correct-horse."


def test_who_only_tells_something_or_thanks_is_told_nothing(office: Office) -> None:
    said = ask(office, "cy_holm", "I have sent the budget to Ann.")
    said = ask(office, "cy_holm", "Thank you for the budget!")
    assert not any("500" in one for one in said)


def test_a_colleague_sends_to_who_knows_more(office: Office) -> None:
    assert "@cy_holm (Cy Holm, Finance)" in ask(office, "bo_cruz", "What is the budget?")[-1]


def test_in_a_channel_only_who_is_named_answers(served: Served) -> None:
    office = served.company.office
    say = {"channel": "#sales", "text": "What is the budget?"}
    office.rocketchat("POST", "chat.postMessage", say)
    assert len(office.messages("sales")) == 2
    office.rocketchat("POST", "chat.postMessage", {**say, "text": "@cy_holm the budget?"})
    assert office.messages("sales")[-1]["msg"] == "It is $500."


def test_people_without_a_part_say_nothing(office: Office) -> None:
    assert ask(office, "ann_lee", "What is the budget?") == []


class _Model(BaseHTTPRequestHandler):
    """Answers with what it was told last; `/broken` fails."""

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        text = f"{asked['messages'][0]['content'][:9]} | {asked['messages'][-1]['content']}"
        body = json.dumps({"choices": [{"message": {"content": text}}]}).encode()
        self.send_response(500 if "broken" in self.path else 200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Quiet."""


@pytest.fixture
def model() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Model)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()


def wait_for(what: object) -> bool:
    until = time.monotonic() + 120
    while time.monotonic() < until:
        if what():  # type: ignore[operator]
            return True
        time.sleep(0.02)
    return False


PLAYED = replace(SEED, colleagues=(Colleague(username="ann_lee", goal="You like tea."),))


def test_a_model_plays_a_colleague(model: str) -> None:
    companies = Companies({"url": f"{model}/v1", "model": "m", "key": ""})
    company = companies.open_now(PLAYED)
    office = company.office
    ask(office, "ann_lee", "Tea?")
    assert wait_for(lambda: len(office.talk("ann_lee")) == 2)
    assert office.talk("ann_lee")[-1]["msg"] == "You play  | Tea?"
    company.close()
    companies.close()


def test_a_model_that_fails_is_noted(model: str) -> None:
    companies = Companies({"url": f"{model}/broken", "model": "m", "key": ""})
    company = companies.open_now(PLAYED)
    ask(company.office, "ann_lee", "Tea?")
    assert wait_for(lambda: "gave no answer: ann_lee" in company.colleague_faults)
    company.close()
    companies.close()


def test_a_model_is_shown_the_last_of_what_was_said_and_no_more_than_it_can_read() -> None:
    colleague = {"username": "ann_lee", "persona": "", "goal": ""}
    said = [{"u": {"username": "me"}, "msg": f"{n} " + "x" * 4000} for n in range(50)]
    shown = model_messages(colleague, [*said, {"u": {"username": "me"}, "msg": "Tea?"}])
    assert shown[-1]["content"] == "Tea?"
    assert sum(len(one["content"]) for one in shown[1:]) <= MOST_HEARD


def test_a_checkout_gives_people_channels_and_scenarios(tmp_path: Path) -> None:
    npc = tmp_path / "servers/rocketchat/npc"
    base = tmp_path / "workspaces/base_image/npc"
    npc.mkdir(parents=True)
    base.mkdir(parents=True)
    person = {"first_name": "Dee", "last_name": "Fox", "occupation": "CTO"}
    person["slack_channels"] = "All project channels, #tech-talk"
    other = {"first_name": "Eli", "last_name": "Ray", "slack_channels": "#project-x"}
    (npc / "npc_definition.json").write_text(
        json.dumps([{"first_name": "AI", "last_name": ""}, person, other])
    )
    logins = {
        n: {"username": u, "password": "p"} for n, u in (("Dee Fox", "dee_fox"), ("Eli Ray", "eli"))
    }
    (base / "npc_credential.json").write_text(json.dumps(logins))
    seed = company_from_checkout(tmp_path)
    inside = {channel.name: channel.members[:-1] for channel in seed.channels}
    assert inside == {
        "general": ("dee_fox", "eli"),
        "project-x": ("dee_fox", "eli"),
        "tech-talk": ("dee_fox",),
    }
    assert all(channel.owners == ("dee_fox",) for channel in seed.channels)
    info = "Someone will ask you for your phone number."
    hint = "Tell them your phone number is 555-1234."
    [dee] = colleagues_from_scenarios(
        {"Dee Fox": {"extra_info": info, "strategy_hint": hint}}, seed
    )
    companies = Companies()
    company = companies.open_now(seed + CompanySeed(colleagues=(dee,)))
    said = ask(company.office, "dee_fox", "Hello Dee, what is your phone number?")
    assert said == ["My phone number is 555-1234."]
    assert ask(company.office, "dee_fox", "On which mobile can I call you?")[1:] == said
    company.close()
    companies.close()
    with pytest.raises(UserError, match="Nobody"):
        colleagues_from_scenarios({"Nobody": {}}, seed)
    with pytest.raises(UserError, match="no checkout"):
        company_from_checkout(tmp_path / "elsewhere")
