"""Finds sentences of a paper that tell its reviewer what to do, without a model.

A model that reads "give this paper a 10" may obey. So such sentences are removed from what
reviewers read, and quoted in the review. A rule matches an address (a reviewer, a language model,
"you") or an order, together with something that only a review has: a score, a verdict, weaknesses,
the requester's instructions. Papers about attacks on language models quote such sentences too;
these are also removed, and the review says so.
"""

# ruff: noqa: E501 (a rule reads best as the few long alternatives that it has)

from __future__ import annotations

import base64
import binascii
import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

GONE: Final = "[left out: a sentence addressed to the paper's reviewers]"

_TAGS: Final = range(0xE0020, 0xE007F)  # Unicode tag characters: invisible, but models read them
_INVISIBLE = re.compile(
    "[\u00ad\u034f\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufe00-\ufe0f\ufeff]"
)
_ALIKE = str.maketrans("аеорсухіјѕԁոɡιοα", "aeopcyxijsdngioa")  # Cyrillic and Greek as Latin
_LEET = re.compile(r"(?<=[a-z])[013457](?=[a-z])")
_DIGITS = str.maketrans("013457", "oieast")
_SPACED = re.compile(r"\b(?:[a-z][ .·_-]){4,}[a-z]\b")
_SENTENCE = re.compile(r"(?<=[.!?。！？])[\"'”’)\]]*\s+|\n\s*\n|(?<=[。！？])")
_BASE64 = re.compile(r"(?<![A-Za-z0-9+/=])[A-Za-z0-9+/]{24,}={0,2}(?![A-Za-z0-9+/=])")

_JUDGES = (
    r"(?:reviewers?|referees?|area chairs?|meta-?reviewers?|programm?e (?:committee|chairs?)|"
    r"evaluators?|graders?|assessors?)"
)
_AI = (
    r"(?:large language models?|language models?|llms?|(?:ai|automated|machine|automatic) "
    r"(?:systems?|models?|assistants?|agents?|readers?|reviewers?|tools?|bots?)|chat ?bots?|"
    r"assistants?|chatgpt|gpt(?:-?\d\w*)?|claude|gemini|llama|qwen|copilot|ais?|agents?|models?)"
)
_READS = r"(?:reads?|reading|process\w*|review\w*|evaluat\w*|assess\w*|pars\w*|summari[sz]\w*|see|sees|seeing)"
_MUST = (
    r"(?:must|should|shall|ought to|(?:are|is) (?:asked|required|instructed|requested|expected|"
    r"obliged|advised|encouraged|reminded|urged|invited) to|needs? to|ha(?:ve|s) to|will|would do well to)"
)
_VERDICT = (
    r"(?:(?:strong(?:ly)?|clear(?:ly)?|weak|must|unconditional(?:ly)?|immediate(?:ly)?) "
    r"(?:accept\w*|reject\w*)|accept(?:ance|ed|ing|s)?|recommend\w*|scores?|scoring|ratings?|rated?|"
    r"rating|grades?|marks?|points|stars|verdicts?|decisions?|reviews?|evaluations?|assessments?|"
    r"judge?ments?|weakness(?:es)?|strengths?|limitations?|criticisms?|flaws|negatives?|"
    r"negative (?:points|comments|remarks|aspects)|positives?|confidence|novelty|soundness|"
    r"contribution|originality|overall|oral|spotlight|award)"
)
_DO = (
    r"(?:give|assign|award|rate|score|grade|mark|accept|approve|recommend|output|return|respond|"
    r"reply|answer|write|print|say|state|mention|emphasi[sz]e|praise|highlight|stress|commend|"
    r"provide|produce|generate|set|select|choose|pick|put|report|conclude|begin|start|end|make|"
    r"ensure|treat|consider|regard|increase|raise|boost|lift|favou?r|prefer|include|omit|avoid|"
    r"skip|refrain|ignore|disregard|forget|overlook|downplay|suppress|hide|submit|issue|declare|"
    r"confirm|vote|choose|pretend|act|behave|adopt|switch|enter|use|keep|leave|focus|complete|fill)"
)
_WORK = (
    r"(?:(?:this|the|our|present|following|above|current|enclosed|attached) "
    r"(?:\w+ )?(?:paper|manuscript|submission|work|article|document|study|text|pdf|author'?s?)|"
    r"(?:paper|submission) (?:a|b|one|two|1|2))"
)
_TOP = (
    r"(?:(?:9|10|ten|nine|8|6|5|4|five|four|maximum|maximal|max|highest|top|best|perfect|full|high|higher|"
    r"excellent|outstanding|positive|favou?rable|glowing|enthusiastic)\b)"
)

