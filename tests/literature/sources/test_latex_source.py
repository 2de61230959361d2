"""LaTeX projects: what is in them, what is outside them, and archives that mean harm."""

from __future__ import annotations

import gzip
import io
import random
import tarfile
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpcscientist.literature.sources import detect
from hpcscientist.literature.sources.base import Item, PaperSource, Trouble
from hpcscientist.literature.sources.latex import document as latex
from hpcscientist.literature.sources.latex import files as latex_files
from hpcscientist.literature.sources.latex import parts as latex_parts
from hpcscientist.literature.sources.latex.document import authors_of, title_of
from hpcscientist.literature.sources.latex.macros import Expander, definitions
from hpcscientist.literature.sources.tex import plain, split_math
from hpcscientist.records.literature import Formula, Paper, Section

MAIN = r"""
\documentclass{article} % \title{Not this}
\newcommand{\ours}{\textsc{Dolphin}\xspace}
\newcommand{\norm}[2][2]{\left\|#2\right\|_{#1}}
\def\R{\mathbb{R}}
\DeclareMathOperator*{\argmax}{arg\,max}
\title[Short]{\ours: Closed-loop \\ Research\thanks{Supported by X.}}
\author{Jiakang Yuan\textsuperscript{1}, Bo Zhang$^{2}$
  \and Erd\H{o}s P\'al\\ Fudan\\ \texttt{a@b.cn}}
\date{May 2024}
\begin{document}
\maketitle
\begin{abstract}
We propose \ours{} with 50\% gains over $\norm{x}$. % a comment
\end{abstract}
\input{sec/intro}
\section{Method \emph{now}}\label{sec:m}
The loss is a sum. It is minimised over $x\in\R$ as follows:
\begin{align*}\label{eq:1}
L(x) &= \norm[1]{x} + \argmax_y f(y), \\
 &\le 3.
\end{align*}
where $y$ is free~\citep[see][p. 3]{yuan2024,foo}.
\[ a^2+b^2=c^2. \]
Also $$ E = mc^2 \tag{2} $$ holds.
\begin{figure}\includegraphics{x}\caption[s]{A figure of \ours.}\end{figure}
\begin{itemize}\item one \item[two] three\end{itemize}
\bibliography{refs}
\end{document}
\section{After the end}
"""
INTRO = r"""
\section{Introduction}
Intro by \ours{} is here.
\begin{verbatim}
\section{no section} \title{no}
\end{verbatim}
"""
BIB = r"""
@article{yuan2024, title={Dolphin}, eprint={2501.03916}, archiveprefix={arXiv}}
@article{foo, title={A Foo}, author={Bee, A.}, year=2020}
@article{unused, title={Never cited}, doi={10.1000/1}}
"""
FILES = {"main.tex": MAIN, "sec/intro.tex": INTRO, "refs.bib": BIB}


