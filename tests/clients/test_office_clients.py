"""The client libraries of the office's services, unmodified, against a company."""

import asyncio
import importlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from practicum_envs.office.companies import Companies
from practicum_envs.office.tests.serving_companies import Served, serve

WAIT_S = 120.0


@pytest.fixture
def served() -> Iterator[Served]:
    companies = Companies()
    found = serve(companies)
    yield found
    assert not found.company.faults
    found.company.close()
    companies.close()


# The library leaves the file of an upload to the garbage collector.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_rocketchat_api(served: Served, tmp_path: Path) -> None:
    library = pytest.importorskip(
        "rocketchat_API.rocketchat", reason="needs rocketchat_API; pip install -e '.[clients]'"
    )
    errors = importlib.import_module("rocketchat_API.APIExceptions.RocketExceptions")
    name = "theagentcompany"
    chat = library.RocketChat(name, name, server_url=served.url(3000))
    assert chat.me().json()["username"] == name
    assert chat.channels_create("plans", members=["ann_lee"]).json()["success"]
    room = chat.channels_info(channel="plans").json()["channel"]["_id"]
    assert chat.chat_post_message("Hello", channel="plans").json()["success"]
    user = chat.users_info(username="ann_lee").json()["user"]["_id"]
    for act in (chat.channels_add_moderator, chat.channels_add_owner, chat.channels_add_leader):
        assert act(room, user).json()["success"]
    assert chat.channels_set_topic(room, "Plans").json()["topic"] == "Plans"
    said = chat.channels_history(room).json()["messages"]
    assert "Hello" in [message["msg"] for message in said]
    assert chat.chat_react(said[-1]["_id"], "tada").json()["success"]
    file = tmp_path / "note.txt"
    file.write_text("text")
    assert chat.rooms_upload(room, str(file), description="A note").json()["success"]
    assert chat.users_create("x@y.z", "New One", "pw", "new_one").json()["success"]
    assert library.RocketChat("new_one", "pw", server_url=served.url(3000)).me().json()["success"]
    held = chat.roles_get_users_in_role(role="moderator").json()["users"]
    assert [one["username"] for one in held] == ["ann_lee"]
    assert chat.groups_list().json()["success"]
    assert chat.users_delete(chat.users_info(username="new_one").json()["user"]["_id"]).json()[
        "success"
    ]
    with pytest.raises(errors.RocketAuthenticationException):
        library.RocketChat(name, "wrong", server_url=served.url(3000))


async def test_rocketchat_async(served: Served) -> None:
    why = "it wants an older websockets, so an environment of its own: pip install rocketchat-async"
    library = pytest.importorskip("rocketchat_async", reason=why)
    address = served.url(3000).replace("http:", "ws:") + "/websocket"
    chat, name = library.RocketChat(), "theagentcompany"
    with pytest.raises(RuntimeError, match="incorrect password"):
        await library.RocketChat().start(address, name, "wrong")
    await chat.start(address, name, name)
    rooms = dict(await chat.get_channels())
    told: asyncio.Queue[tuple[str, str]] = asyncio.Queue()

    def on_message(room: str, sender: str, number: str, thread: str, text: str, *_: object) -> None:
        told.put_nowait((number, text))

    [room] = [one["_id"] for one in await chat.get_channels_raw() if one.get("name") == "sales"]
    assert rooms[room] == "c"
    await chat.subscribe_to_channel_messages(room, on_message)
    changes: asyncio.Queue[tuple[str, str]] = asyncio.Queue()
    await chat.subscribe_to_channel_changes(lambda *change: changes.put_nowait(change))
    await chat.send_typing_event(room)
    await chat.send_message("Hello", room)
    number, text = await asyncio.wait_for(told.get(), WAIT_S)
    assert text == "Hello"
    assert await asyncio.wait_for(changes.get(), WAIT_S) == (room, "c")
    await chat.send_reaction(number, ":tada:")
    await asyncio.wait_for(told.get(), WAIT_S)
    await chat.send_message("A reply", room, thread_id=number)
    assert (await asyncio.wait_for(told.get(), WAIT_S))[1] == "A reply"
    said = served.company.office.messages("sales")
    assert said[1]["reactions"] == {":tada:": {"usernames": [name]}}
    assert said[2]["tmid"] == number
    chat._ws_connection_task.cancel()


