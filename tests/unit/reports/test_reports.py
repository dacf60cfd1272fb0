"""Reports of runs as training leaves them: what they say, and that nothing in them is run."""

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from tests.unit.analysis.builders import LOST, SOLVED, RunBuilder, finished_run, make_episode

from practicum.core.errors import UserError
from practicum.reports.document import (
    Document,
    Heading,
    Listing,
    Paragraph,
    Table,
    to_html,
    to_markdown,
    to_pdf,
    write_document,
)
from practicum.reports.run_report import conversation, report_on_run
from practicum.reports.seeds_report import report_on_study
from practicum.store.run_dir import RunDir
from practicum.store.study_dir import StudyDir

pytest.importorskip("matplotlib", reason="needs the extra report")

HOSTILE = (
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    '"><svg onload=alert(1)>',
    "</pre><iframe src=//evil.example></iframe>",
    "![x](https://evil.example/p.png)",
    "[x](javascript:alert(1))",
    "| a | b |\n---",
)


class Seen(HTMLParser):
    """The tags of a page, and what they load."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.loads: list[str] = []
        self.handlers: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.loads += [value or "" for name, value in attrs if name in ("src", "href")]
        self.handlers += [name for name, _ in attrs if name.startswith("on")]


def texts(document: Document) -> str:
    """All words of a report, without its pictures."""
    return to_markdown(document)


def run_with(tmp_path: Path, said: str) -> RunDir:
    build = RunBuilder(tmp_path).begin().evaluate(0, 14).steps(1, 30).evaluate(30, 90)
    turns = ((said, said, 1.0), *SOLVED)
    build.episode(make_episode(turns, name="good", question=said), 30, "eval")
    build.episode(make_episode(LOST, name="bad", success=False, question=said), 30, "eval")
    return build.done()


def test_a_report_says_what_was_trained_on_what_and_shows_each_part(tmp_path: Path) -> None:
    document = report_on_run(run_with(tmp_path, "3x + 7 = 16"))
    headings = [block.text for block in document.blocks if isinstance(block, Heading)]
    assert headings == [
        *("What was trained on what", "Evidence on held-out tasks", "Curves", "Alarms"),
        *("Examples", "Config", "To make it again"),
    ]
    told = texts(document)
    assert "| how | by grpo on the environment math, by acting on its tasks |" in told
    assert "960 episodes, 27,000 sampled tokens" in told
    assert "solves more of the 100 tasks" in told


def test_every_held_out_figure_has_its_interval_and_its_n(tmp_path: Path) -> None:
    document = report_on_run(finished_run(tmp_path))
    evidence = next(b for b in document.blocks if isinstance(b, Table) and "success" in b.head)
    figure = re.compile(r"-?\d\.\d\d \[-?\d\.\d\d, -?\d\.\d\d\], n = 100")
    assert [row[0] for row in evidence.rows] == ["before", "10", "20", "30"]
    for _, success, reward, _ in evidence.rows:
        assert figure.fullmatch(success)
        assert figure.fullmatch(reward)
    strong = [b.text for b in document.blocks if isinstance(b, Paragraph) and b.is_strong]
    assert figure.search(strong[0])
    assert figure.search(strong[1])


def test_what_a_model_wrote_is_text(tmp_path: Path) -> None:
    document = report_on_run(run_with(tmp_path, "\n".join(HOSTILE)))
    seen = Seen(to_html(document))
    assert not {"script", "iframe", "svg", "object", "link", "form"} & set(seen.tags)
    assert not seen.handlers
    assert all(load.startswith("data:image/svg+xml;base64,") for load in seen.loads)
    listings = "".join(b.text for b in document.blocks if isinstance(b, Listing))
    assert all(said in listings for said in HOSTILE)


def test_markdown_of_others_is_escaped_and_a_fence_is_longer_than_what_it_holds() -> None:
    blocks = (
        Paragraph(text="![x](http://a/b) <b> | *c*"),
        Table(head=("a",), rows=(("1 | 2\n# 3",),)),
        Listing(text="```\n# not a heading\n````"),
    )
    told = to_markdown(Document(title="t", subtitle="s", blocks=blocks))
    assert "\\!\\[x\\](http://a/b) \\<b\\> \\| \\*c\\*" in told
    assert "| 1 \\| 2 \\# 3 |" in told
    assert "`````\n```\n# not a heading\n````\n`````" in told


def test_the_same_run_gives_the_same_bytes(tmp_path: Path) -> None:
    run = finished_run(tmp_path)
    assert to_html(report_on_run(run)) == to_html(report_on_run(run))


def test_a_run_without_steps_or_evaluations_has_a_report(tmp_path: Path) -> None:
    told = texts(report_on_run(RunBuilder(tmp_path).begin().done()))
    assert "no held\\-out" not in told
    assert "There is no held-out evaluation after training yet." in told
    assert "Curves" not in told


def test_long_messages_and_long_episodes_are_cut_and_say_so() -> None:
    turns = [("a" * 5000, "b", 0.0), *[("c", "d", 0.0)] * 40]
    told = conversation(make_episode(turns))
    assert "[3,800 characters left out]" in told
    assert "messages left out]" in told
    assert len(told) < 4000


def test_a_study_tells_its_seeds_together_and_each(tmp_path: Path) -> None:
    plain = RunBuilder(tmp_path / "other").config
    config = plain.model_copy(update={"runs_dir": str(tmp_path)})
    study = StudyDir.create(config, (0, 1, 2), name="study")
    for seed in (0, 1, 2):
        build = RunBuilder(study.path, f"seed_{seed}").begin().evaluate(0, 10).steps(1, 30)
        build.checkpoint(30).evaluate(30, 80 + 5 * seed).done()
    document = report_on_study(study)
    told = texts(document).replace("\\", "")
    assert "3 seeds on the same 100 held-out tasks" in told
    assert "seed 2 | 0.90 [0.83, 0.94], n = 100 tasks" in told
    assert "practicum train study.yaml --seeds 0,1,2 --name study-again" in told
    assert to_html(document).count("<img ") == 2


def test_a_report_as_pdf_has_pages_with_its_words(tmp_path: Path) -> None:
    pytest.importorskip("weasyprint", reason="needs the extra report")
    pdfium = pytest.importorskip("pypdfium2", reason="reads the pages back; pip install pypdfium2")
    pages = pdfium.PdfDocument(to_pdf(report_on_run(finished_run(tmp_path))))
    told = " ".join(page.get_textpage().get_text_range() for page in pages)
    assert "Evidence on held-out tasks" in told
    assert "practicum train math-demo.yaml" in told
    assert f"1 / {len(pages)}" in told


def test_a_file_that_says_no_form_is_refused_with_those_there_are(tmp_path: Path) -> None:
    document = Document(title="t", subtitle="s", blocks=())
    with pytest.raises(UserError, match=r"end it in \.html, \.pdf or \.md"):
        write_document(document, tmp_path / "report.docx")