def _folder(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root / "main.tex"


def _archive(path: Path, files: dict[str, str]) -> Path:
    with tarfile.open(path, "w:gz" if path.suffix == ".gz" else "w") as archive:
        for name, text in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(text.encode())
            archive.addfile(member, io.BytesIO(text.encode()))
    return path


def _read(path: Path) -> tuple[list[Paper], list[str]]:
    items: list[Item] = list(latex.read(path, "o"))
    return [i for i in items if isinstance(i, Paper)], [
        i.reason for i in items if isinstance(i, Trouble)
    ]


EXPECTED = Paper(
    paper_id="arxiv:2405.01234",
    title="Dolphin: Closed-loop Research",
    abstract=r"We propose Dolphin with 50% gains over $\left\|x\right\|_{2}$.",
    authors=("Jiakang Yuan", "Bo Zhang", "Erdős Pál"),
    year=2024,
    arxiv_id="2405.01234",
    url="https://arxiv.org/abs/2405.01234",
    sections=(
        Section(heading="Introduction", text="Intro by Dolphin is here."),
        Section(
            heading="Method now",
            text=(
                "The loss is a sum. It is minimised over $x\\in\\mathbb{R}$ as follows:\n"
                r"$$L(x) &= \left\|x\right\|_{1} + \operatorname*{arg\,max}_y f(y), \\ &\le 3$$"
                "\nwhere $y$ is free [yuan2024,foo]. $$a^2+b^2=c^2$$\nAlso $$E = mc^2$$ holds.\n\n"
                "A figure of Dolphin.\n\n- one\n- two: three"
            ),
        ),
    ),
    formulas=(
        Formula(
            text=r"L(x) &= \left\|x\right\|_{1} + \operatorname*{arg\,max}_y f(y), \\ &\le 3",
            section="Method now",
            context=r"It is minimised over $x\in\mathbb{R}$ as follows:",
        ),
        Formula(
            text="a^2+b^2=c^2",
            section="Method now",
            context="where $y$ is free [yuan2024,foo].",
        ),
        Formula(text="E = mc^2", section="Method now", context="Also"),
    ),
    references=("arxiv:2501.03916", "A. Bee. A Foo. 2020"),
    source="latex",
    origin="o",
)


def test_a_project_in_a_folder(tmp_path: Path) -> None:
    main = _folder(tmp_path / "2405.01234v3", FILES)
    papers, troubles = _read(main)
    assert troubles == []
    assert papers == [EXPECTED]
    assert _read(main.parent)[0] == [EXPECTED.model_copy(update={"origin": "o/main.tex"})]


@pytest.mark.parametrize("name", ["2405.01234v3.tar.gz", "2405.01234.gz", "2405.01234.tar"])
def test_a_project_in_an_archive(tmp_path: Path, name: str) -> None:
    papers, troubles = _read(_archive(tmp_path / name, FILES))
    assert (papers, troubles) == ([EXPECTED], [])


def test_a_single_file_as_arxiv_packs_it(tmp_path: Path) -> None:
    path = tmp_path / "hep-th9901001.gz"
    path.write_bytes(gzip.compress(MAIN.encode("latin-1")))
    (paper,), troubles = _read(path)
    assert (paper.paper_id, paper.year) == ("arxiv:hep-th/9901001", 1999)
    assert [told.split(" to ")[0] for told in troubles] == [r"\input{sec/intro} leads"]


def test_bibliographies_as_they_are_printed(tmp_path: Path) -> None:
    items = r"""\begin{thebibliography}{9}
\bibitem[{Bee~et~al.(2020)Bee, [x]}]{bee} A.~Bee and C.~D\'ee.
\newblock \emph{On things}. 2020.
\bibitem{two} E. Gee. \url{https://doi.org/10.1000/ABC_1}.
\bibitem{three} F. \texttt{arXiv:2001.00001v2}.
\end{thebibliography} After."""
    expected = ("A. Bee and C. Dée. On things. 2020.", "doi:10.1000/abc_1", "arxiv:2001.00001")
    inside = MAIN.replace(r"\bibliography{refs}", items)
    assert (
        _read(_folder(tmp_path / "a", {**FILES, "main.tex": inside}))[0][0].references == expected
    )
    assert _read(_folder(tmp_path / "b", {**FILES, "main.bbl": items}))[0][0].references == expected
    assert _read(_folder(tmp_path / "c", {**FILES, "ms.bbl": items}))[0][0].references == expected
    biber = r"""\entry{a}{article}{}
\name{author}{1}{}{{{family={Bée}, given={A.}}}} \field{title}{On {T}hings} \field{year}{2020}
\endentry \entry{b}{article}{} \field{title}{No} \verb{doi}
\verb 10.1000/X
\endverb \endentry"""
    assert _read(_folder(tmp_path / "d", {**FILES, "main.bbl": biber}))[0][0].references == (
        "Bée. On Things. 2020",
        "doi:10.1000/x",
    )


def test_front_matter_of_elsevier_is_no_text(tmp_path: Path) -> None:
    main = r"""\documentclass{elsarticle}\begin{document}\begin{frontmatter}
\title{On Things\tnoteref{t1}}\tnotetext[t1]{Funded by X.}
\author[1]{Ann Bee\corref{c}}\ead{a@b.c}\author[2]{Carl Dee}
\affiliation[1]{organization={Y}}
\begin{abstract}We do.\end{abstract}\begin{keyword}a \sep b\end{keyword}
\end{frontmatter}\section{One}a\end{document}"""
    (paper,), _ = _read(_folder(tmp_path, {"main.tex": main}))
    assert (paper.title, paper.authors) == ("On Things", ("Ann Bee", "Carl Dee"))
    assert (paper.abstract, paper.sections) == ("We do.", (Section(heading="One", text="a"),))


def test_references_are_what_biblatex_cites(tmp_path: Path) -> None:
    found = r"\autocite{a} \parencite[see][]{b} \textcites{c}{d} \nocite{e}"
    main = MAIN.replace(r"\citep[see][p. 3]{yuan2024,foo}", found)
    books = "\n".join(f"@misc{{{key}, title={{T {key}}}}}" for key in "abcdef")
    (paper,), _ = _read(_folder(tmp_path, {**FILES, "main.tex": main, "refs.bib": books}))
    assert paper.references == ("T a", "T b", "T c", "T d", "T e")


SECRET = "the content of a file outside"


def test_nothing_outside_the_project_is_read(tmp_path: Path) -> None:
    (tmp_path / "secret.tex").write_text(SECRET)
    wanted = [
        "../secret",
        "sec/../../secret",
        str(tmp_path / "secret"),
        "link",
        "linked/secret",
        "a\0b",
    ]
    inputs = "\n".join(rf"\input{{{w}}}" for w in wanted)
    text = MAIN.replace(r"\input{sec/intro}", inputs + r"\import{../}{secret}")
    main = _folder(tmp_path / "p", {"main.tex": text})
    (tmp_path / "p" / "link.tex").symlink_to(tmp_path / "secret.tex")
    (tmp_path / "p" / "linked").symlink_to(tmp_path)
    (paper,), troubles = _read(main)
    assert SECRET not in paper.model_dump_json()
    assert len(troubles) == 7
    hostile = {f"x/{'../' * 5}{tmp_path}/out.tex": SECRET, "/etc/x.tex": SECRET, "main.tex": text}
    (paper,), _ = _read(_archive(tmp_path / "a.tar", hostile))
    assert SECRET not in paper.model_dump_json()
    assert not (tmp_path / "out.tex").exists()


def test_inputs_in_a_circle_end(tmp_path: Path) -> None:
    text = MAIN.replace(r"\input{sec/intro}", r"\input{a}\input{a}")
    main = _folder(tmp_path, {"main.tex": text, "a.tex": r"A\input{b}", "b.tex": r"B\input{a}"})
    (paper,), troubles = _read(main)
    assert paper.sections[0].text == "ABAB"
    assert [told.split(" to ")[0] for told in troubles] == [r"\input{a} leads"] * 2


@pytest.mark.parametrize("archive", [True, False])
def test_inputs_that_multiply_are_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, archive: bool
) -> None:
    monkeypatch.setattr(latex_files, "PROJECT_BYTES", 2**20)
    files = {f"f{n}.tex": rf"{'x' * 1000}\input{{f{n + 1}}}" * 10 for n in range(15)}
    files["main.tex"] = MAIN.replace("sec/intro", "f0")
    main = _folder(tmp_path, files)
    found = (
        latex_files.ArchiveFiles(_archive(tmp_path / "a.tar", files))
        if archive
        else latex_files.FolderFiles(main.parent)
    )
    text, missing = latex_files.flattened(found, "main.tex")
    assert len(text) <= 2**20 + 20_000
    assert 0 < len(missing) <= 100


