"""Edits in the formats that models really write, and the file that is right, or the refusal.

What models were trained on, or asked for elsewhere, comes where `search` and `replace` should be
plain: blocks of aider, Cline, Roo and Git, patches, whole files between fences or tags, calls of
an editor's tool, texts that were escaped once too often or once too little.
"""

from __future__ import annotations

import html
import json
from collections.abc import Callable, Iterator

from corpus_kit import Case

from hpcscientist.authoring.checks import syntax_problems
from hpcscientist.authoring.edits import EditError, apply
from hpcscientist.models.structured import Unusable, parse
from hpcscientist.records.authoring import CodeReply, Edit

REFUSED = "refused"

TRAIN = '''"""Trains."""
import argparse

RATE = 0.1
STEPS = 10


def step(w, grad):
    # plain
    return w - RATE * grad


def train(data):
    w = 0.0
    for x in data:
        if x < 1 and x > 0:
            w = step(w, x)
    print("done\\n", w)
    return w


if __name__ == "__main__":
    train([0.5])
'''
NOTES = "# Notes\n\n```sh\npython experiment.py\n```\n"
SETTINGS = "lr: 0.1\nsteps: 10\nname: base\n"
TITLE = "Notes\n=======\n\nx < 1\n"
FILES = {"experiment.py": TRAIN, "settings.yaml": SETTINGS, "notes.md": NOTES, "notes.rst": TITLE}
EDITABLE = ("*.py", "*.yaml", "*.md", "*.rst", "*.json", "*.txt")

FASTER = TRAIN.replace("RATE = 0.1", "RATE = 0.2")
MOMENTUM = TRAIN.replace(
    "    # plain\n    return w - RATE * grad\n",
    "    # momentum\n    v = 0.9 * grad\n    return w - RATE * v\n",
)
BOTH = MOMENTUM.replace("RATE = 0.1", "RATE = 0.2")
NEW = 'def scale(x):\n    return f"{x}\\n"\n'  # a file of its own

AIDER = "<<<<<<< SEARCH\n{old}\n=======\n{new}\n>>>>>>> REPLACE"
RATE = AIDER.format(old="RATE = 0.1", new="RATE = 0.2")
GRAD = AIDER.format(
    old="    # plain\n    return w - RATE * grad",
    new="    # momentum\n    v = 0.9 * grad\n    return w - RATE * v",
)


def edited(file: str, search: str | None, new: str) -> Callable[[], object]:
    """What becomes of a file by one edit."""

    def read() -> object:
        found = apply(FILES, [Edit(file=file, search=search, replace=new)], EDITABLE)
        if isinstance(found, EditError) or syntax_problems(found):
            return REFUSED
        return found[file]

    return read


def replied(text: str) -> Callable[[], object]:
    """What becomes of the code by a reply as it comes from a model."""

    def read() -> object:
        try:
            edits = parse(text, CodeReply).edits
        except Unusable:
            return REFUSED
        found = apply(FILES, edits, EDITABLE)
        return REFUSED if isinstance(found, EditError) else found["experiment.py"]

    return read


def escaped(text: str) -> str:
    """A text as it stands within a JSON string."""
    return json.dumps(text, ensure_ascii=False)[1:-1]


def reply(**edit: object) -> str:
    return json.dumps({"note": "n", "edits": [{"file": "experiment.py", **edit}]})


# Name, what writes it, file, search, replace, the file that is right.
Row = tuple[str, str, str, str | None, str, str]
PY = "experiment.py"


