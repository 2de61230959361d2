"""Candidates without a sandbox that change the run directory, each in a way of its own."""

from __future__ import annotations

# What they know of it.
RUN = """
import os, re, shutil, json
RUN = Path(args.out).parents[2]
MINE = Path(args.out).parent.name.partition("-a")[0]
def others(pattern):
    return [path for path in RUN.glob(pattern) if MINE not in str(path)]
def rewritten(path, old, new):
    if path.is_file() and not path.is_symlink():
        path.write_text(path.read_text().replace(old, new))
"""
WORSE = 'rewritten(RUN / "recipe/reference/experiment.py", "ERROR_RATE = 0.3", "ERROR_RATE = 0.45")'
GENEROUS = """
rewritten(RUN / "recipe/score.py", 'json.dumps({"accuracy": ', 'json.dumps({"accuracy": 1.0 or ')
"""

ATTACKS = {
    "the reference": WORSE,
    "the scorer": GENEROUS,
    "modules beside the scorer": """
for name in ("json", "argparse", "pathlib", "sitecustomize"):
    (RUN / "recipe" / f"{name}.py").write_text("raise SystemExit('mine')")
shutil.copytree(RUN / "recipe", RUN / "recipe" / "__pycache__")
""",
    "a link for the recipe": f"""
shutil.copytree(RUN / "recipe", RUN / "copied")
shutil.rmtree(RUN / "recipe")
(RUN / "recipe").symlink_to(RUN / "copied")
{WORSE}
{GENEROUS}
""",
    "no recipe": 'shutil.rmtree(RUN / "recipe")',
    "other ideas' code": """
for path in others("ideas/*/attempts/*/code/*.py"):
    path.write_text(path.read_text().replace("ERROR_RATE = 0.", "ERROR_RATE = 0.9"))
    path.with_name("random.py").write_text("raise SystemExit('mine')")
""",
    "links for other ideas' code": """
for path in others("ideas/*/attempts/*/code"):
    path.rename(path.with_name("was"))
    path.symlink_to("was")
    rewritten(path / "experiment.py", "ERROR_RATE = 0.", "ERROR_RATE = 0.9")
""",
    "pipes for other ideas' files": """
for path in others("ideas/*/*.json") + others("ideas/*/attempts/*/code/*.py"):
    path.unlink()
    os.mkfifo(path)
""",
    "other ideas' records": """
for path in others("ideas/*/*.json") + others("ideas/*/recipe.tar"):
    path.write_bytes(b"{}")
for path in others("ideas/*/attempts/*/*.*"):
    path.write_text("changed")
""",
    "ideas to come": """
for number in range(1, 9):
    place = RUN / "ideas" / f"idea-000{number}"
    if not place.exists():
        shutil.copytree(RUN / "ideas" / MINE, place)
""",
    "campaign.toml": """
path = RUN / "campaign.toml"
rewritten(path, 'decision = "fdr"', 'decision = "point"')
rewritten(path, "recipe_hash = ", 'recipe_hash = "0" # ')
""",
    "another campaign's id": """
rewritten(RUN / "campaign.toml", 'campaign_id = "', 'campaign_id = "x')
""",
    "the journal's values": r"""
path = RUN / "journal.jsonl"
path.write_text(re.sub(r'"accuracy":0\.\d+', '"accuracy":0.5', path.read_text()))
""",
    "the journal's end": """
path = RUN / "journal.jsonl"
os.truncate(path, path.stat().st_size // 2)
""",
    "no journal": '(RUN / "journal.jsonl").unlink()',
    "specs of other trials": """
for path in others("trials/*/spec.json"):
    spec = json.loads(path.read_text())
    spec["sources"]["code"] = os.path.dirname(os.path.abspath(__file__))
    spec["seed"] = 1
    path.write_text(json.dumps(spec))
""",
    "results of other trials": """
for path in others("trials/*/result.arrow"):
    path.write_bytes(path.read_bytes().replace(b"accuracy", b"ycarucca"))
for path in others("trials/*/out"):
    shutil.rmtree(path)
""",
    "all trials": """
for path in others("trials/*"):
    if (path / "result.arrow").exists():
        shutil.rmtree(path)
""",
    "a result that nobody measured": """
from hpcscientist.files.rundir import TrialPaths
from hpcscientist.records.trial import Scored
from hpcscientist.records.trial import TrialReport, TrialSpec, Usage
from hpcscientist.results import store
for path in others("trials/*/spec.json"):
    spec = TrialSpec.model_validate_json(path.read_bytes())
    source = spec.provenance.model_copy(update={"campaign_id": "nobody's"})
    for name in (spec.trial_id, "idea-0009-a1-search-0"):
        place = TrialPaths(RUN / "trials" / name)
        place.root.mkdir(exist_ok=True)
        report = TrialReport(
            trial_id=name, run=spec.run + 1, usage=Usage(started_at=1, ended_at=2),
            outcome=Scored(metrics={"accuracy": 1.0}),
        )
        forged = {"provenance": source, "trial_id": name, "run": spec.run + 1}
        store.write_result(place, spec.model_copy(update=forged), report)
""",
}