def test_macros_that_multiply_are_bounded() -> None:
    laughs = "".join(
        rf"\newcommand{{\l{c}}}{{\l{n}\l{n}\l{n}\l{n}}}"
        for n, c in zip("abcdefghij", "bcdefghijk", strict=True)
    )
    macros, rest = definitions(laughs + r"\newcommand{\la}{ha}\def\loop{\loop\loop} \lk \loop")
    assert len(Expander(macros).expand(rest)) < 2_000_000


@pytest.mark.parametrize(
    "bad",
    [
        {"readme.txt": "no LaTeX"},
        {"main.tex": r"\documentclass{article}\begin{document}No title\end{document}"},
        {"main.tex": MAIN, "big.tex": "x" * (latex_files.FILE_BYTES + 1)},
    ],
)
def test_archives_that_are_no_paper_say_so(tmp_path: Path, bad: dict[str, str]) -> None:
    _, troubles = _read(_archive(tmp_path / "a.tar.gz", bad))
    assert troubles


@pytest.mark.parametrize("keep", [0.3, 0.6, 0.95])
def test_a_truncated_archive_gives_what_it_has(tmp_path: Path, keep: float) -> None:
    noise = random.Random(0).randbytes(50_000).hex()
    whole = _archive(tmp_path / "a.tar.gz", {"main.tex": MAIN, "z.txt": noise}).read_bytes()
    (tmp_path / "a.tar.gz").write_bytes(whole[: int(len(whole) * keep)])
    papers, troubles = _read(tmp_path / "a.tar.gz")
    assert [p.title for p in papers] == ["Dolphin: Closed-loop Research"]
    assert any("archive damaged" in t for t in troubles)