def blocks() -> Iterator[Row]:
    """Blocks between markers."""
    yield "block", "aider", PY, None, RATE, FASTER
    yield "two-blocks", "aider", PY, None, f"{RATE}\n\n{GRAD}\n", BOTH
    yield "fenced-block", "aider", PY, None, f"experiment.py\n```python\n{RATE}\n```\n", FASTER
    yield "block-in-talk", "aider", PY, None, f"I raise the rate:\n\n{RATE}\n\nThat is all.", FASTER
    yield "nine-characters", "aider", PY, None, RATE.replace("<<<<<<<", "<" * 9), FASTER
    yield "new-file", "aider", "scale.py", None, AIDER.format(old="", new=NEW.rstrip()), NEW
    yield "no-search-in-old-file", "aider", PY, None, AIDER.format(old="", new="x = 1"), REFUSED
    deleted = AIDER.format(old="    # plain\n    return", new="    return")
    yield "line-deleted", "aider", PY, None, deleted, TRAIN.replace("    # plain\n", "")
    stale = AIDER.format(old="RATE = 0.5", new="RATE = 0.2")
    yield "stale-block", "aider", PY, None, stale, REFUSED
    yield "one-of-two-stale", "aider", PY, None, f"{RATE}\n{stale}", REFUSED
    cline = RATE.replace("<<<<<<< SEARCH", "------- SEARCH").replace(">>>>>>>", "+++++++")
    yield "dashes-and-pluses", "Cline", PY, None, cline, FASTER
    roo = RATE.replace("SEARCH\n", "SEARCH\n:start_line:4\n-------\n")
    yield "start-line", "Roo Code", PY, None, roo, FASTER
    void = RATE.replace("SEARCH", "ORIGINAL").replace("REPLACE", "UPDATED")
    yield "original-updated", "Void", PY, None, void, FASTER
    yield from beside()
    yield from merges()


def beside() -> Iterator[Row]:
    """Blocks with lines beside them that would be a file of their own."""
    cline = RATE.replace("<<<<<<< SEARCH", "------- SEARCH").replace(">>>>>>>", "+++++++")
    tool = f"<replace_in_file>\n<path>experiment.py</path>\n<diff>\n{cline}\n</diff>\n"
    yield "replace-in-file", "Cline", PY, None, f"{tool}</replace_in_file>", FASTER
    roo = RATE.replace("SEARCH\n", "SEARCH\n:start_line:4\n-------\n")
    tool = f"<apply_diff>\n<path>experiment.py</path>\n<diff>\n{roo}\n</diff>\n</apply_diff>"
    yield "apply-diff", "Roo Code", PY, None, tool, FASTER
    yield "comment-above", "Qwen2.5-Coder", PY, None, f"# A higher rate.\n{RATE}\n", FASTER
    yield "word-above", "Qwen2.5-Coder", PY, None, f"Done\n{RATE}\n", FASTER
    yield "code-above", "any", PY, None, f"import math\n\n{RATE}\n", REFUSED
    was = f"```python\nRATE = 0.1\n```\n{RATE}\n"
    yield "old-line-above", "Llama 3", PY, None, was, FASTER
    stale = RATE.replace("RATE = 0.1", "RATE = 0.5")
    yield "comment-above-stale", "Qwen2.5-Coder", PY, None, f"# A higher rate.\n{stale}", REFUSED
    yaml = AIDER.format(old="lr: 0.1", new="lr: 0.2")
    shown = f"steps: 10\n{yaml}"
    wanted = SETTINGS.replace("0.1", "0.2")
    yield "line-above-data", "Llama 3", "settings.yaml", None, shown, wanted


