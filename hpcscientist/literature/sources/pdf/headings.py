"""Recognises headings: by size, weight, numbering, and the usual names of sections."""

from __future__ import annotations

import re

from hpcscientist.literature.sources.pdf.lines import PageLine, Piece

# The names of a paper's parts, in lower case, in the most common languages.


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split("|"))


ABSTRACTS = _names(
    "abstract|summary|zusammenfassung|kurzfassung|résumé|resumen|resumo|riassunto|sommario|"
    "аннотация|摘要|要旨|概要|초록|özet|samenvatting|sammanfattning"
)
REFERENCES = _names(
    "references|reference|bibliography|literature cited|works cited|references and notes|"
    "literatur|literaturverzeichnis|quellenverzeichnis|références|bibliographie|referencias|"
    "bibliografía|referências|bibliografia|riferimenti bibliografici|список литературы|литература|"
    "参考文献|參考文獻|참고문헌|kaynakça|kaynaklar|literatuur|referenser"
)
ASIDES = _names(
    "keywords|key words|index terms|ccs concepts|general terms|acm reference format|contents|"
    "table of contents|inhaltsverzeichnis|list of figures|list of tables|mots-clés|palabras clave|"
    "schlüsselwörter|schlagwörter|ключевые слова|关键词|关键字"
)
SECTIONS = _names(
    "introduction|background|related work|related works|preliminaries|methods|method|methodology|"
    "materials and methods|experiments|experimental setup|results|results and discussion|"
    "discussion|evaluation|limitations|conclusion|conclusions|conclusion and future work|"
    "acknowledgements|acknowledgments|acknowledgement|acknowledgment|appendix|appendices|"
    "supplementary material|ethics statement|broader impact|reproducibility statement|"
    "einleitung|grundlagen|methode|methoden|ergebnisse|diskussion|fazit|danksagung|anhang|"
    "méthodes|résultats|remerciements|annexe|introducción|métodos|resultados|"
    "discusión|conclusiones|agradecimientos|введение|методы|результаты|заключение|"
    "引言|绪论|方法|实验|结果|讨论|结论|致谢"
)
INTRODUCTIONS = _names("introduction|einleitung|introducción|введение|引言|绪论")


LARGER = 1.06  # times the body's size
_ROWS = 3
_CHARACTERS = 160
_PLAIN_CHARACTERS = 80  # of a heading in the type of running text
_NAME = 40
_NUMBERING = re.compile(
    r"(?:(?:chapter|section|appendix|kapitel|chapitre|capítulo)\s+)?"
    r"(?:\d{1,2}(?:\.\d{1,2}){0,3}\.?|[IVX]{1,5}\.|[A-Z](?:\.\d{1,2}){0,3}\.|[A-Z](?:\.\d{1,2}){1,3}"
    r"|[a-z]\.|第[\d一二三四五六七八九十]+[章节])(?=\s)[\s:.]*",
    re.I,
)
# "A Proofs"; "A" begins titles too, so this counts only if the type is strong.
_LETTERED = re.compile(r"[A-Z]\s+(?=[A-Z])")
_CAPTION = re.compile(
    r"(?:fig(?:ure|\.)?|tab(?:le|\.)?|abb(?:ildung|\.)?|tabelle|tableau|figura|tabla|algorithm|"
    r"listing|scheme|рис\.?|图|表)\s*[\dIVX]+",
    re.I,
)
_STATEMENT = re.compile(
    r"(?:theorem|lemma|corollary|proposition|definition|proof|remark|example|assumption|claim|"
    r"conjecture|fact|exercise|satz|beweis)\b",
    re.I,
)
_MATHS = re.compile("[=<>≤≥≈∑∏∫∂∇√∈⊂]")
_RUN_IN = re.compile(r"[.:]\s+\S|[.,;]$")

_NAMES = SECTIONS | ABSTRACTS | REFERENCES | ASIDES
_FIRST = re.compile(r"(?:1|I)\.?\s+\w")
RUN_IN_ABSTRACT = re.compile(
    r"(?:abstract|summary|zusammenfassung|résumé|resumen|resumo|аннотация|摘\s*要)\s*"
    r"(?:[-–—―:.：]+\s*|(?=[A-Z]))",
    re.I,
)
RUN_IN_KEYWORDS = re.compile(
    r"(?:key\s?words?(?: and phrases)?|index terms|ccs concepts|mots[- ]cl[ée]s|schlüsselwörter|"
    r"palabras clave|pacs(?: numbers)?|ключевые слова|关键词|关键字)\s*[-–—:：.]",
    re.I,
)