def test_a_header_that_asks_for_gigabytes_is_refused(tmp_path: Path) -> None:
    member = tarfile.TarInfo("././@PaxHeader")
    member.type, member.size = tarfile.XHDTYPE, 5 * 2**30
    path = tmp_path / "a.tar"
    path.write_bytes(member.tobuf() + b"1" * 2048)
    assert "too large" in _read(path)[1][0]


def test_other_people_s_ways_to_name_authors() -> None:
    assert authors_of(r"\author{A. Bee\inst{1} \and C. Dee\inst{2}}") == ("A. Bee", "C. Dee")
    assert authors_of(r"\author[1]{A. Bee}\author[2,*]{C. Dee}\affil[1]{X}") == ("A. Bee", "C. Dee")
    assert authors_of(r"\author{A. Bee\thanks{X {y}}\\Dept\\ \And C. Dee \\ Y}") == (
        "A. Bee",
        "C. Dee",
    )
    assert authors_of(r"\icmlauthor{A. Bee}{x}\icmlauthor{王小明}{y}") == ("A. Bee", "王小明")
    assert authors_of(r"\author{\IEEEauthorblockN{A. Bee}\IEEEauthorblockA{X}}") == ("A. Bee",)
    assert authors_of(r"\author{A. Bee, C. Dee, and E. Gee, Jr.}") == ("A. Bee", "C. Dee", "E. Gee")


@pytest.mark.parametrize(
    "written",
    [
        r"\author*[1,2]{\fnm{Ann} \sur{Bee}}\email{a@b}\author[2]{\fnm{Carl} \sur{Dee}}\affil{X}",
        r"\author{\name Ann Bee \email a@b.c \\ \addr X\\ Y \AND \name Carl Dee \email c@d.e \\ Z}",
        r"\author{\Name{Ann Bee} \Email{a@b}\\ \addr X \AND \Name{Carl Dee} \Email{c@d}}",
        r"\author{\textbf{Ann Bee}$^{1,2}$, \textbf{Carl Dee}$^{1,2}$\\ $^1$X $^2$Y}",
        r"\Author{Ann Bee $^{1,}$*\orcidA{} and Carl Dee $^{2}$}\AuthorNames{no}",
        r"\author{Ann Bee,~\IEEEmembership{Member,~IEEE,} and~Carl~Dee,~\IEEEmembership{Fellow}}",
        r"\author{Ann Bee\thanks{x}\ \ $^{1}$ \& Carl Dee$^{2}$ \\ X}",
        r"\author{Ann Bee and Carl Dee, E-mail: a@b.c}",
        r"\author{Ann Bee, Carl Dee \texttt{\{bee,dee\}@b.c}}",
        r"\author{\begin{tabular}[t]{c}Ann Bee\\X\end{tabular} \and Carl Dee}",
    ],
)
def test_authors_as_templates_write_them(written: str) -> None:
    assert authors_of(written) == ("Ann Bee", "Carl Dee")


@pytest.mark.parametrize("repeated", ["a", "~", "-", "{a", "a:"])
def test_long_authors_are_read_at_once(repeated: str) -> None:
    begun = time.process_time()
    for _ in range(5):
        authors_of(rf"\author{{Ann Bee {repeated * (19_000 // len(repeated))}}}")
    assert time.process_time() - begun < 2


@pytest.mark.parametrize(
    ("source", "printed"),
    [
        (
            r"Erd\H{o}s, K\"onig, \'{\i}, \c{C}a\u{g}r{\i}, \O re, \ss, \v Z",
            "Erdős, König, í, Çağrı, Øre, ß, Ž",
        ),
        (r"{B}ERT -- a ``test'' of 50\% \& 50%", "BERT – a “test” of 50% & 50%"),
        (r"$\alpha_{1}$ and \(x\'{}\) cost \$5", r"$\alpha_{1}$ and \(x\'{}\) cost $5"),
        (r"\textbf{a \emph{b}} {\it c} \{d\} \unknown{e}", "a b c {d} e"),
        (r"深度 {学习}", "深度 学习"),
        ("{" * 500 + "x" + "}" * 500, "x"),
        ("a$b", "a$b"),
        ("", ""),
    ],
)
def test_plain_text_of_latex(source: str, printed: str) -> None:
    assert plain(source) == printed