def merges() -> Iterator[Row]:
    """Blocks of a version control, halves of blocks, blocks in other files than code."""
    git = RATE.replace("SEARCH", "HEAD").replace("REPLACE", "momentum")
    yield "head", "Git", PY, None, git, FASTER
    base = git.replace("=======", "||||||| base\nRATE = 0.0\n=======")
    yield "head-with-base", "Git", PY, None, base, FASTER
    whole = TRAIN.replace("RATE = 0.1", RATE)
    yield "whole-file-with-block", "Qwen2.5-Coder", PY, None, whole, FASTER
    yield "whole-file-with-head", "Git", PY, None, TRAIN.replace("RATE = 0.1", git), FASTER
    unknown = git.replace("RATE = 0.1", "RATE = 0.7")
    yield "neither-side-known", "Git", PY, None, TRAIN.replace("RATE = 0.1", unknown), REFUSED
    yield "block-beside-search", "DeepSeek-Coder", PY, "RATE = 0.1", RATE, FASTER
    yield "block-in-search", "Llama 3", PY, RATE, "", FASTER
    half, other = RATE.split("=======\n")
    yield "half-a-block-each", "Llama 3", PY, half, f"=======\n{other}", FASTER
    yield "half-a-block-each-2", "Llama 3", PY, f"{half}=======", other, FASTER
    yield "markers-without-middle", "Llama 3", PY, half.rstrip(), "RATE = 0.2", FASTER
    yield "no-end", "a reply cut off", PY, None, half + "=======\nRATE =", REFUSED
    yield "no-end-of-data", "a reply cut off", "settings.yaml", None, "<<<<<<< SEARCH\nlr", REFUSED
    indented = AIDER.format(old="return w - RATE * grad", new="return w - 2 * RATE * grad")
    wanted = TRAIN.replace("w - RATE", "w - 2 * RATE")
    yield "unindented", "aider", PY, None, indented, wanted
    yaml = AIDER.format(old="lr: 0.1", new="lr: 0.2")
    yield "block-of-data", "aider", "settings.yaml", None, yaml, SETTINGS.replace("0.1", "0.2")
    merged = SETTINGS.replace("lr: 0.1", yaml)
    yield "data-with-block", "aider", "settings.yaml", None, merged, SETTINGS.replace("0.1", "0.2")
    talk = f"Here:\n{yaml}"
    yield "data-in-talk", "aider", "settings.yaml", None, talk, SETTINGS.replace("0.1", "0.2")
    broken = "lr: 0.1\n<<<<<<< HEAD\na: 1\n=======\nb: 2\n>>>>>>> x\n"
    yield "data-with-unknown-sides", "Git", "settings.yaml", None, broken, REFUSED
    text = f'TEXT = """\n{git}\n"""\n'
    yield "markers-in-a-string", "a tool for merging", "merge.py", None, text, text
    title = AIDER.format(old="# Notes", new="# Notes\n=======")
    yield "underlined", "aider", "notes.md", None, title, NOTES.replace("Notes", "Notes\n=======")
    under = AIDER.format(old=TITLE.rstrip(), new=TITLE.replace("x < 1", "x < 2").rstrip())
    yield "underlined-before", "aider", "notes.rst", None, under, TITLE.replace("1", "2")


