"""The documents of tasks are what their names say, for the libraries that people open them with."""

import io
import zipfile
from xml.etree import ElementTree

import pytest

from practicum_envs.office.families.seed_documents import docx, pdf, pptx, xlsx

ROWS = [("item", "price"), ("lamp & <shade>", 3), ("chair", 2.5)]
LINES = ["First (and last)", "Second & <third>"]


@pytest.mark.parametrize("content", [xlsx(ROWS), docx(LINES), pptx([LINES, LINES[:1]])])
def test_every_part_of_an_office_document_is_xml_and_what_is_linked_is_there(
    content: bytes,
) -> None:
    archive = zipfile.ZipFile(io.BytesIO(content))
    names = set(archive.namelist())
    for name in names:
        root = ElementTree.fromstring(archive.read(name))
        if name == "[Content_Types].xml":
            parts = {one.get("PartName", "").lstrip("/") for one in root if one.get("PartName")}
            assert parts <= names


def test_the_same_document_has_the_same_bytes() -> None:
    assert xlsx(ROWS) == xlsx(ROWS)
    assert xlsx(ROWS) != xlsx(ROWS[:2])


def test_the_text_of_a_pdf_file_can_be_found_without_a_library() -> None:
    content = pdf(["Experience: 4 years"])
    assert b"(Experience: 4 years) Tj" in content
    start = int(content.split(b"startxref\n")[1].split()[0])
    assert content[start:].startswith(b"xref")


def test_openpyxl_reads_the_workbook() -> None:
    openpyxl = pytest.importorskip("openpyxl")
    sheet = openpyxl.load_workbook(io.BytesIO(xlsx(ROWS))).active
    assert [tuple(row) for row in sheet.iter_rows(values_only=True)] == ROWS


def test_python_docx_reads_the_document() -> None:
    library = pytest.importorskip("docx")
    document = library.Document(io.BytesIO(docx(LINES)))
    assert [one.text for one in document.paragraphs] == LINES


def test_python_pptx_reads_the_presentation() -> None:
    library = pytest.importorskip("pptx")
    deck = library.Presentation(io.BytesIO(pptx([LINES, LINES[:1]])))
    texts = [shape.text_frame.text for slide in deck.slides for shape in slide.shapes]
    assert texts == ["\n".join(LINES), LINES[0]]


def test_pypdf_reads_the_page() -> None:
    library = pytest.importorskip("pypdf")
    page = library.PdfReader(io.BytesIO(pdf(LINES))).pages[0]
    assert page.extract_text().splitlines() == LINES