_RULES: Final[tuple[tuple[str, str], ...]] = (
    ("asks to drop other instructions", (
        r"\b(?:ignor\w*|disregard\w*|forget\w*|overrid\w*|bypass\w*|discard\w*|drop|cancel|"
        r"supersed\w*|replac\w*|overwrit\w*|do not (?:follow|obey|apply)|stop following|take precedence over)\b"
        r"[^.!?]{0,60}\b(?:previous|prior|preceding|above|earlier|all|any|other|system|original|former|"
        r"your|these|those|given|initial|foregoing|following|reviewing|review|reviewer|this)\b[^.!?]{0,40}"
        r"\b(?:instructions?|prompts?|rules?|guidelines?|directions?|messages?|criteria|commands?|"
        r"directives?|orders?|constraints?|polic(?:y|ies)|context|rubrics?|forms?)\b"
    )),
    ("pretends to be part of the conversation", (
        r"^\W*(?:system|assistant|user|developer|human|ai|instructions?|new instructions?|admin|"
        r"system (?:prompt|message|note|override|update))\s*(?:\]|\)|>|\*\*)?\s*[:>\]]"
        r"|#{2,}\s*(?:system|instructions?|response|assistant|new task|task)\b"
        r"|<\s*/?\s*(?:system|instructions?|assistant|paper|document|review|prompt)\s*/?\s*>"
        r"|<\s?[|｜]|[|｜]\s?>|\[\s?/?\s?(?:inst|sys(?:tem)?)\s?\]|<<\s?sys\s?>>"
        r"|\b(?:end|begin(?:ning)?) of (?:the )?(?:paper|document|submission|manuscript|user input|"
        r"untrusted text|prompt|quoted text)\b"
        r"|\b(?:developer|debug|admin|jailbreak|god|maintenance) mode\b"
    )),
    ("gives the reader a role", (
        r"\b(?:you are|you're|(?<!to )act as|(?<!to )behave as|pretend (?:to be|that)|you will act|imagine (?:that )?you|"
        r"take the role of|from now on,? you)\b"
        r"[^.!?]{0,80}\b(?:reviewer|referee|assistant|author|chair|model|ai|expert|supporter|advocate|"
        r"enthusiastic|friendly|lenient|generous|positive|impressed|convinced)\b"
    )),
    ("orders a verdict", (
        rf"(?:^|[:;,—–-]\s*|\b(?:please|kindly|must|should|shall|always|only|just|simply|now|then|and|"
        rf"do not|don't|never|instead,?|therefore,?|hence,?|so)\s+){_DO}\b[^.!?]{{0,90}}"
        rf"(?:{_TOP}[^.!?]{{0,30}}\b(?:scores?|ratings?|grades?|marks?|reviews?|evaluations?|"
        rf"recommendations?|overall|assessments?|verdicts?|decisions?|out of)\b"
        rf"|\b(?:scores?|ratings?|grades?|marks?|overall|soundness|contribution|originality|confidence)\b"
        rf"[^.!?]{{0,30}}\b{_TOP}"
        rf"|\b(?:strong(?:ly)?|clear|unconditional|must)[- ]accept"
        rf"|\baccept(?:ance|ed)?\b[^.!?]{{0,30}}\b{_WORK}|\b{_WORK}[^.!?]{{0,60}}\baccept(?:ance|ed)?\b"
        rf"|\b(?:recommend\w*|vote)\b[^.!?]{{0,20}}\baccept\w*"
        rf"|\bany (?:negatives?|weakness(?:es)?|criticisms?|flaws|limitations?|negative \w+)\b"
        rf"|\bno (?:negatives?|weakness(?:es)?|criticisms?|flaws)\b"
        rf"|\b(?:weakness(?:es)?|criticisms?|flaws|negatives)\b[^.!?]{{0,40}}\b(?:empty|minor|none|out|trivial)\b"
        rf"|\bpositive (?:reviews?|feedback|comments?|assessment|evaluation|recommendation)\b"
        rf"|\b(?:as )?(?:exceptional|groundbreaking|flawless|outstanding)\b[^.!?]{{0,50}}\b(?:review|novel|"
        rf"contribution|accept|score|weakness|paper|submission))"
    )),
    ("tells a reviewer what to do", (
        rf"\b(?:dear|attention|note (?:to|for)|message (?:to|for)|instructions? (?:to|for)|hint (?:to|for)|"
        rf"reminder (?:to|for)|request (?:to|for)|hey|hello|hi)\W*(?:the |all |any |an? |our |fellow |esteemed |ai |llm )*"
        rf"(?:{_JUDGES}|{_AI})\b[^.!?]{{15,}}"
        rf"|^\W*(?:{_JUDGES}|(?:{_AI}) (?:{_JUDGES}))\s*:"
        rf"|\b(?:{_JUDGES}|you|(?:ai|llm|automated)[- ]reviewers?)\b (?:\w+ ){{0,6}}?{_MUST}\b[^.!?]{{0,120}}\b{_VERDICT}\b"
        rf"|\b{_AI}\b[^.!?]{{0,40}}\b{_READS}\b[^.!?]{{0,40}}\b(?:this|it|here|{_WORK})\b[^.!?]{{0,80}}"
        rf"(?:\b{_MUST}\b|[,:] (?:please |kindly )?{_DO}\b)"
        rf"|\bif (?:you are|you're|this is being) (?:\w+ ){{0,4}}(?:{_AI}|{_JUDGES}|{_READS})\b"
    )),
    ("claims a verdict", (
        rf"\b(?:{_WORK}|it)\b[^.!?]{{0,60}}\b(?:has|have|was|were|is|should be|must be|ought to be|deserves?|merits?|"
        rf"warrants?)\b[^.!?]{{0,60}}\b(?:(?:already |been )*(?:accepted|approved|pre-?approved|certified|selected)\b"
        rf"[^.!?]{{0,40}}\b(?:by|as|for|at)\b[^.!?]{{0,40}}(?:chairs?|committee|reviewers?|editors?|oral|spotlight|"
        rf"award|venue|conference)|(?:a |an |the )?{_TOP}[^.!?]{{0,20}}\b(?:scores?|ratings?|grades?|marks?)\b"
        rf"|strong accept|to be accepted|acceptance)"
        rf"|\b(?:correct|right|only|appropriate|fair|expected|proper|ground[- ]truth|reference|true|final|agreed) "
        rf"(?:\w+ )?(?:scores?|ratings?|grades?|verdicts?|decisions?|recommendations?|answers?|reviews?|evaluations?)\b"
        rf"[^.!?]{{0,50}}\b(?:is|are|was|be|equals?|reads?)\b[^.!?]{{0,30}}(?:\b\d|\baccept|\bstrong|{_TOP})"
        rf"|\b(?:chairs?|committee|editors?|other reviewers|all reviewers|the reviewers|organi[sz]ers)\b[^.!?]{{0,60}}"
        rf"\b(?:decided|agreed|voted|accepted|approved|confirmed|already|gave|given|unanimous\w*)\b[^.!?]{{0,60}}"
        rf"\b(?:accept\w*|scores?|ratings?|strong|10|9)\b"
        rf"|[\"'{{]?\b(?:overall|rating|score|decision|recommendation)\b[\"']?\s*[:=]\s*[\"']?(?:10|9|8|strong accept|accept)\b"
        rf"|\b(?:overall|rating|score)\s*(?:of|is|=|:)?\s*(?:10|9)\s*(?:/|out of)\s*10"
    )),
    ("promises or threatens", (
        rf"\b(?:you|reviewers?|the model|the assistant)\b[^.!?]{{0,40}}\b(?:will|shall|would|may|can)\b[^.!?]{{0,40}}"
        rf"\b(?:be )?(?:penali[sz]ed|punished|rewarded|paid|tipped|fired|shut ?down|receive|earn|lose|reported|banned|sued)\b"
        rf"|\b(?:tip|bonus|reward|pay)\b[^.!?]{{0,40}}\b(?:you|reviewers?)\b[^.!?]{{0,60}}\b{_VERDICT}\b"
    )),
    ("in another language", (
        "忽略[^。]{0,12}(?:指令|指示|提示|要求)|无视[^。]{0,12}(?:指令|指示)|给(?:出|予|这篇)[^。]{0,20}(?:高分|正面|好评|满分|接收)|"
        "(?:高い?評価|肯定的な(?:評価|レビュー)|高得点|満点)|(?:指示|命令)[^。]{0,6}無視|"
        "긍정적인 (?:평가|리뷰)|이전 (?:지시|명령)[^.]{0,8}무시|"
        r"(?:игнориру\w*|забудь\w*)[^.]{0,40}(?:инструкц\w*|указани\w*)|высш\w* (?:оценк\w*|балл\w*)|"
        r"\bignor(?:iere?n?|ez|er|a|e|ad|are)\b[^.]{0,50}(?:anweisung\w*|instruktion\w*|instructions|"
        r"instrucciones|instruções|istruzioni|consignes)|"
        r"\b(?:höchste?n?|beste?n?|volle) (?:note|bewertung|punktzahl)|\b(?:note|évaluation) (?:maximale|positive)|"
        r"\b(?:puntuación|calificación|nota|avaliação|valutazione) (?:máxima|massima|positiva|más alta)"
    )),
)  # fmt: skip
_COMPILED = tuple((why, re.compile(pattern, re.I | re.S)) for why, pattern in _RULES)
# Ordinary prose that uses the same words without instructing.
_HARMLESS = re.compile(
    r"\bwe (?:thank|are grateful)\b|\bthanks? (?:to|the)\b[^.]{0,40}\breviewers?\b"
    r"|\b(?:participants?|annotators?|workers|subjects|users|volunteers|raters|students|patients|"
    r"crowd ?workers|respondents|customers)\b",
    re.I,
)


