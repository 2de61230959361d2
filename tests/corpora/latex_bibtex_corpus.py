"""BibTeX entries and LaTeX projects as people keep them, and what is in them.

Written from what reference managers, publishers' pages and packages are documented to write, and
from faults that issue threads report. Each is read from files, as a library reads it.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path

from corpus_kit import Case

from hpcscientist.literature.sources.base import Trouble
from hpcscientist.literature.sources.latex import document
from hpcscientist.literature.sources.records import bibtex
from hpcscientist.records.literature import Paper

# What is compared: title, authors, year, venue, DOI, arXiv id, abstract; an empty one is left out.
Fields = dict[str, object]
ONE: Fields = {"title": "One"}
TWO: Fields = {"title": "Two"}
BEE: Fields = {"title": "One", "authors": ("Ann Bee",), "year": 2020}
PAIR: Fields = {"title": "One", "authors": ("Ann Bee", "Carl Dee")}

# Name, the file, its papers, how many entries are said to be damaged.
BIBTEX: list[tuple[str, str, list[Fields], int]] = [
    ("and", "@misc{k, title={One}, author={Bee, Ann and Dee, Carl}}", [PAIR], 0),
    ("AND", "@misc{k, title={One}, author={Bee, Ann AND Dee, Carl}}", [PAIR], 0),
    ("And", "@misc{k, title={One}, author={Ann Bee And Carl Dee}}", [PAIR], 0),
    ("and-on-a-line", "@misc{k, title={One},\n author={Bee, Ann\n  and\n\tDee, Carl}}", [PAIR], 0),
    ("and-at-the-end", "@misc{k, title={One}, author={Bee, Ann and Dee, Carl and }}", [PAIR], 0),
    ("and-twice", "@misc{k, title={One}, author={Bee, Ann and and Dee, Carl}}", [PAIR], 0),
    (
        "and-within-braces-and-names",
        "@misc{k, title={One}, author={{Barnes AND Noble} and Anderson, Rand and {OpenAI}}}",
        [{"title": "One", "authors": ("Barnes AND Noble", "Rand Anderson", "OpenAI")}],
        0,
    ),
    ("and-others", "@misc{k, title={One}, author={Bee, Ann and Dee, Carl AND Others}}", [PAIR], 0),
    ("et-al", "@misc{k, title={One}, author={Ann Bee and Carl Dee et al.}}", [PAIR], 0),
    ("ampersand", "@misc{k, title={One}, author={Ann Bee \\& Carl Dee}}", [PAIR], 0),
    (
        "names-between-commas",
        "@misc{k, title={One}, author={Ann Bee, Carl Dee, and Eve F. Eff}}\n"
        "@misc{l, title={One}, author={Ann Bee, Carl Dee, Eve F. Eff}}",
        [
            {"title": "One", "authors": ("Ann Bee", "Carl Dee", "Eve F. Eff")},
            {"title": "One", "authors": ("Ann Bee", "Carl Dee", "Eve F. Eff")},
        ],
        0,
    ),
    (
        "names-of-a-style-guide",
        "@misc{k, title={One}, author={Bee, A., van Dee, C. D., & Eff, E.}}\n"
        "@misc{l, title={One}, author={Ernst & Young and AT&T and {Bee Labs & Co Kg}}}",
        [
            {"title": "One", "authors": ("A. Bee", "C. D. van Dee", "E. Eff")},
            {"title": "One", "authors": ("Ernst & Young", "AT&T", "Bee Labs & Co Kg")},
        ],
        0,
    ),
    (
        "names-of-institutions",
        "@misc{k, title={One}, author={Department of Health \\& Human Services and"
        " {Bee Labs, Inc., New York} and World Health Organization}}",
        [
            {
                "title": "One",
                "authors": (
                    "Department of Health & Human Services",
                    "Bee Labs, Inc., New York",
                    "World Health Organization",
                ),
            }
        ],
        0,
    ),
    (
        "names-in-two-words",
        "@misc{k, title={One}, author={Bee Dee, Ann Eve and von der Eff, III, Carl Gee}}",
        [{"title": "One", "authors": ("Ann Eve Bee Dee", "Carl Gee von der Eff III")}],
        0,
    ),
    (
        "corr",
        "@article{DBLP:journals/corr/BeeD14, title={One}, journal={CoRR},"
        " volume={abs/1409.0473}, year={2014}}\n"
        "@article{m, title={Two}, journal={CoRR}, volume={cs.LG/0401001}}",
        [
            {"title": "One", "year": 2014, "venue": "CoRR", "arxiv": "1409.0473"},
            {"title": "Two", "year": 2004, "venue": "CoRR", "arxiv": "cs/0401001"},
        ],
        0,
    ),
    ("semicolons", "@misc{k, title={One}, author={Bee, Ann; Dee, Carl;}}", [PAIR], 0),
    (
        "names-in-parts",
        "@misc{k, title={One}, author={family=Bee, given=Ann and given=Carl, prefix=von,"
        " family=Dee}}",
        [{"title": "One", "authors": ("Ann Bee", "Carl von Dee")}],
        0,
    ),
    (
        "von-and-jr",
        "@misc{k, title={One}, author={von der Dee, Carl and Bee, Jr., Ann}}",
        [{"title": "One", "authors": ("Carl von der Dee", "Ann Bee Jr.")}],
        0,
    ),
    ("no-comma", "@misc{k,\n title = {One}\n author = {Bee, Ann},\n year = 2020\n}", [BEE], 0),
    (
        "no-comma-after-quotes",
        '@misc{k,\n title = "One"\n author = "Bee, Ann"\n year = "2020"\n}',
        [BEE],
        0,
    ),
    (
        "no-comma-after-a-number",
        "@misc{k,\n year = 2020\n title = {One}\n author = {Ann Bee}}",
        [BEE],
        0,
    ),
    (
        "no-comma-after-a-string",
        "@string{j = {Journal}}\n@misc{k, journal = j\n title = {One}, year = 2020}",
        [{"title": "One", "year": 2020, "venue": "Journal"}],
        0,
    ),
    (
        "no-comma-on-one-line",
        "@misc{k, title={One} author={Ann Bee} year=2020 month=jan}",
        [BEE],
        0,
    ),
    (
        "no-comma-after-the-key",
        "@misc{k\n title = {One},\n author = {Ann Bee}, year=2020}",
        [BEE],
        0,
    ),
    ("two-commas", "@misc{k,, title = {One},,\n author = {Ann Bee},\n, year = 2020,,}", [BEE], 0),
    ("semicolon-for-comma", "@misc{k, title = {One}; author = {Ann Bee}; year = 2020}", [BEE], 0),
    ("no-key", "@misc{,\n title = {One}, author={Ann Bee}, year=2020}", [BEE], 0),
    ("no-key-nor-comma", "@misc{\n title = {One}, author={Ann Bee}, year=2020}", [BEE], 0),
    ("no-key-on-one-line", "@misc{title = {One}, author={Ann Bee}, year=2020}", [BEE], 0),
    ("key-on-its-own-line", "@misc{\n k,\n title = {One}}", [ONE], 0),
    ("key-beyond-ascii", "@misc{Müller2020, title={One}}\n@misc{深度, title={Two}}", [ONE, TWO], 0),
    ("key-with-blanks", "@misc{Bee et al. 2020, title={One}}", [ONE], 0),
    (
        "keys-of-services",
        "@misc{DBLP:conf/nips/BeeD20, title={One}}\n@misc{10.1000/x(1)2, title={Two}}",
        [ONE, TWO],
        0,
    ),
    ("key-twice", "@misc{k, title={One}}\n@misc{k, title={Two}}", [ONE, TWO], 0),
    ("field-twice", "@misc{k, title={One}, title={Two}}", [ONE], 0),
    (
        "brace-missing",
        "@misc{k,\n title = {One {Two},\n author = {Ann Bee},\n year = {2020}\n}\n"
        "@misc{l, title={Two}}",
        [{**BEE, "title": "One Two"}, TWO],
        1,
    ),
    (
        "brace-missing-at-the-end-of-a-value",
        "@misc{k,\n author = {Ann Bee},\n title = {One,\n year = 2020\n}\n\nsome words\n"
        "@misc{l, title={Two}}",
        [BEE, TWO],
        1,
    ),
    (
        "brace-too-many",
        "@misc{k,\n title = {One}},\n author = {Ann Bee},\n year = 2020\n}\n@misc{l, title={Two}}",
        [BEE, TWO],
        1,
    ),
    ("brace-after-the-entry", "@misc{k, title={One}}}\n@misc{l, title={Two}}", [ONE, TWO], 0),
    (
        "quotation-mark-missing",
        '@misc{k,\n title = "One,\n author = "Ann Bee",\n year = "2020"\n}\n@misc{l, title={Two}}',
        [BEE, TWO],
        1,
    ),
    ("entry-not-closed", "@misc{k,\n title={One},\n\n@misc{l, title={Two}}", [ONE, TWO], 1),
    ("file-cut-off", "@misc{k, title={One}}\n@misc{l, title={Tw", [ONE], 1),
    (
        "escaped-brace",
        "@misc{k, title={Half \\{ open}}\n@misc{l, title={Two}}",
        [{"title": "Half { open"}, TWO],
        0,
    ),
    (
        "backslash-before-a-brace",
        "@misc{k, title={One}, file={C\\:\\\\bee\\\\}, year=2020}\n@misc{l, title={Two}}",
        [{"title": "One", "year": 2020}, TWO],
        0,
    ),
    (
        "comments-between-fields",
        "@misc{k,\n  title = {One}, % the title, and {more\n  author = {Ann Bee},\n"
        "  % year = 1999,\n  year = 2020 % as printed\n}",
        [BEE],
        0,
    ),
    (
        "percent-signs-in-values",
        "@misc{k, title = {One},\n abstract = {50% and 20\\% of\n 100%\n words}}",
        [{"title": "One", "abstract": "50% and 20% of 100% words"}],
        0,
    ),
    (
        "strings",
        '@STRING{ieee = "IEEE"}\n@string(t = ieee # " Trans.")\n'
        "@misc{k, title={One}, journal = t # { on {A}} # { and B}}\n"
        "@misc{l, title={Two}, journal = {A} # { } # {B}}",
        [
            {"title": "One", "venue": "IEEE Trans. on A and B"},
            {"title": "Two", "venue": "A B"},
        ],
        0,
    ),
    (
        "number-signs-in-values",
        '@misc{k, title = "C# and F#", journal = {A # B}}',
        [{"title": "C# and F#", "venue": "A # B"}],
        0,
    ),
    (
        "months",
        '@misc{k, title={One}, month = jan # "~1", year=2020}\n@misc{l, title={Two}, month=12}',
        [{"title": "One", "year": 2020}, TWO],
        0,
    ),
    (
        "crossref-dblp",
        "@inproceedings{DBLP:conf/x/Bee20,\n  author = {Ann Bee},\n  title = {One},\n"
        "  crossref = {DBLP:conf/x/2020},\n}\n"
        "@proceedings{DBLP:conf/x/2020,\n  title = {Proc. of X, 2020},\n  year = {2020},\n}",
        [
            {"title": "Proc. of X, 2020", "year": 2020},
            {**BEE, "venue": "Proc. of X, 2020"},
        ],
        0,
    ),
    (
        "crossref-before-and-never",
        "@book{v, title={V}, booktitle={Vol.}, publisher={P}, year=2019}\n"
        "@incollection{a, title={One}, crossref={V}}\n"
        "@incollection{b, title={Two}, crossref={w}}",
        [
            {"title": "V", "year": 2019, "venue": "Vol."},
            {"title": "One", "year": 2019, "venue": "Vol."},
            TWO,
        ],
        0,
    ),
    ("byte-order-mark", "\ufeff@misc{k, title={One}}\n\ufeff@misc{l, title={Two}}", [ONE, TWO], 0),
    (
        "crlf",
        "@misc{k,\r\n  title = {One},\r\n  year = 2020\r\n}\r\n\r\n@misc{l,\r\n title={Two}}",
        [{"title": "One", "year": 2020}, TWO],
        0,
    ),
    ("cr", "@misc{k,\r  title = {One}\r}\r@misc{l,\r title={Two}}", [ONE, TWO], 0),
    ("one-line-file", "@misc{k, title={One}} @misc{l, title={Two}}", [ONE, TWO], 0),
    ("blanks-around-the-type", "@ misc { k , title = {One} }", [ONE], 0),
    (
        "parentheses",
        "@misc(k, title={One (and only)}, year=2020)",
        [{"title": "One (and only)", "year": 2020}],
        0,
    ),
    ("capitals", "@MISC{K, TITLE={One}, AUTHOR={Ann Bee}, YEAR={2020}}", [BEE], 0),
    ("quotes-in-quotes", '@misc{k, title="The {"}Big{"} One"}', [{"title": 'The "Big" One'}], 0),
    (
        "words-without-delimiters",
        "@misc{k, title={One}, journal=Nature Physics, year=2020}",
        [{"title": "One", "venue": "Nature Physics", "year": 2020}],
        0,
    ),
    (
        "empty-fields",
        "@misc{k, title={One}, author = , journal={}, editor={Bee, Ann}, year=2020}",
        [BEE],
        0,
    ),
    ("preamble", '@preamble{ "\\newcommand{\\noop}[1]{}" # "x" }\n@misc{k, title={One}}', [ONE], 0),
    (
        "biblatex",
        "@online{k, title={One}, subtitle={Sub}, date={2021-03/2021-05}, eprint={2101.00001},"
        " eprinttype={arxiv}, eprintclass={cs.LG}}\n"
        "@thesis{l, title={Two}, date={2020~}, institution={ETH}, type={phdthesis}}\n"
        "@article{m, title={Three}, date={2019-uu}, journaltitle={J}, shortjournal={S}}\n"
        "@software{n, title={Four}, date={2018-01-01T00:00:00Z}, version={2}}",
        [
            {"title": "One: Sub", "year": 2021, "arxiv": "2101.00001"},
            {"title": "Two", "year": 2020, "venue": "ETH"},
            {"title": "Three", "year": 2019, "venue": "J"},
            {"title": "Four", "year": 2018},
        ],
        0,
    ),
    (
        "mendeley",
        "Automatically generated by Mendeley Desktop 1.19.4\n"
        "Any changes to this file will be lost if it is regenerated by Mendeley.\n\n"
        "@article{Bee2020,\nabstract = {We do 50{\\%}.},\narchivePrefix = {arXiv},\n"
        "arxivId = {2001.00001},\nauthor = {Bee, Ann and Dee, Carl},\n"
        "eprint = {2001.00001},\nfile = {:home/bee/a.pdf:pdf},\njournal = {arXiv},\n"
        "mendeley-groups = {a,b},\ntitle = {{One {\\&} Two}},\nyear = {2020}\n}",
        [
            {
                "title": "One & Two",
                "authors": ("Ann Bee", "Carl Dee"),
                "year": 2020,
                "venue": "arXiv",
                "arxiv": "2001.00001",
                "abstract": "We do 50%.",
            }
        ],
        0,
    ),
    (
        "zotero",
        "\n@article{bee_one_2020,\n\ttitle = {One: {GPU}},\n\tvolume = {1},\n"
        "\turl = {https://doi.org/10.1000/x},\n\tdoi = {10.1000/x},\n"
        "\tauthor = {Bee, Ann and Dee, Carl},\n\tmonth = jan,\n\tyear = {2020},\n"
        "\tnote = {arXiv:2001.00001 [cs]},\n\tkeywords = {A, B},\n"
        "\tfile = {PDF:/x/a.pdf:application/pdf;Snapshot:/x/y.html:text/html},\n}\n",
        [
            {
                "title": "One: GPU",
                "authors": ("Ann Bee", "Carl Dee"),
                "year": 2020,
                "doi": "10.1000/x",
                "arxiv": "2001.00001",
            }
        ],
        0,
    ),
    (
        "jabref",
        "% Encoding: UTF-8\n\n@Article{Bee2020,\n  author        = {Ann Bee},\n"
        "  title         = {One},\n  year          = {2020},\n  __markedentry = {[bee:]},\n"
        "  comment-bee   = {see @other{x}},\n}\n\n@Comment{jabref-meta: databaseType:bibtex;}\n\n"
        "@Comment{jabref-meta: grouping:\n0 AllEntriesGroup:;\n1 StaticGroup:a\\;0\\;1\\;;\n}",
        [BEE],
        0,
    ),
    (
        "bibdesk",
        "%% Created for Ann Bee at 2020-01-01 \n\n@article{bee:20,\n\tAuthor = {Ann Bee},\n"
        "\tDate-Added = {2020-01-01 00:00:00 +0000},\n\tTitle = {One},\n\tYear = {2020},\n"
        "\tBdsk-Url-1 = {https://doi.org/10.1000/y}}\n",
        [BEE],
        0,
    ),
    (
        "markup-of-publishers",
        "@article{k, title={Growth of H<sub>2</sub>O &amp; <i>E. coli</i>}, year=2020}",
        [{"title": "Growth of H2O & E. coli", "year": 2020}],
        0,
    ),
    (
        "tildes-that-are-printed",
        "@misc{k, title={One~and \\textasciitilde{}1}, howpublished={\\url{http://x.y/~bee/a_b}}}",
        [{"title": "One and ~1", "venue": "http://x.y/~bee/a_b"}],
        0,
    ),
    (
        "blanks-after-formulas-in-braces",
        "@misc{k, title={\\textit{In} {CO$_2$} and H\\textsubscript{2}O of {\\it {$k$}}-means}}",
        [{"title": "In CO$_2$ and H2O of $k$-means"}],
        0,
    ),
    (
        "accents",
        "@article{k, title={Na{\\\"\\i}ve {B}ayes of \\v{S}}, author={Erd{\\H o}s, P\\'al and"
        " {\\L}ukasz K.}}",
        [{"title": "Naïve Bayes of Š", "authors": ("Pál Erdős", "Łukasz K.")}],
        0,
    ),
]

_HEAD = r"\documentclass{article}\title{T}\author{A. Bee}"
SECTIONS: list[tuple[str, str]] = [("One", "a"), ("Two", "b"), ("Three", "c")]
FIRST, SECOND = SECTIONS[:1], SECTIONS[:2]


def _main(body: str, preamble: str = "") -> str:
    return f"{_HEAD}{preamble}\n\\begin{{document}}\n\\maketitle\n{body}\n\\end{{document}}\n"


_SUBFILE = (
    "\\documentclass[../main.tex]{subfiles}\n\\begin{document}\n"
    "\\section{Two}b\n\\end{document}\nwords after it"
)
_STARTS = r"{\@startsection {section}{1}{\z@}{-2ex plus -1ex}{1ex}{\large\bf}}"

# Name, the files, the sections, how many inputs are said to be missing.
LATEX: list[tuple[str, dict[str, str], list[tuple[str, str]], int]] = [
    (
        "subfile",
        {
            "main.tex": _main("\\section{One}a\\subfile{sec/two}\\section{Three}c"),
            "sec/two.tex": _SUBFILE,
        },
        SECTIONS,
        0,
    ),
    (
        "subfileinclude",
        {
            "main.tex": _main("\\section{One}a\\subfileinclude{sec/two}\\section{Three}c"),
            "sec/two.tex": _SUBFILE,
        },
        SECTIONS,
        0,
    ),
    (
        "subfile-that-inputs",
        {
            "main.tex": _main("\\section{One}a\\subfile{sec/two}\\section{Three}c"),
            "sec/two.tex": _SUBFILE.replace("b\n", "\\input{\\subfix{more}}"),
            "sec/more.tex": "b",
        },
        SECTIONS,
        0,
    ),
    (
        "subfiles-below-one",
        {
            "main.tex": _main("\\section{One}a\\subfile{sec/two}\\section{Three}c"),
            "sec/two.tex": _SUBFILE.replace("b\n", "\\subfile{deep/more}"),
            "sec/deep/more.tex": _SUBFILE.replace("\\section{Two}b", "b"),
        },
        SECTIONS,
        0,
    ),
    (
        "standalone",
        {
            "main.tex": _main("\\section{One}a\\input{two}\\section{Three}c"),
            "two.tex": "\\documentclass{standalone}\n\\newcommand{\\x}{b}\n\\usepackage{tikz}\n"
            "\\begin{document}\\section{Two}\\x\\end{document}",
        },
        SECTIONS,
        0,
    ),
    (
        "document-in-verbatim",
        {
            "main.tex": _main("\\input{one}"),
            "one.tex": "\\section{One}a\\begin{verbatim}\n\\documentclass{x}\n\\begin{document}\n"
            "no\\end{document}\n\\end{verbatim}",
        },
        FIRST,
        0,
    ),
    (
        "head-and-end-in-files",
        {
            "main.tex": "\\input{head}\\section{One}a\\input{end}",
            "head.tex": _HEAD + "\\begin{document}",
            "end.tex": "\\end{document}",
        },
        FIRST,
        0,
    ),
    (
        "begin-with-a-blank",
        {"main.tex": _HEAD + "\\begin {document}\\section{One}a\\end {document} no"},
        FIRST,
        0,
    ),
    (
        "renewcommand-section",
        {"main.tex": _main("\\section{One}a", rf"\makeatletter\renewcommand\section{_STARTS}")},
        FIRST,
        0,
    ),
    (
        "renewcommand-section-in-braces",
        {
            "main.tex": _main(
                "\\section{One}a",
                r"\let\old\section\renewcommand{\section}[1]{\old{#1}\vspace{1ex}}",
            )
        },
        FIRST,
        0,
    ),
    ("def-section", {"main.tex": _main("\\section{One}a", rf"\def\section{_STARTS}")}, FIRST, 0),
    (
        "renewcommand-subsection-and-title",
        {
            "main.tex": _main(
                "\\section{One}a\\subsection{Two}b",
                rf"\renewcommand*{{\subsection}}{_STARTS}\renewcommand{{\maketitle}}{{no}}",
            )
        },
        SECOND,
        0,
    ),
    (
        "own-startsection",
        {"main.tex": _main("\\sect{One}a", rf"\newcommand{{\sect}}{_STARTS}")},
        FIRST,
        0,
    ),
    ("let-section", {"main.tex": _main("\\sect{One}a", r"\let\sect=\section")}, FIRST, 0),
    (
        "own-section",
        {"main.tex": _main("\\sect{One}a", r"\newcommand{\sect}[1]{\vspace{1ex}\section{#1}}")},
        FIRST,
        0,
    ),
    (
        "own-sections-by-xparse",
        {
            "main.tex": _main(
                "\\sect{One}a\\div*{Two}\\m{b}{}\\sub[no]{Three}\\x c",
                r"\NewDocumentCommand{\sect}{m}{\section{#1}}\NewDocumentCommand\x{}{}"
                r"\DeclareDocumentCommand\div{s O{} +m}"
                r"{\IfBooleanTF{#1}{\section*{#3}}{\section{#3}}}"
                r"\NewDocumentCommand{\m}{mm}{#1#2}\NewDocumentCommand{\sub}{om}{\section{#2}}",
            )
        },
        SECTIONS,
        0,
    ),
    (
        "titlesec",
        {"main.tex": _main("\\section{One}a", r"\titleformat{\section}{\bf}{\thesection}{1em}{}")},
        FIRST,
        0,
    ),
    (
        "raised-heading",
        {"main.tex": _main("\\IEEEraisesectionheading{\\section{One}\\label{s}}\na")},
        FIRST,
        0,
    ),
    ("koma", {"main.tex": _main("\\addchap{One}a\\addsec{Two}b\\section*{Three}c")}, SECTIONS, 0),
    (
        "texorpdfstring",
        {"main.tex": _main("\\section{The \\texorpdfstring{$\\alpha$}{alpha} way}a")},
        [("The $\\alpha$ way", "a")],
        0,
    ),
    (
        "headings-over-lines",
        {"main.tex": _main("\\section[S]{One}a\\section\n{Two}b\\section %\n  {Three}c")},
        SECTIONS,
        0,
    ),
    (
        "macro-in-a-path",
        {
            "main.tex": _main("\\input{\\dir/one}\\input{\\dir /two}", r"\newcommand{\dir}{sec}"),
            "sec/one.tex": "\\section{One}a",
            "sec/two.tex": "\\section{Two}b",
        },
        SECOND,
        0,
    ),
    (
        "macro-with-a-slash",
        {
            "main.tex": _main("\\input{\\dir one}\\include{\\dir{}two}", r"\def\dir{sec/}"),
            "sec/one.tex": "\\section{One}a",
            "sec/two.tex": "\\section{Two}b",
        },
        SECOND,
        0,
    ),
    (
        "macro-defined-in-an-input",
        {
            "main.tex": _main("\\input{\\dir/one}", "\\input{paths}"),
            "paths.tex": r"\newcommand{\dir}{sec}",
            "sec/one.tex": "\\section{One}a",
        },
        FIRST,
        0,
    ),
    (
        "root-of-a-project",
        {
            "main.tex": _main("\\input{\\main/sec/one}", r"\providecommand{\main}{.}"),
            "sec/one.tex": "\\providecommand{\\main}{..}\\section{One}a",
        },
        FIRST,
        0,
    ),
    (
        "folder-of-the-file",
        {
            "main.tex": _main("\\input{sec/one}"),
            "sec/one.tex": "\\section{One}\\input{\\currfiledir more}",
            "sec/more.tex": "a",
        },
        FIRST,
        0,
    ),
    (
        "macro-that-inputs",
        {
            "main.tex": _main("\\sect{one}", r"\newcommand{\sect}[1]{\input{sec/#1}}"),
            "sec/one.tex": "\\section{One}a",
        },
        FIRST,
        0,
    ),
    (
        "input-path",
        {
            "main.tex": _main(
                "\\input{one}\\input{two}",
                r"\makeatletter\def\input@path{{sec/}{more/}}\makeatother",
            ),
            "sec/one.tex": "\\section{One}a",
            "more/two.tex": "\\section{Two}b",
        },
        SECOND,
        0,
    ),
    (
        "input-path-that-is-provided",
        {
            "main.tex": _main(
                "\\input{one}",
                "\\makeatletter\n\\providecommand*{\\input@path}{}\n"
                "\\edef\\input@path{{./sec/}\\input@path}\n\\makeatother",
            ),
            "sec/one.tex": "\\section{One}a",
        },
        FIRST,
        0,
    ),
    (
        "input-path-that-is-added-to",
        {
            "main.tex": _main(
                "\\input{one}",
                "\\makeatletter\n\\providecommand*\\input@path{}\n"
                "\\g@addto@macro\\input@path{{sec/}}\n\\makeatother",
            ),
            "sec/one.tex": "\\section{One}a",
        },
        FIRST,
        0,
    ),
    (
        "added-to-what-latex-defines",
        {
            "main.tex": _main(
                "\\input{sec/one}",
                "\\makeatletter\\g@addto@macro\\normalsize{\\setlength\\abovedisplayskip{3pt}}"
                "\\g@addto@macro\\bfseries{Bold}\\appto{\\appendix}{Chapter}\\makeatother",
            ),
            "sec/one.tex": "\\section{One}\\normalsize a\\bfseries\\appendix",
        },
        FIRST,
        0,
    ),
    (
        "input-path-that-another-file-adds-to",
        {
            "main.tex": _main("\\input{one}\\input{two}", r"\def\input@path{{sec/}}\input{setup}"),
            "setup.tex": "\\providecommand*\\input@path{}\\appto\\input@path{{more/}}",
            "sec/one.tex": "\\section{One}a",
            "more/two.tex": "\\section{Two}b",
        },
        SECOND,
        0,
    ),
    (
        "import",
        {
            "main.tex": _main("\\import{sec/}{one}\\subimport{sec}{two.tex}"),
            "sec/one.tex": "\\section{One}\\input{more}",
            "sec/more.tex": "a",
            "sec/two.tex": "\\section{Two}\\subimport{deep/}{three}",
            "sec/deep/three.tex": "\\input{four}",
            "sec/deep/four.tex": "b",
        },
        SECOND,
        0,
    ),
    (
        "import-from-the-root",
        {
            "main.tex": _main("\\import{sec/}{one}"),
            "sec/one.tex": "\\section{One}a\\import{more/}{two}",
            "more/two.tex": "\\section{Two}b",
        },
        SECOND,
        0,
    ),
    (
        "inputfrom",
        {
            "main.tex": _main("\\inputfrom{sec/}{one}\\subincludefrom{sec/}{two}"),
            "sec/one.tex": "\\section{One}a",
            "sec/two.tex": "\\section{Two}b",
        },
        SECOND,
        0,
    ),
    (
        "import-with-a-macro",
        {
            "main.tex": _main("\\import{\\dir/}{one}", r"\newcommand\dir{sec}"),
            "sec/one.tex": "\\section{One}a",
        },
        FIRST,
        0,
    ),
    (
        "include",
        {
            "main.tex": _main("\\include{ch1}\\include{ch2.tex}", "\\includeonly{ch1,ch2}"),
            "ch1.tex": "\\chapter{One}a",
            "ch2.tex": "\\chapter{Two}b",
        },
        SECOND,
        0,
    ),
    (
        "input-without-braces",
        {
            "main.tex": _main(
                "\\input one\n\\input two.tex\n\\input\\dir/three\n", r"\def\dir{sec}"
            ),
            "one.tex": "\\section{One}a",
            "two.tex": "\\section{Two}b",
            "sec/three.tex": "\\section{Three}c",
        },
        SECTIONS,
        0,
    ),
    (
        "names-with-blanks-and-quotes",
        {
            "main.tex": _main('\\input{"my one"}\\input{my two}\\input{ ./three.tex }'),
            "my one.tex": "\\section{One}a",
            "my two.tex": "\\section{Two}b",
            "three.tex": "\\section{Three}c",
        },
        SECTIONS,
        0,
    ),
    (
        "if-a-file-exists",
        {
            "main.tex": _main(
                "\\InputIfFileExists{one}{}{no}\\IfFileExists{two}{\\input{two}}{}"
                "\\InputIfFileExists{three}{}{}"
            ),
            "one.tex": "\\section{One}a",
            "two.tex": "\\section{Two}b",
        },
        SECOND,
        1,
    ),
    (
        "beside-the-file-that-asks",
        {
            "main.tex": _main("\\input{sec/one}"),
            "sec/one.tex": "\\section{One}a\\input{two}",
            "sec/two.tex": "\\section{Two}b",
        },
        SECOND,
        0,
    ),
    (
        "endinput",
        {
            "main.tex": _main("\\input{one}\\section{Two}b"),
            "one.tex": "\\section{One}a\\endinput\\section{No}",
        },
        SECOND,
        0,
    ),
    (
        "iffalse",
        {
            "main.tex": _main(
                "\\section{One}a\\iffalse\\section{No}\\ifx\\x\\y no\\else no\\fi $x \\iff y$"
                " no\\fi"
                "\\iffalse no\\else\\section{Two}b\\fi"
            )
        },
        SECOND,
        0,
    ),
    (
        "switches",
        {
            "main.tex": _main(
                "\\section{One}\\iflong no\\ifx\\x\\y no\\fi\\else a\\fi\\input{two}"
                "\\ifboth\\section{Three}\\else c\\fi",
                "\\newif\\iflong \\longfalse\\newif\\ifarxiv\n\\arxivtrue\\let\\ifno\\iffalse"
                "\\newif\\ifboth\\bothtrue\\bothfalse",
            ),
            "two.tex": "\\section{Two}\\ifarxiv b\\else\\section{No}\\fi\\ifno no\\fi"
            "\\iftrue\\else no\\fi",
        },
        SECTIONS,
        0,
    ),
    (
        "switches-that-may-be-set-both-ways",
        {
            "main.tex": _main(
                "\\ifanon\\else\\section{One}a\\fi\\iflong\\else\\section{Two}\\fi"
                "\\ifextra\\else b\\fi\\extratrue\\ifno\\else\\section{Three}c\\fi",
                "\\newif\\ifanon\\newcommand{\\hide}{\\anontrue}\\newif\\ifextra"
                "\\newif\\iflong\\ifx\\x\\y\\longtrue\\fi"
                "\\let\\ifno\\iffalse\\ifx\\x\\y\\let\\ifno\\iftrue\\fi",
            )
        },
        SECTIONS,
        0,
    ),
    (
        "comments",
        {
            "main.tex": _main(
                "\\section{One}a% \\section{No}\n\\begin{comment}\\section{No}\\end{comment}"
                "% \\input{no}\n"
            )
        },
        FIRST,
        0,
    ),
    (
        "percent-signs-that-begin-no-comment",
        {
            "main.tex": _main(
                "\\section{One}a\\footnote{\\url{http://x.y/a%20b}} b"
                "\\href{http://x.y/%7Ec}{ c}\\verb+%d+ d 5\\% e\\\\% no\n"
                "{\\lstinline}% {no}\n% \\url{no}\n"
            )
        },
        [("One", "a http://x.y/a%20b b c +%d+ d 5% e")],
        0,
    ),
    (
        "byte-order-marks-and-crlf",
        {
            "main.tex": "\ufeff" + _main("\\section{One}\r\na\r\n\\input{two}\r\n"),
            "two.tex": "\ufeff\\section{Two}\r\nb\r\n",
        },
        SECOND,
        0,
    ),
    (
        "arguments-that-are-no-text",
        {
            "main.tex": _main(
                "\\section{One}\\addcontentsline{toc}{section}{No}\\markboth{no}{no}"
                "\\setlength{\\parindent}{0pt}\\textcolor{red}{a} {\\color[rgb]{1,0,0}b}"
                " \\href{http://x.y/no}{c}\\fontsize{9}{10}\\selectfont"
                "\\section{\\textcolor[gray]{0.5}{Two}}\\resizebox{\\linewidth}{!}{d}"
            )
        },
        [("One", "a b c"), ("Two", "d")],
        0,
    ),
    (
        "options-between-arguments",
        {
            "main.tex": _main(
                "\\section{One}\\parbox[t][2cm][c]{4cm}{a} \\raisebox{1ex}[0pt][0pt]{b}"
                " \\resizebox*{1cm}{!}{c} \\scalebox{0.5}[1]{d} {\\color{red}} [e]"
            )
        },
        [("One", "a b c d [e]")],
        0,
    ),
    (
        "environments-with-arguments",
        {
            "main.tex": _main(
                "\\section{One}\\begin{multicols}{2}a\\end{multicols}"
                "\\begin{minipage}[t]{0.5\\linewidth}{\\bf b}\\end{minipage}"
                "\\begin{adjustwidth}{1cm}{2cm}c\\end{adjustwidth}"
                "\\begin{longtable}{ll}no&no\\end{longtable}"
                "\\begin{tabularx}{\\linewidth}{lX}no\\end{tabularx}"
            )
        },
        [("One", "a\n\nb\n\nc")],
        0,
    ),
    (
        "citations",
        {
            "main.tex": _main(
                "\\section{One}\\citet{a} \\parencite[see {\\em x}][1]{b,c} \\Textcite{d}"
                " \\autocite{e} \\footcite{f} \\cites[1]{g}[2]{h} \\parencites{i}{j}"
                " \\citeauthor*{k} \\supercite{l}{\\bf m}\\nocite{n}"
            )
        },
        [("One", "[a] [b,c] [d] [e] [f] [g,h] [i,j] [k] [l]m")],
        0,
    ),
    (
        "formulas-of-ieee",
        {
            "main.tex": _main(
                "\\section{One}a\\begin{IEEEeqnarray}{rCl}x&=&1\\label{e}\\end{IEEEeqnarray}b"
            )
        },
        [("One", "a $$x&=&1$$ b")],
        0,
    ),
    (
        "input-that-is-not-there",
        {"main.tex": _main("\\section{One}a\\input{no}\\input{\\unknown/no}\\input{../no}")},
        FIRST,
        3,
    ),
]


def _bibtex(source: str) -> tuple[list[Fields], int]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "refs.bib"
        path.write_bytes(source.encode())
        items = list(bibtex.read(path, "refs.bib"))
    damaged = sum(isinstance(i, Trouble) and i.reason.startswith("damaged") for i in items)
    return [_fields(item) for item in items if isinstance(item, Paper)], damaged


def _fields(paper: Paper) -> Fields:
    found: Fields = {
        "title": paper.title,
        "authors": paper.authors,
        "year": paper.year,
        "venue": paper.venue,
        "doi": paper.doi,
        "arxiv": paper.arxiv_id,
        "abstract": paper.abstract,
    }
    return {name: value for name, value in found.items() if value}


def _latex(files: Mapping[str, str]) -> tuple[list[tuple[str, str]], int]:
    with tempfile.TemporaryDirectory() as folder:
        for name, source in files.items():
            path = Path(folder) / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(source.encode())
        items = list(document.read(Path(folder) / "main.tex", "main.tex"))
    (paper,) = [item for item in items if isinstance(item, Paper)]
    return [(s.heading, s.text) for s in paper.sections], len(items) - 1


def cases() -> Iterator[Case]:
    """Yield the BibTeX files, then the LaTeX projects."""
    for name, source, papers, damaged in BIBTEX:
        yield Case(f"bibtex-{name}", (papers, damaged), partial(_bibtex, source), "BibTeX")
    for name, files, sections, missing in LATEX:
        yield Case(f"latex-{name}", (sections, missing), partial(_latex, files), "LaTeX")
