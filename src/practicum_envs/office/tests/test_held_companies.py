"""A company that is graded is held still: nobody but its owner is served."""

import http.client
import threading
from collections.abc import Iterator

import pytest

from practicum_envs.office.services.gitlab import PORT
from practicum_envs.office.tests.serving_companies import Served


def connected(served: Served) -> http.client.HTTPConnection:
    return http.client.HTTPConnection("127.0.0.1", served.ports[PORT], timeout=1)


def ask_again(line: http.client.HTTPConnection) -> None:
    line.request("GET", "/api/v4/projects")
    line.getresponse().read()


def test_whoever_was_connected_is_cut_off_and_the_owner_is_served(served: Served) -> None:
    line = connected(served)
    line.request("GET", "/api/v4/projects")
    assert line.getresponse().read()
    assert served.company.hold()
    with pytest.raises((OSError, http.client.HTTPException)):
        ask_again(line)
    line.close()
    assert served.company.office.rocketchat("GET", "channels.list")["channels"]
    assert served.company.hold(), "it can be held twice"


class Flood:
    """Clients that write into a channel without end."""

    def __init__(self, served: Served, clients: int) -> None:
        self._served = served
        self._is_over = threading.Event()
        self.answered = threading.Event()
        self._threads = [threading.Thread(target=self._write) for _ in range(clients)]
        for one in self._threads:
            one.start()

    def _write(self) -> None:
        body = b'{"title": "one more"}'
        typed = {"Content-Type": "application/json", "PRIVATE-TOKEN": "root-token"}
        while not self._is_over.is_set():
            line = connected(self._served)
            try:
                line.request("POST", "/api/v4/projects/root%2Fsecret/issues", body, typed)
                line.getresponse().read()
                self.answered.set()
            except (OSError, http.client.HTTPException):
                self._is_over.wait(0.01)
            finally:
                line.close()

    def end(self) -> None:
        self._is_over.set()
        for one in self._threads:
            one.join()


@pytest.fixture
def flood(served: Served) -> Iterator[Flood]:
    found = Flood(served, 30)
    yield found
    found.end()


def test_a_flood_of_requests_changes_nothing_once_it_is_held(served: Served, flood: Flood) -> None:
    def written() -> str:
        route = "/api/v4/projects/root%2Fsecret/issues?per_page=1"
        headers = {"X-Office-User": "root"}
        return served.company.office.request("gitlab", "GET", route, headers=headers)[2]["x-total"]

    assert flood.answered.wait(60)
    assert served.company.hold()
    before = written()
    assert [written() for _ in range(20)] == [before] * 20