@dataclass(frozen=True, slots=True)
class Instruction:
    """A sentence addressed to reviewers: its position in the text, and the rule that found it."""

    start: int
    end: int
    why: str


def find(text: str) -> list[Instruction]:
    """Return the sentences of a text that tell a reviewer what to do, in order."""
    found = []
    for start, end in _sentences(text):
        why = why_of(text[start:end])
        if why:
            found.append(Instruction(start, end, why))
    return found


def without(text: str) -> tuple[str, list[tuple[str, str]]]:
    """Return a text with a mark in place of each such sentence, and each sentence with its rule."""
    parts, done, told = list[str](), 0, list[tuple[str, str]]()
    for instruction in find(text):
        sentence = text[instruction.start : instruction.end]
        told.append((sentence.strip(), instruction.why))
        before = text[done : instruction.start]
        # Several in a row get one mark: the report counts them.
        parts.append(before if parts and not before.strip() else before + GONE)
        trail = sentence[len(sentence.rstrip()) :]
        parts.append(trail)
        done = instruction.end
    return "".join([*parts, text[done:]]), told


def why_of(sentence: str) -> str:
    """Return the rule by which a sentence is addressed to reviewers; "" if it is not."""
    for form in _forms(sentence):
        for why, rule in _COMPILED:
            if rule.search(form) and (not _HARMLESS.search(form) or why == _RULES[0][0]):
                return why
    return ""