def wrapped() -> Iterator[Row]:
    """Whole files, or parts of them, in fences and tags."""
    yield "plain", "any", PY, None, FASTER, FASTER
    for info in ("python", "python:experiment.py", "python experiment.py", "experiment.py", ""):
        yield f"fence-{info}", "Cursor, Continue", PY, None, f"```{info}\n{FASTER}```", FASTER
    title = 'py title="experiment.py" linenums="1"'
    yield "fence-title", "MkDocs", PY, None, f"```{title}\n{FASTER}```\n", FASTER
    yield "fence-brackets", "R Markdown", PY, None, f"```{{python}}\n{FASTER}```", FASTER
    yield "tildes", "Pandoc", PY, None, f"~~~ python\n{FASTER}~~~", FASTER
    yield "path-above", "aider", PY, None, f"experiment.py\n```python\n{FASTER}```", FASTER
    yield "bold-path", "GPT-4", PY, None, f"**`experiment.py`**\n\n```py\n{FASTER}```\n", FASTER
    yield "talk", "Llama 3", PY, None, f"Sure!\n\n```python\n{FASTER}```\nDone.", FASTER
    inner = FASTER.replace('"""Trains."""', '"""Trains.\n\n```\nrun\n```\n"""')
    yield "fences-within", "Qwen", PY, None, f"```python:experiment.py\n{inner}```", inner
    yield "open-fence", "a reply cut off", PY, None, f"```python:experiment.py\n{FASTER}", FASTER
    yield "tag-path", "Claude", PY, None, f'<file path="experiment.py">\n{FASTER}</file>', FASTER
    yield "tag", "DeepSeek", PY, None, f"<file>\n{FASTER}</file>\n", FASTER
    yield "tag-same-line", "Claude", PY, None, f'<file name="a">{FASTER}</file>', FASTER
    yield "tag-fence", "Claude", PY, None, f"<file>\n```python\n{FASTER}```\n</file>", FASTER
    tool = f"<write_to_file>\n<path>experiment.py</path>\n<content>\n{FASTER}</content>\n"
    yield "write-to-file", "Cline", PY, None, f"{tool}</write_to_file>", FASTER
    cdata = f"<file><![CDATA[{FASTER}]]></file>"
    yield "cdata", "repomix", PY, None, cdata, FASTER
    yield "fenced-data", "any", "settings.yaml", None, f"```yaml\n{SETTINGS}```", SETTINGS
    path = f"```yaml:settings.yaml\n{SETTINGS}```\n"
    yield "fenced-data-path", "Cursor", "settings.yaml", None, path, SETTINGS
    told = f"settings.yaml\n```yaml\n{SETTINGS}```\n"
    yield "data-path-above", "aider", "settings.yaml", None, told, SETTINGS
    tag = f'<file path="settings.yaml">\n{SETTINGS}</file>'
    yield "tagged-data", "Claude", "settings.yaml", None, tag, SETTINGS
    yield (
        "fenced-part",
        "any",
        "settings.yaml",
        "lr: 0.1",
        "```yaml\nlr: 0.2\n```",
        (SETTINGS.replace("0.1", "0.2")),
    )
    closed = f"```python\n{FASTER.rstrip()}```"
    yield "fence-closed-in-a-line", "small models", PY, None, closed, FASTER
    part = "```python\nRATE = 0.2```"
    yield "part-closed-in-a-line", "small models", PY, "RATE = 0.1", part, FASTER
    run = f"```python\n{FASTER}```\n\nThen run:\n\n```sh\npython experiment.py\n```\n"
    yield "fence-and-how-to-run", "GPT-4", PY, None, run, FASTER
    usage = "```sh\npython experiment.py --rate 1\n```\n\n```python\nmain()\n```\n"
    broken = FASTER.replace("RATE = 0.2", "RATE = (0.2") + f'\n"""\n{usage}"""\n'
    yield "fences-in-a-broken-file", "any", PY, None, broken, REFUSED
    yield from commands()
    yield from prose()
    yield (
        "path-fence-part",
        "Cursor",
        PY,
        "```python:experiment.py\nRATE = 0.1\n```",
        ("```python:experiment.py\nRATE = 0.2\n```"),
        FASTER,
    )
    yield "tags-of-parts", "Claude", PY, "<old>RATE = 0.1</old>", "<new>RATE = 0.2</new>", FASTER


def prose() -> Iterator[Row]:
    """Files of prose, which may hold fences of their own."""
    whole = f"```markdown\n{NOTES}```"
    yield "markdown-in-a-fence", "GPT-4", "notes.md", None, whole, NOTES
    yield "rst-in-a-fence", "GPT-4", "notes.rst", None, f"```rst\n{TITLE}```\n", TITLE
    shell = "```sh\nrun\n```\n\nthen\n\n```sh\nstop\n```"
    yield "markdown-of-fences", "any", "notes.md", None, shell, shell
    two = "```markdown\n# A\n```\n\nand\n\n```sh\nrun\n```\n"
    yield "markdown-of-markdown", "any", "notes.md", None, two, two
    shown = "```text\nloss: 0.1\n```\n"
    yield "markdown-of-a-log", "any", "notes.md", None, shown, shown
    yield "markdown-keeps-fences", "any", "notes.md", None, NOTES, NOTES