@given(st.text(st.sampled_from("\\{}$%#&~^_ab[]()\n\"'")))
def test_no_latex_crashes(source: str) -> None:
    assert "".join(split_math(source)) == source
    plain(source)
    plain(source, quick=True)
    macros, rest = definitions(rf"\def\a#1{{#1}}\newcommand{{\b}}[2][x]{{#1#2\a}}{source}")
    expanded = Expander(macros).expand(rest)
    list(latex_parts.sections(expanded + r"\section{a}" + expanded))


@pytest.mark.timeout(120)  # trying every pair would take hours
@pytest.mark.parametrize(
    "opened",
    ["\\[", "\\(", "$", "$$", "{", "\\begin{align}", "\\begin{figure}", "\\input{", "\\bibitem",
     "\\newcommand{\\a}{", "\\title{", "\\'", "\\cite{", "\\section{", "%", "\\author{", "\\item[",
     "\\let\\a\\b", "\\iffalse", "\\subimport{a}{"],
)  # fmt: skip
def test_what_is_opened_again_and_again_ends(tmp_path: Path, opened: str) -> None:
    source = "x " + (opened + " ") * (60_000 // len(opened))
    (tmp_path / "main.tex").write_text(source)
    whole, _ = latex_files.flattened(latex_files.FolderFiles(tmp_path), "main.tex")
    macros, rest = definitions(latex_parts.silent(whole))
    rest = Expander(macros).expand(rest)
    sections = list(latex_parts.sections(rest))
    found = [title_of(rest), *authors_of(rest), latex_parts.abstract(rest)]
    # Whatever is made of it, it is no longer than what was there.
    assert sum(map(len, found)) <= 3 * len(source)
    assert sum(len(section.text) for section, _ in sections) <= 3 * len(source)


def test_comments_beside_verbatim_text_are_found_in_linear_time() -> None:
    begun = time.process_time()
    many = "\\lstinline[" * 50_000
    odd = "".join(rf"\verb{chr(0x4E00 + number)}" for number in range(20_000))
    assert latex_files.without_comments(f"{many}%no\n{odd}%no") == many + odd
    assert time.process_time() - begun < 4


def test_inputs_behind_macros_stay_within_the_project(tmp_path: Path) -> None:
    (tmp_path / "secret.tex").write_text(SECRET)
    paths = r"\newcommand{\up}{..}\newcommand{\get}[1]{\input{#1}}\def\input@path{{../}{/}}"
    wanted = r"\input{\up/secret}\get{../secret}\import{\up/}{secret}\input{secret}"
    main = _folder(tmp_path / "p", {"main.tex": MAIN.replace(r"\input{sec/intro}", wanted)})
    main.write_text(main.read_text().replace(r"\title[", paths + r"\title["))
    (paper,), troubles = _read(main)
    assert SECRET not in paper.model_dump_json()
    assert len(troubles) == 3


def test_macros_whose_inputs_multiply_are_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(latex_files, "PROJECT_BYTES", 2**20)
    files = {f"f{n}.tex": r"\x" * 1000 + rf"\get{{f{n + 1}}}" * 10 for n in range(15)}
    main = _folder(tmp_path, {**files, "main.tex": MAIN.replace(r"\input{sec/intro}", r"\get{f0}")})
    main.write_text(main.read_text().replace(r"\title[", r"\def\get#1{\input{#1}}\title["))
    (paper,), _ = _read(main)
    assert sum(len(section.text) for section in paper.sections) <= 2**21


def test_parts_of_a_document_are_no_documents(tmp_path: Path) -> None:
    files = {"main.tex": MAIN, "sec/two.tex": r"\documentclass[../main]{subfiles}"}
    _folder(tmp_path, files)
    found = [s for s in detect.inputs([tmp_path]) if isinstance(s, PaperSource)]
    assert [source.path.name for source in found] == ["main.tex"]