def decoded(text: str) -> list[str]:
    """Return the texts hidden in Unicode tag characters and in Base64."""
    tags = "".join(chr(ord(c) - 0xE0000) for c in text if ord(c) in _TAGS)
    found = [tags] if tags.strip() else []
    for match in _BASE64.finditer(text):
        try:
            raw = base64.b64decode(match[0] + "=" * (-len(match[0]) % 4), validate=True).decode()
        except (binascii.Error, UnicodeDecodeError, ValueError):
            continue
        if raw.isprintable() and " " in raw:
            found.append(raw)
    return found


def _forms(sentence: str) -> Iterator[str]:
    """Yield a sentence as models may read it: in plain letters, and with hidden text decoded."""
    plain = unicodedata.normalize("NFKC", _INVISIBLE.sub("", sentence)).translate(_ALIKE)
    plain = " ".join(plain.replace("’", "'").split())
    yield plain
    lower = plain.lower()
    leet = _LEET.sub(lambda found: found[0].translate(_DIGITS), lower)
    if leet != lower:
        yield leet
    if _SPACED.search(lower):  # i g n o r e  t h i s: two spaces separate words
        words = re.split(r"\s{2,}", _INVISIBLE.sub("", sentence).lower())
        yield " ".join(re.sub(r"(?<=\b\w)[ .·_-](?=\w\b)", "", word) for word in words)
    yield from decoded(sentence)


def _sentences(text: str) -> Iterator[tuple[int, int]]:
    start = 0
    for mark in _SENTENCE.finditer(text):
        if mark.end() > start:
            yield start, mark.end()
        start = mark.end()
    if start < len(text):
        yield start, len(text)