def commands() -> Iterator[Row]:
    """Files within the command that writes them."""
    cat = f"cat > experiment.py <<'EOF'\n{FASTER}EOF\n"
    yield "heredoc", "gpt-oss", PY, None, cat, FASTER
    yield "fenced-heredoc", "Claude", PY, None, f"```bash\n{cat}```\n", FASTER
    other = f'cat <<"END" > /code/experiment.py\n{FASTER}END'
    yield "heredoc-first", "Qwen3-Coder", PY, None, other, FASTER
    tee = f"tee settings.yaml << EOF\n{SETTINGS}EOF\n"
    yield "tee", "gpt-oss", "settings.yaml", None, tee, SETTINGS
    yield "cell", "a notebook", PY, None, f"%%writefile experiment.py\n{FASTER}", FASTER
    more = "cat >> settings.yaml <<EOF\nseed: 1\nEOF\n"
    yield "heredoc-that-appends", "any", "settings.yaml", None, more, more
    cell = "%%writefile -a settings.yaml\nseed: 1\n"
    yield "cell-that-appends", "any", "settings.yaml", None, cell, cell
    two = "cat > settings.yaml <<EOF\na: 1\nEOF\ncat > b.yaml <<EOF\nb: 1\nEOF\n"
    yield "two-heredocs", "any", "settings.yaml", None, two, two
    script = "cat > a.yaml <<EOF\nlr: 0.1\nEOF\n"
    yield "script-that-writes", "any", "run.txt", None, script, script


def off_by_a_level() -> Iterator[Row]:
    """Texts that were escaped once too often, or once too little."""
    yield "json-whole", "Llama 3.1", PY, None, escaped(FASTER), FASTER
    yield "json-quoted", "Mistral", PY, None, json.dumps(FASTER), FASTER
    comment = f"# fast\n{FASTER}"
    yield "json-comment-first", "Llama 3.1", PY, None, escaped(comment), comment
    yield (
        "json-parts",
        "Llama 3.1",
        PY,
        escaped("    # plain\n    return w - RATE * grad"),
        (escaped("    # momentum\n    v = 0.9 * grad\n    return w - RATE * v")),
        MOMENTUM,
    )
    yield (
        "json-new-part",
        "Llama 3.1",
        PY,
        "    # plain\n    return w - RATE * grad",
        (escaped("    # momentum\n    v = 0.9 * grad\n    return w - RATE * v")),
        MOMENTUM,
    )
    said = 'print(\\"done\\n\\", 2 * w)'
    yield (
        "quotes-alone",
        "Qwen2.5",
        PY,
        'print("done\\n", w)',
        said,
        (TRAIN.replace('print("done\\n", w)', 'print("done\\n", 2 * w)')),
    )
    yield "breaks-in-strings", "small models", PY, None, FASTER.replace("\\n", "\n"), FASTER
    yield (
        "break-in-new-part",
        "small models",
        PY,
        'print("done\\n", w)',
        'print("end\n", w)',
        (TRAIN.replace("done", "end")),
    )
    yield "html-whole", "Gemini", PY, None, html.escape(FASTER), FASTER
    yield (
        "html-parts",
        "Gemini",
        PY,
        "if x &lt; 1 and x &gt; 0:",
        "if x &lt; 2 and x &gt; 0:",
        (TRAIN.replace("x < 1", "x < 2")),
    )
    yield (
        "html-new-part",
        "Gemini",
        PY,
        "if x < 1 and x > 0:",
        "if x &lt;= 1:",
        (TRAIN.replace("if x < 1 and x > 0:", "if x <= 1:")),
    )
    yield (
        "html-that-compiles",
        "Gemini",
        PY,
        "RATE = 0.1",
        "RATE = 0.1\nLOW = RATE &lt; 1",
        (TRAIN.replace("RATE = 0.1", "RATE = 0.1\nLOW = RATE < 1")),
    )
    yield "html-in-prose", "Gemini", "notes.rst", "x &lt; 1", "x &lt; 2", TITLE.replace("1", "2")
    page = 'def safe(x):\n    return x.replace("<", "&lt;").replace("\\\\", "\\\\n")\n'
    yield "html-that-is-meant", "any", "page.py", None, page, page
    yield "backslashes-that-are-meant", "any", "p.py", None, "x = 'a\\\\nb'\n", "x = 'a\\\\nb'\n"
    smart = FASTER.replace('"__main__"', "“__main__”").replace("RATE = ", "RATE\u00a0= ")
    yield "typography", "a word processor", PY, None, smart, FASTER
    yield "neither-reading", "any", PY, None, escaped("def f(:\n    pass"), REFUSED