def test_python_gitlab(served: Served) -> None:
    gitlab = pytest.importorskip("gitlab", reason="needs python-gitlab; pip install python-gitlab")
    client = gitlab.Gitlab(served.url(8929), private_token="root-token", keep_base_url=True)
    client.auth()
    assert client.user.username == "root"
    project = client.projects.get("root/shop")
    assert len(project.issues.list(get_all=True)) == 25
    issue = project.issues.create({"title": "New", "labels": ["a"]})
    issue.notes.create({"body": "note"})
    issue.state_event = "close"
    issue.save()
    assert project.issues.get(issue.iid).state == "closed"
    assert project.files.get("src/price.py", ref="raise").decode() == b"PRICE = 2\n"
    project.branches.create({"branch": "topic", "ref": "main"})
    project.files.create(
        {"file_path": "a.txt", "branch": "topic", "content": "x", "commit_message": "Add"}
    )
    made = {"source_branch": "topic", "target_branch": "main", "title": "Topic"}
    merge_request = project.mergerequests.create(made)
    merge_request.merge()
    assert project.files.raw("a.txt", ref="main") == b"x"
    other = client.projects.create({"name": "Other", "initialize_with_readme": True})
    other.milestones.create({"title": "v1"})
    other.labels.create({"name": "l", "color": "#fff"})
    other.releases.create({"name": "r", "tag_name": "v1", "ref": "main"})
    other.wikis.create({"title": "Page", "content": "text"})
    assert [one.name for one in other.protectedbranches.list()] == ["main"]
    with pytest.raises(gitlab.GitlabAuthenticationError):
        gitlab.Gitlab(served.url(8929), private_token="wrong").auth()


def test_python_gitlab_meets_the_protection_and_uses_the_rest(served: Served) -> None:
    gitlab = pytest.importorskip("gitlab", reason="needs python-gitlab; pip install python-gitlab")
    url = served.url(8929)
    client = gitlab.Gitlab(url, private_token="root-token", keep_base_url=True)
    project = client.projects.get("root/shop")
    person = client.users.list(username="ann_lee")[0]
    token = (
        client.users.get(person.id)
        .personal_access_tokens.create({"name": "t", "scopes": ["api"]})
        .token
    )
    ann = gitlab.Gitlab(url, private_token=token, keep_base_url=True)
    hers = ann.projects.get("root/shop")
    file = {"file_path": "a.txt", "branch": "main", "content": "x", "commit_message": "Add"}
    with pytest.raises(gitlab.GitlabCreateError, match="not allowed to push into this branch"):
        hers.files.create(file)
    with pytest.raises(gitlab.GitlabAuthenticationError):
        hers.mergerequests.get(1).merge()
    project.protectedbranches.delete("main")
    project.protectedbranches.create(
        {"name": "main", "push_access_level": 0, "merge_access_level": 30}
    )
    hers.mergerequests.get(1).merge()
    with pytest.raises(gitlab.GitlabCreateError):
        project.files.create(file)
    issue = project.issues.get(1)
    issue.assignee_ids = [person.id]
    issue.save()
    issue.awardemojis.create({"name": "thumbsup"})
    assert project.issues.get(1).upvotes == 1
    [todo] = ann.todos.list(get_all=True)
    todo.mark_as_done()
    label = project.labels.create({"name": "doing", "color": "#fff"})
    board = project.boards.create({"name": "Work"})
    board.lists.create({"label_id": label.id})
    assert [one.label["name"] for one in board.lists.list(get_all=True)] == ["doing"]
    assert client.search("issues", "Issue 1")
    assert [one["path"] for one in project.search("blobs", "PRICE")] == ["src/price.py"]
    with pytest.raises(gitlab.GitlabError, match="CI pipeline schedules are not part of this"):
        project.pipelineschedules.list(get_all=True)


def test_a_webdav_client(served: Served, tmp_path: Path) -> None:
    library = pytest.importorskip(
        "webdav3.client", reason="needs webdavclient3; pip install webdavclient3"
    )
    name = "theagentcompany"
    client = library.Client(
        {
            "webdav_hostname": f"{served.url(8092)}/remote.php/webdav",
            "webdav_login": name,
            "webdav_password": name,
        }
    )
    assert client.check("Documents")
    client.mkdir("new")
    file = tmp_path / "up.txt"
    file.write_text("up")
    client.upload_sync(remote_path="new/ü.txt", local_path=str(file))
    client.copy("new/ü.txt", "new/b.txt")
    client.move("new/b.txt", "Documents/c.txt")
    client.download_sync("Documents/c.txt", str(tmp_path / "down.txt"))
    assert (tmp_path / "down.txt").read_text() == "up"
    client.clean("new")
    assert "c.txt" in client.list("Documents")
    assert not client.check("new")
