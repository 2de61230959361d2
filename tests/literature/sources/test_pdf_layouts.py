"""What publishers do differently: stamps, run-in abstracts, other reference lists, line numbers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pymupdf
import pytest

from hpcscientist.literature.sources.pdf import read
from hpcscientist.records.literature import Paper

Text = tuple[float, float, float, str, str]  # x, y, size, font, text

PROSE = (
    "We study how a learner can be told apart from its data.",
    "Every step is measured on data that were set aside before,",
    "and the same seeds are used for each of the methods here.",
)


def write(path: Path, *pages: Sequence[Text], rotate: str = "") -> Path:
    with pymupdf.open() as document:
        for texts in pages:
            page = document.new_page(width=612, height=792)
            for x, y, size, font, text in texts:
                page.insert_text((x, y), text, fontsize=size, fontname=font)
            if rotate:
                page.insert_text((30, 600), rotate, fontsize=16, rotate=90)
                rotate = ""
        document.save(path)
    return path


def prose(y: float, x: float = 72, lines: Sequence[str] = PROSE) -> list[Text]:
    return [(x, y + 12 * number, 10, "tiro", line) for number, line in enumerate(lines)]


def paper(path: Path) -> Paper:
    (found,) = read(path, path.name)
    assert isinstance(found, Paper)
    return found


HEAD: list[Text] = [
    (150, 100, 18, "tibo", "Learners and Their Data"),
    (220, 125, 11, "tiro", "Ada L. Byron"),
]


def test_arxiv_s_stamp_gives_id_and_year(tmp_path: Path) -> None:
    path = write(
        tmp_path / "a.pdf",
        [*HEAD, *prose(180)],
        rotate="arXiv:2412.01234v2 [cs.LG] 7 Jan 2025",
    )

    found = paper(path)

    assert (found.arxiv_id, found.year) == ("2412.01234", 2025)
    assert found.paper_id == "arxiv:2412.01234"
    assert found.title == "Learners and Their Data"


def test_arxiv_s_name_of_a_file_gives_the_id_but_a_cited_one_does_not(tmp_path: Path) -> None:
    cited = [
        *HEAD,
        *prose(180),
        (72, 300, 10, "tiro", "It was first seen in arXiv:1706.03762 by others."),
    ]

    assert paper(write(tmp_path / "2302.00001v3.pdf", cited)).arxiv_id == "2302.00001"
    assert paper(write(tmp_path / "mine.pdf", cited)).arxiv_id == ""


@pytest.mark.parametrize("word", ["Abstract - ", "Abstract. ", "ABSTRACT: "])
def test_an_abstract_that_begins_with_the_word(tmp_path: Path, word: str) -> None:
    first = f"{word}{PROSE[0]}"
    path = write(
        tmp_path / "a.pdf",
        [
            *HEAD,
            *prose(180, lines=(first, *PROSE[1:])),
            (72, 240, 10, "tiit", "Keywords: learners, data"),
            (72, 280, 12, "tibo", "1 Introduction"),
            *prose(300),
        ],
    )

    found = paper(path)

    assert found.abstract == " ".join(PROSE)
    assert [(s.heading, s.text) for s in found.sections] == [("Introduction", " ".join(PROSE))]


def test_authors_in_large_type_are_no_headings(tmp_path: Path) -> None:
    path = write(
        tmp_path / "a.pdf",
        [
            (150, 100, 18, "tibo", "Learners and Their Data"),
            (120, 130, 12, "tiro", "Ada Byron"),
            (120, 146, 10, "tiro", "University of Tests"),
            (380, 130, 12, "tiro", "Emmy Noether"),
            (380, 146, 10, "tiro", "Institute of Proofs"),
            (72, 200, 12, "tibo", "Abstract"),
            *prose(216),
            (72, 280, 12, "tibo", "1 Introduction"),
            *prose(300),
        ],
    )

    found = paper(path)

    assert found.authors == ("Ada Byron", "Emmy Noether")
    assert [s.heading for s in found.sections] == ["Introduction"]
    assert found.abstract == " ".join(PROSE)


def test_references_told_apart_by_their_hanging_indents(tmp_path: Path) -> None:
    entries = [
        ("Byron, A. (1843). Notes on the analytical engine.", "Taylor's Scientific Memoirs, 3."),
        ("Noether, E. (1918). Invariante Variationsprobleme.", "Nachrichten, 1918, 235-257."),
        ("Turing, A. (1936). On computable numbers. Proceedings", "of the London Society, 42."),
    ]
    texts: list[Text] = [*HEAD, *prose(180), (72, 260, 12, "tibo", "References")]
    for number, (first, second) in enumerate(entries):
        texts.append((72, 280 + 24 * number, 10, "tiro", first))
        texts.append((90, 292 + 24 * number, 10, "tiro", second))
    texts += [(72, 400, 12, "tibo", "A Proofs"), *prose(420)]

    found = paper(write(tmp_path / "a.pdf", texts))

    assert found.references == tuple(" ".join(entry) for entry in entries)
    assert found.sections[-1].heading == "Proofs"


def test_numbers_beside_lines_headers_and_page_numbers_are_left_out(tmp_path: Path) -> None:
    pages = []
    for page in range(3):
        numbers: list[Text] = [
            (40, 100 + 12 * n, 6, "helv", f"{page * 50 + n:03d}") for n in range(50)
        ]
        lines = [
            f"Line {n} of page {page} says something that others do not say." for n in range(50)
        ]
        furniture: list[Text] = [
            (72, 40, 8, "tiit", f"Under review as a conference paper at Tests {page}"),
            (300, 770, 9, "tiro", str(page + 1)),
        ]
        pages.append([*furniture, *numbers, *prose(100, lines=lines)])

    (section,) = paper(write(tmp_path / "a.pdf", *pages)).sections

    said = [
        f"Line {n} of page {p} says something that others do not say."
        for p in range(3)
        for n in range(50)
    ]
    assert " ".join(section.text.split()) == " ".join(said)


def test_columns_are_read_one_after_the_other_though_the_file_has_them_row_by_row(
    tmp_path: Path,
) -> None:
    left = [f"left {n} with words enough to fill half a page" for n in range(30)]
    right = [f"right {n} with words enough to fill half a page" for n in range(30)]
    texts: list[Text] = []
    for n in range(30):
        texts.append((60, 100 + 12 * n, 10, "tiro", left[n]))
        texts.append((330, 100 + 12 * n, 10, "tiro", right[n]))

    (section,) = paper(write(tmp_path / "a.pdf", texts)).sections

    assert " ".join(section.text.split()) == " ".join([*left, *right])


def test_a_hyphen_at_a_line_s_end_stays_where_the_paper_has_it_elsewhere(tmp_path: Path) -> None:
    lines = (
        "We use self-attention, which is well known, in a state-of-the-",
        "art model that general-",
        "izes, and the self-",
        "attention of others.",
    )

    (section,) = paper(write(tmp_path / "a.pdf", [*HEAD, *prose(180, lines=lines)])).sections

    assert "a state-of-the-art model that generalizes, and the self-attention of" in section.text


def test_a_chinese_title(tmp_path: Path) -> None:
    path = write(
        tmp_path / "a.pdf",
        [(200, 100, 20, "china-s", "基于深度学习的文献检索"), *prose(180)],
    )

    assert paper(path).title == "基于深度学习的文献检索"


def test_a_name_that_is_no_utf8(tmp_path: Path) -> None:
    path = write(tmp_path / "a.pdf", [*HEAD, *prose(180)])
    odd = path.rename(tmp_path / b"caf\xe9.pdf".decode("utf-8", "surrogateescape"))

    (found,) = read(odd, "odd")

    assert isinstance(found, Paper)
    assert found.title == "Learners and Their Data"


def test_a_page_in_one_type_has_its_first_line_as_the_title(tmp_path: Path) -> None:
    found = paper(write(tmp_path / "a.pdf", prose(100)))

    assert found.title == PROSE[0]
    assert found.sections[0].text == " ".join(PROSE)