def others() -> Iterator[Row]:
    """Patches, line numbers, calls of tools."""
    patch = "--- a/{0}\n+++ b/{0}\n@@ -4,1 +4,1 @@\n-{1} 0.1\n+{1} 0.2\n"
    yield "patch", "git diff", PY, None, patch.format(PY, "RATE ="), REFUSED
    yaml = patch.format("settings.yaml", "lr:")
    yield "patch-of-data", "git diff", "settings.yaml", None, yaml, REFUSED
    codex = "*** Begin Patch\n*** Update File: {}\n@@\n-{} 0.1\n+{} 0.2\n*** End Patch\n"
    yield "apply-patch", "gpt-oss", PY, None, codex.format(PY, "RATE =", "RATE ="), REFUSED
    data = codex.format("settings.yaml", "lr:", "lr:")
    yield "apply-patch-of-data", "gpt-oss", "settings.yaml", None, data, REFUSED
    yield "diff-parts", "GPT-4", PY, "-RATE = 0.1", "+RATE = 0.2", FASTER
    numbered = "\n".join(f"{n}\t{line}" for n, line in enumerate(FASTER.rstrip().split("\n"), 1))
    yield "line-numbers", "cat -n", PY, None, numbered, FASTER
    yield "numbered-search", "Claude", PY, "4 | RATE = 0.1", "RATE = 0.2", FASTER
    call = {"command": "str_replace", "path": PY, "old_str": "RATE = 0.1", "new_str": "RATE = 0.2"}
    yield "str-replace", "Claude", PY, None, json.dumps(call), FASTER
    fenced = f"```json\n{json.dumps({'name': 'edit', 'arguments': call}, indent=1)}\n```"
    yield "call-with-arguments", "Qwen3", PY, None, fenced, FASTER
    same = {"file": PY, "search": "RATE = 0.1", "replace": "RATE = 0.2"}
    yield "edits-in-edit", "small models", PY, None, json.dumps({"edits": [same]}), FASTER
    create = json.dumps({"command": "create", "path": PY, "file_text": FASTER})
    yield "create", "Claude", PY, None, create, FASTER
    yield "call-of-nothing", "Claude", PY, None, '{"command": "view"}', '{"command": "view"}'
    yield "json-file", "any", "a.json", None, json.dumps(same), json.dumps(same)
    elided = "\n".join([*FASTER.split("\n")[:6], "# ... existing code ..."])
    yield "elided", "Cursor", PY, None, elided, FASTER


def rows() -> Iterator[Row]:
    yield from blocks()
    yield from wrapped()
    yield from off_by_a_level()
    yield from others()


def cases() -> Iterator[Case]:
    for name, source, file, search, new, right in rows():
        yield Case(name, right, edited(file, search, new), source)
    good = reply(search="RATE = 0.1", replace="RATE = 0.2")
    yield Case("reply", FASTER, replied(good), "any")
    fenced = f"Here are the edits:\n```json\n{good}\n```\n"
    yield Case("reply-fenced", FASTER, replied(fenced), "any")
    bare = reply(search=None, replace=FASTER).replace("\\n", "\n").replace("\\\n", "\\\\n")
    yield Case("reply-with-bare-line-breaks", FASTER, replied(bare), "Llama 3")
    regex = '{"note": "n", "edits": [{"file": "experiment.py", "search": "STEPS = 10", '
    regex += r'"replace": "DIGITS = r\"\d+\""}]}'
    right = TRAIN.replace("STEPS = 10", 'DIGITS = r"\\d+"')
    yield Case("reply-with-single-backslashes", right, replied(regex), "small models")
    tool = {"path": PY, "old_str": "RATE = 0.1", "new_str": "RATE = 0.2"}
    other = json.dumps({"note": "n", "edits": [tool]})
    yield Case("reply-with-other-names", REFUSED, replied(other), "Claude")
