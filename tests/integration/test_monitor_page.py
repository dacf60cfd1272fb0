"""`practicum monitor` in a real browser: real runs, a study, a run in training, and no runs."""

import json
import re
import shutil
import signal
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.integration.monitor_site import (
    NEEDS_BROWSER,
    MonitorPage,
    MonitorProcess,
    browsing_monitor,
    monitor_process,
)

from practicum.store.run_dir import RunDir
from practicum.store.trace_store import SqliteTraceStore

pytestmark = [pytest.mark.slow, NEEDS_BROWSER]

WORDS = (
    *("math", "model=tiny", "rollouts.tasks_per_step=2", "rollouts.group_size=3"),
    *("rollouts.max_turns=3", "eval.n=4", "hardware.threads=1", "checkpoints.every=1"),
    "warm_start=none",
)
END_S = 300
AXE = "axe-core@4.14.1"


def train(*words: object) -> None:
    command = [sys.executable, "-m", "practicum.cli.main", "train", *WORDS, *map(str, words)]
    subprocess.run(command, check=True, capture_output=True)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two runs and a study, trained."""
    folder = tmp_path_factory.mktemp("monitored")
    runs = f"runs_dir={folder / 'runs'}"
    train(runs, "steps=2", "eval.every=1", "--name", "first")
    train(runs, "steps=2", "eval.every=1", "--name", "second", "seed=1", "algorithm.lr=0.003")
    train(runs, "steps=1", "--name", "seeds", "--seeds", "2", "--parallel", "1")
    return folder


@pytest.fixture(scope="module")
def site(folder: Path) -> Iterator[MonitorProcess]:
    with monitor_process(folder, "runs", "--write", "--author", "ada") as started:
        yield started


@pytest.fixture(scope="module")
def page(site: MonitorProcess, tmp_path_factory: pytest.TempPathFactory) -> Iterator[MonitorPage]:
    with browsing_monitor(site, tmp_path_factory.mktemp("profile")) as opened:
        yield opened


def test_the_list_has_runs_and_studies_and_the_key_has_gone(page: MonitorPage) -> None:
    page.go("/")
    assert page.driver.current_url == f"{page.site.base}/"
    assert [link.text for link in page.all("tbody th a")] == ["seeds", "second", "first"]
    assert "2 seeds" in page.text
    assert "finished" in page.text
    assert re.search(r"0\.\d\d \[0\.\d\d, \d\.\d\d\] \(n = 4\)", page.text)
    assert page.complaints() == []


def test_the_list_is_filtered_and_sorted(page: MonitorPage) -> None:
    page.go("/")
    page.one("input[name=q]").send_keys("FIRST")
    page.follow("Show")
    assert [link.text for link in page.all("tbody th a")] == ["first"]
    page.go("/?sort=name")
    assert [link.text for link in page.all("tbody th a")] == ["first", "second", "seeds"]
    page.go("/?q=nothing-of-the-kind")
    assert "None of 3 matches" in page.text


def test_a_run_has_its_curves_times_checkpoints_and_config(page: MonitorPage) -> None:
    page.go("/")
    page.follow("first")
    titles = page.charts()
    for title in ("Reward", "Held-out success", "Loss", "Entropy", "Flat groups"):
        assert title in titles
    for title in ("Log-probability gap", "Tokens of a response", "Tokens per second"):
        assert title in titles
    assert "Held-out success after step 2" in page.text
    assert "Where the time went" in page.text
    assert "best" in page.text
    figure = page.one('figure[data-chart="reward"]')
    figure.find_element("tag name", "summary").click()
    assert page.until(lambda: len(figure.find_elements("css selector", "tbody tr")) == 2)
    assert page.complaints() == []


def test_what_differs_from_another_run_is_told(page: MonitorPage) -> None:
    page.go("/run?name=first&with=second")
    table = page.one("form[action='/run'] + table")
    cells = [row.text for row in table.find_elements("css selector", "tbody tr")]
    rows = {row.partition(" ")[0]: row for row in cells}
    assert "0.003" in rows["algorithm.lr"]
    assert rows["seed"] == "seed 0 1"
    assert "model.name" not in rows


def test_a_study_is_one_line_with_its_seeds_behind_it(page: MonitorPage) -> None:
    page.go("/")
    page.follow("seeds")
    assert "Held-out success over 2 seeds and 4 tasks" in page.text
    assert "Reward" in page.charts()
    page.follow("seeds/seed_1")
    assert page.heading == "seeds/seed_1"


def test_runs_and_studies_are_compared_on_the_same_tasks(page: MonitorPage) -> None:
    page.go("/compare")
    for name in ("first", "second"):
        page.one(f'input[value="{name}"]').click()
    page.follow("Compare")
    assert "On the same held-out tasks" in page.text
    assert re.search(r"(second|first) .*4 tasks", page.text)
    assert "Reward" in page.charts()
    assert "algorithm.lr" in page.text
    page.go("/compare?of=first&of=seeds")
    assert "a study is compared with a study" in page.text
    assert page.complaints() == []


def test_rollouts_are_searched_and_one_is_opened(page: MonitorPage) -> None:
    page.go("/rollouts?run=first")
    assert re.search(r"\d+ episodes", page.text)
    page.one("input[name=text]").send_keys("solve FOR x")
    page.follow("Show")
    assert "found in" in page.text
    page.go("/rollouts?run=first&purpose=train&order=best")
    rewards = [float(cell.text) for cell in page.all("tbody td:nth-child(3)")]
    assert rewards == sorted(rewards, reverse=True)
    page.go("/rollouts?run=first&where=scor+%3E+1")
    assert "there is no such field" in page.text
    page.go("/rollouts?run=first&step=1&purpose=train")
    page.one("tbody th a").click()
    page.until(lambda: "identify_operation" in page.text)
    assert len(page.all(".message.assistant")) >= 1


def test_a_group_is_side_by_side_with_what_pushed_each_episode(page: MonitorPage) -> None:
    page.go("/rollouts?run=first&step=1&purpose=train")
    page.one("tbody tr td:last-child a").click()
    page.until(lambda: page.heading.startswith("Group of"))
    cells = [
        [cell.text for cell in row.find_elements("tag name", "td")] for row in page.all("tbody tr")
    ]
    rewards = [float(row[0]) for row in cells]
    advantages = [float(row[1]) for row in cells]
    assert len(cells) == 3
    assert rewards == sorted(rewards, reverse=True)
    assert sum(advantages) == pytest.approx(0.0, abs=0.02)
    assert len(page.all(".columns article")) == 3


def test_tokens_are_told_one_by_one_with_the_keys(page: MonitorPage, folder: Path) -> None:
    page.go("/trace?run=first&row=1&view=tokens")
    with SqliteTraceStore(folder / "runs/first/traces.sqlite", read_only=True) as store:
        episode = store.episode_at(1)
    assert episode is not None
    tokens = page.all("#tokens .t")
    assert len(tokens) == episode.trace.sampled_tokens
    box = page.one("#tokens")
    box.send_keys("\ue014")  # the right arrow
    first = next(node for node in episode.trace.nodes if node.sampled)
    assert first.sampled is not None
    told = page.one("#token").text
    assert f"log-probability {first.sampled.logprobs[0]:.4f}" in told
    assert f"(token {first.token_ids[0]})" in told
    said = "".join(token.text for token in tokens)
    assert "identify_operation" in page.one("#tokens").text
    assert said
    page.one("input[value=mask]").click()
    assert "mask" in box.get_attribute("class")


def test_evidence_and_versions_have_their_pages(page: MonitorPage) -> None:
    page.go("/trace?run=first&row=1")
    page.follow("evidence")
    assert "What the checker found" in page.text
    page.go("/versions?run=first&row=1")
    assert "over the steps" in page.heading
    assert len(page.all(".columns article")) >= 2  # held-out tasks are drawn at each evaluation


def test_artefacts_have_checksums(page: MonitorPage, folder: Path) -> None:
    page.go("/artefacts")
    manifest = json.loads((folder / "runs/first/checkpoints/step_2/manifest.json").read_text())
    assert manifest["fingerprint"] in page.text
    shown = page.driver.execute_script("return document.body.textContent")
    assert manifest["files"]["adapter_model.safetensors"]["sha256"] in shown


def test_traces_are_labelled_by_keys(page: MonitorPage, folder: Path) -> None:
    page.go("/labels?run=second")
    page.follow("Label traces with the keys 1 to 5")
    episode = page.one("input[name=episode]").get_attribute("value")
    page.one("body").send_keys("4")
    page.until(lambda: "1 labelled (1 good, 0 bad)" in page.text)
    other = page.one("input[name=episode]").get_attribute("value")
    assert other != episode
    page.one("input[name=note]").send_keys("1 wrong step")
    assert page.one("input[name=episode]").get_attribute("value") == other  # typing is no answer
    page.follow("2")
    page.until(lambda: "2 labelled" in page.text)
    page.one("body").send_keys("u")
    page.until(lambda: "1 labelled" in page.text)
    with SqliteTraceStore(folder / "runs/second/traces.sqlite", read_only=True) as store:
        labels = [(one.episode_id, one.value, one.author) for one in store.labels()]
    assert labels == [(episode, 0.75, "ada")]
    page.go("/labels?run=second")
    assert "1 good, 0 bad" in page.text


def test_notes_and_tags_are_kept_and_found(page: MonitorPage, folder: Path) -> None:
    page.go("/run?name=second")
    page.one("input[name=tags]").send_keys("baseline, good-lr")
    page.one("textarea").send_keys("<b>the one to beat</b>")
    page.follow("Keep")
    page.go("/?q=good-lr")
    assert [link.text for link in page.all("tbody th a")] == ["second"]
    assert "<b>the one to beat</b>" in page.text
    kept = json.loads((folder / "runs/second/notes.json").read_text())
    assert kept["tags"] == ["baseline", "good-lr"]


def test_a_run_is_deleted_only_by_its_name(page: MonitorPage, folder: Path) -> None:
    shutil.copytree(folder / "runs/first", folder / "runs/copy", symlinks=True)
    for typed, is_there in (("first", True), ("copy", False)):
        page.go("/run?name=copy")
        page.driver.execute_script(
            "document.querySelector('form[action=\"/delete\"]').parentNode.open=1"
        )
        page.one("input[name=typed]").send_keys(typed)
        page.follow("Delete")
        assert (folder / "runs/copy").exists() is is_there
    assert RunDir.is_run(folder / "runs/first")


def test_a_run_in_training_is_live_and_stopped_from_the_page(
    page: MonitorPage, folder: Path
) -> None:
    words = (*WORDS, f"runs_dir={folder / 'runs'}", "steps=100000", "--name", "live")
    command = [sys.executable, "-m", "practicum.cli.main", "train", *words]
    page.go("/")
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as trainer:
        try:
            page.until(lambda: "live" in [link.text for link in page.all("tbody th a")])
            page.until(lambda: RunDir(folder / "runs/live").metrics_path.is_file())
            page.go("/run?name=live")
            page.until(lambda: re.search(r"step [1-9]\d* of 100000", page.text))
            page.driver.execute_script("window.same = 1")
            before = int(re.findall(r"step (\d+) of", page.text)[0])
            page.until(lambda: int(re.findall(r"step (\d+) of", page.text)[0]) > before + 1)
            page.until(lambda: "Reward" in page.charts())
            assert page.driver.execute_script("return window.same") == 1  # it was never loaded anew
            page.go("/compare?of=live&of=first")
            assert "Reward" in page.charts()
            page.go("/run?name=live")
            page.follow("Stop: save and leave")
            trainer.wait(END_S)
            page.until(lambda: "go on with: practicum train --resume" in page.text)
        finally:
            trainer.send_signal(signal.SIGKILL)
    saved = RunDir(folder / "runs/live")
    assert saved.trainer_pid() is None
    assert list(saved.checkpoints_path.glob("step_*"))


def test_an_empty_folder_says_how_to_begin(tmp_path: Path) -> None:
    with monitor_process(tmp_path, "none") as site, browsing_monitor(site, tmp_path / "p") as page:
        assert "There are no runs in none yet" in page.text
        for path in ("/compare", "/artefacts"):
            page.go(path)
            assert page.heading in ("Compare", "Artefacts")
        assert page.complaints() == []


@pytest.mark.parametrize("switch", ["--force-dark-mode", "--window-size=390,800"])
def test_the_dark_page_and_the_phones_are_as_wide_as_the_screen(
    site: MonitorProcess, tmp_path: Path, switch: str
) -> None:
    with browsing_monitor(site, tmp_path / "p", switch) as page:
        for path in ("/", "/run?name=first", "/rollouts?run=first", "/trace?run=first&row=1"):
            page.go(path)
            wide = page.driver.execute_script("return document.documentElement.scrollWidth")
            assert wide <= page.driver.execute_script("return window.innerWidth")


@pytest.fixture(scope="module")
def axe(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The script of axe-core, from npm; it is for this test alone and shipped nowhere."""
    folder = tmp_path_factory.mktemp("axe")
    if shutil.which("npm") is None:
        pytest.skip("needs npm, for axe-core")
    command = ["npm", "pack", AXE, "--pack-destination", str(folder)]
    if subprocess.run(command, cwd=folder, capture_output=True, check=False).returncode:
        pytest.skip(f"{AXE} cannot be had from npm here")
    with tarfile.open(next(folder.glob("*.tgz"))) as packed:
        script = packed.extractfile("package/axe.min.js")
        assert script is not None
        return script.read().decode()