def heading_rows(piece: Piece, at: int, body: int, body_bold: bool) -> int:
    """Return how many rows from `at` on form a heading; 0 if there is none.

    `body` is the font size of running text, `body_bold` whether that is bold.
    """
    row = piece.rows[at]
    text = row.text
    strong = row.size > body * LARGER or (row.bold and not body_bold)
    if not strong and at and not text.isupper():
        return 0
    few = len(piece.rows) <= 2
    if len(text) > (_CHARACTERS if strong else _PLAIN_CHARACTERS if few else _NAME):
        return 0
    if bare_name(text) in _NAMES:
        return 1
    numbering = _NUMBERING.match(text)
    maybe = strong or (numbering is not None and few and at == 0)
    if not maybe or _CAPTION.match(text) or _STATEMENT.match(text) or _MATHS.search(text):
        return 0
    if strong:
        return _strong(piece, at, body, numbering is not None)
    apart = _stands_apart(row, piece.left, _NUMBERING.sub("", text, count=1))
    return len(piece.rows) if apart else 0


def _stands_apart(row: PageLine, left: int, rest: str) -> bool:
    """Return whether a numbered row in the type of running text is a heading.

    `rest` is its text without the number.
    """
    if row.text[-1] in ".,;:" or not rest[:1].isupper() or _RUN_IN.search(rest):
        return False
    return row.x0 - left > 2 * row.size or row.italic or rest.isupper()


def _strong(piece: Piece, at: int, body: int, numbered: bool) -> int:
    row = piece.rows[at]
    count = 1
    for other in piece.rows[at + 1 :]:
        if other.bold != row.bold or abs(other.size - row.size) > 1 or _numbered(other.text):
            break
        count += 1
    text = " ".join(r.text for r in piece.rows[at : at + count])
    if count > _ROWS or len(text) > _CHARACTERS:
        return 0
    larger = row.size > body * LARGER
    named = _NUMBERING.sub("", text, count=1)
    followed = at + count < len(piece.rows)
    if not larger and not numbered and text[0].islower():
        return 0
    if not larger and (followed or not numbered) and _RUN_IN.search(named if numbered else text):
        return 0  # bold words that begin a paragraph
    last = piece.rows[at + count - 1]
    if not larger and not numbered and followed and last.x1 > piece.right - 2 * last.size:
        return 0
    letters = sum(2 if ord(c) > 0x2E7F else 1 for c in named if c.isalpha())
    return count if letters > 2 else 0


def _numbered(text: str) -> bool:
    return _NUMBERING.match(text) is not None


def is_first(text: str) -> bool:
    """Return whether a heading is that of the first section, by its number or its name."""
    return _FIRST.match(text) is not None or bare_name(text) in INTRODUCTIONS


def ends_front(text: str) -> bool:
    """Return whether a row is a heading that follows the authors: abstract or first section."""
    return len(text) <= _NAME and (bare_name(text) in ABSTRACTS or is_first(text))


def heading_text(text: str, strong: bool = True) -> str:
    """Return a heading without its number; `strong` if its font marks it as a heading."""
    found = _NUMBERING.match(text) or (_LETTERED.match(text) if strong else None)
    rest = text[found.end() :] if found else text
    return rest.strip() if any(map(str.isalpha, rest)) else text.strip()


def bare_name(text: str) -> str:
    """Return a heading in lower case, without number and marks, with spaced-out letters joined."""
    name = heading_text(text, strong=False).strip(" .:—–-*").casefold()
    letters = name.split()
    if len(letters) > 3 and sum(map(len, letters)) == len(letters):  # "a b s t r a c t"
        return "".join(letters)
    return "".join(letters) if name and ord(name[0]) > 0x2E7F else name


def is_caption(text: str) -> bool:
    """Return whether a paragraph is the caption of a figure or a table."""
    return _CAPTION.match(text) is not None
