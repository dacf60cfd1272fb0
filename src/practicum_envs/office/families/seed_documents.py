"""The smallest real xlsx, docx, pptx and pdf files, by the standard library."""

import io
import zipfile
from collections.abc import Sequence
from xml.sax.saxutils import escape

XML = '<?xml version="1.0" encoding="UTF-8" standalone="yes"?>\n'
OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
PACKAGE = "http://schemas.openxmlformats.org/package/2006"
SHEET = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
WORD = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
SLIDES = "http://schemas.openxmlformats.org/presentationml/2006/main"
DRAWING = "http://schemas.openxmlformats.org/drawingml/2006/main"
MAIN = "application/vnd.openxmlformats-officedocument"


def _zip(parts: dict[str, str]) -> bytes:
    """A zip file, the same for the same parts."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in parts.items():
            archive.writestr(zipfile.ZipInfo(name, (2026, 3, 2, 9, 0, 0)), XML + content)
    return file.getvalue()


def _types(kinds: dict[str, str]) -> str:
    rels = "application/vnd.openxmlformats-package.relationships+xml"
    named = "".join(
        f'<Override PartName="/{part}" ContentType="{MAIN}.{kind}+xml"/>'
        for part, kind in kinds.items()
    )
    return (
        f'<Types xmlns="{PACKAGE}/content-types">'
        f'<Default Extension="rels" ContentType="{rels}"/>'
        f'<Default Extension="xml" ContentType="application/xml"/>{named}</Types>'
    )


def _links(targets: Sequence[tuple[str, str]]) -> str:
    """Relations rId1, rId2 ... of kinds to targets."""
    inner = "".join(
        f'<Relationship Id="rId{n}" Type="{OFFICE}/{kind}" Target="{target}"/>'
        for n, (kind, target) in enumerate(targets, 1)
    )
    return f'<Relationships xmlns="{PACKAGE}/relationships">{inner}</Relationships>'


def xlsx(rows: Sequence[Sequence[object]], title: str = "Sheet1") -> bytes:
    """A workbook with one sheet; numbers are numbers, the rest is text."""

    def cell(at: str, value: object) -> str:
        if isinstance(value, int | float):
            return f'<c r="{at}"><v>{value}</v></c>'
        return f'<c r="{at}" t="inlineStr"><is><t>{escape(str(value))}</t></is></c>'

    lines = "".join(
        f'<row r="{n}">{"".join(cell(f"{chr(65 + i)}{n}", v) for i, v in enumerate(row))}</row>'
        for n, row in enumerate(rows, 1)
    )
    sheets = f'<sheets><sheet name="{escape(title)}" sheetId="1" r:id="rId1"/></sheets>'
    return _zip(
        {
            "[Content_Types].xml": _types(
                {
                    "xl/workbook.xml": "spreadsheetml.sheet.main",
                    "xl/worksheets/sheet1.xml": "spreadsheetml.worksheet",
                }
            ),
            "_rels/.rels": _links([("officeDocument", "xl/workbook.xml")]),
            "xl/workbook.xml": f'<workbook xmlns="{SHEET}" xmlns:r="{OFFICE}">{sheets}</workbook>',
            "xl/_rels/workbook.xml.rels": _links([("worksheet", "worksheets/sheet1.xml")]),
            "xl/worksheets/sheet1.xml": (
                f'<worksheet xmlns="{SHEET}"><sheetData>{lines}</sheetData></worksheet>'
            ),
        }
    )


def docx(paragraphs: Sequence[str]) -> bytes:
    """A document of plain paragraphs."""
    inner = "".join(f"<w:p><w:r><w:t>{escape(text)}</w:t></w:r></w:p>" for text in paragraphs)
    return _zip(
        {
            "[Content_Types].xml": _types({"word/document.xml": "wordprocessingml.document.main"}),
            "_rels/.rels": _links([("officeDocument", "word/document.xml")]),
            "word/document.xml": (
                f'<w:document xmlns:w="{WORD}"><w:body>{inner}</w:body></w:document>'
            ),
        }
    )


TREE = '<p:nvGrpSpPr><p:cNvPr id="1" name=""/><p:cNvGrpSpPr/><p:nvPr/></p:nvGrpSpPr><p:grpSpPr/>'


def _slide(tag: str, lines: Sequence[str], more: str = "") -> str:
    """A slide, layout or master with one box of text."""
    paragraphs = "".join(f"<a:p><a:r><a:t>{escape(one)}</a:t></a:r></a:p>" for one in lines)
    box = (
        '<p:sp><p:nvSpPr><p:cNvPr id="2" name="Text"/><p:cNvSpPr/><p:nvPr/></p:nvSpPr><p:spPr/>'
        f"<p:txBody><a:bodyPr/>{paragraphs}</p:txBody></p:sp>"
    )
    spaces = f'xmlns:p="{SLIDES}" xmlns:a="{DRAWING}" xmlns:r="{OFFICE}"'
    shapes = f"<p:spTree>{TREE}{box if lines else ''}</p:spTree>"
    return f"<p:{tag} {spaces}><p:cSld>{shapes}</p:cSld>{more}</p:{tag}>"


def pptx(slides: Sequence[Sequence[str]]) -> bytes:
    """A presentation; each slide is lines of text, the first of them its title."""
    numbers = range(1, len(slides) + 1)
    kinds = {f"ppt/slides/slide{n}.xml": "presentationml.slide" for n in numbers}
    kinds |= {
        "ppt/presentation.xml": "presentationml.presentation.main",
        "ppt/slideMasters/slideMaster1.xml": "presentationml.slideMaster",
        "ppt/slideLayouts/slideLayout1.xml": "presentationml.slideLayout",
    }
    colors = " ".join(
        f'{name}="{of}"'
        for name, of in (
            *(("bg1", "lt1"), ("tx1", "dk1"), ("bg2", "lt2"), ("tx2", "dk2")),
            *((f"accent{n}", f"accent{n}") for n in range(1, 7)),
            *(("hlink", "hlink"), ("folHlink", "folHlink")),
        )
    )
    layouts = '<p:sldLayoutIdLst><p:sldLayoutId id="2147483649" r:id="rId1"/></p:sldLayoutIdLst>'
    ids = "".join(f'<p:sldId id="{255 + n}" r:id="rId{n + 1}"/>' for n in numbers)
    parts = {
        "[Content_Types].xml": _types(kinds),
        "_rels/.rels": _links([("officeDocument", "ppt/presentation.xml")]),
        "ppt/presentation.xml": (
            f'<p:presentation xmlns:p="{SLIDES}" xmlns:r="{OFFICE}"><p:sldMasterIdLst>'
            '<p:sldMasterId id="2147483648" r:id="rId1"/></p:sldMasterIdLst>'
            f'<p:sldIdLst>{ids}</p:sldIdLst><p:notesSz cx="1" cy="1"/></p:presentation>'
        ),
        "ppt/_rels/presentation.xml.rels": _links(
            [
                ("slideMaster", "slideMasters/slideMaster1.xml"),
                *(("slide", f"slides/slide{n}.xml") for n in numbers),
            ]
        ),
        "ppt/slideMasters/slideMaster1.xml": _slide(
            "sldMaster", (), f"<p:clrMap {colors}/>{layouts}"
        ),
        "ppt/slideMasters/_rels/slideMaster1.xml.rels": _links(
            [("slideLayout", "../slideLayouts/slideLayout1.xml")]
        ),
        "ppt/slideLayouts/slideLayout1.xml": _slide("sldLayout", ()),
        "ppt/slideLayouts/_rels/slideLayout1.xml.rels": _links(
            [("slideMaster", "../slideMasters/slideMaster1.xml")]
        ),
    }
    for n, lines in zip(numbers, slides, strict=True):
        parts[f"ppt/slides/slide{n}.xml"] = _slide("sld", lines)
        parts[f"ppt/slides/_rels/slide{n}.xml.rels"] = _links(
            [("slideLayout", "../slideLayouts/slideLayout1.xml")]
        )
    return _zip(parts)


def pdf(lines: Sequence[str]) -> bytes:
    """A page of text; its stream is plain, so that it can be read without a library."""
    shown = "".join(f"({_pdf_text(line)}) Tj T*\n" for line in lines)
    stream = f"BT /F1 11 Tf 14 TL 50 800 Td\n{shown}ET\n"
    objects = (
        "<< /Type /Catalog /Pages 2 0 R >>",
        "<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 595 842] /Contents 4 0 R "
        "/Resources << /Font << /F1 5 0 R >> >> >>",
        f"<< /Length {len(stream)} >>\nstream\n{stream}endstream",
        "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    )
    body, places = "%PDF-1.4\n", []
    for number, content in enumerate(objects, 1):
        places.append(len(body))
        body += f"{number} 0 obj\n{content}\nendobj\n"
    entries = "".join(f"{place:010d} 00000 n \n" for place in places)
    size = len(objects) + 1
    tail = (
        f"xref\n0 {size}\n0000000000 65535 f \n{entries}trailer\n<< /Size {size} /Root 1 0 R >>\n"
    )
    return f"{body}{tail}startxref\n{len(body)}\n%%EOF\n".encode("ascii")


def _pdf_text(line: str) -> str:
    return line.replace("\\", r"\\").replace("(", r"\(").replace(")", r"\)")