@pytest.mark.parametrize("switch", ["--lang=en", "--force-dark-mode"])
def test_axe_finds_nothing_serious(
    site: MonitorProcess, tmp_path: Path, switch: str, axe: str
) -> None:
    pages = ("/", "/run?name=first&with=second", "/study?name=seeds", "/compare?of=first&of=second")
    pages += ("/rollouts?run=first", "/group?run=first&row=5", "/versions?run=first&row=1")
    pages += ("/trace?run=first&row=1", "/trace?run=first&row=1&view=tokens", "/labels?run=first")
    pages += ("/trace?run=first&row=1&view=evidence", "/label?run=first", "/artefacts", "/nothing")
    with browsing_monitor(site, tmp_path / "p", switch) as page:
        for path in pages:
            page.go(path)
            if page.all("#charts"):
                page.charts()
            page.driver.execute_script(axe)
            found = page.driver.execute_async_script(
                "const done = arguments[0]; axe.run().then((told) => done(told.violations))"
            )
            serious = [
                (one["id"], [node["html"][:100] for node in one["nodes"]][:3])
                for one in found
                if one["impact"] in ("serious", "critical")
            ]
            assert not serious, path


def test_every_link_and_button_is_reached_by_the_tab_key(page: MonitorPage) -> None:
    page.go("/rollouts?run=first")
    find = "[...document.querySelectorAll('a, button, input:not([type=hidden]), select')]"
    wanted = page.driver.execute_script(f"return {find}.length")
    seen = set()
    for _ in range(wanted + 30):
        page.driver.switch_to.active_element.send_keys("\ue004")
        seen.add(page.driver.switch_to.active_element.id)
    reached = page.driver.execute_script(f"return {find}.filter((one) => one.tabIndex >= 0).length")
    assert reached == wanted
    assert len(seen) >= wanted
