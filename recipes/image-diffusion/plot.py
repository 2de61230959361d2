"""Figures from the result table of a campaign.

    hpcsci results DIR --format json > results.json
    plot.py --results results.json --out DIR [--format png|pdf|svg]

Writes DIR/effects.png (difference to the baseline with its interval, one line an idea) and
DIR/running_best.png (the best mean so far, in order of proposal), or both in another format. Needs
matplotlib.
"""

import argparse
import json
from pathlib import Path

COLOURS = {"improvement": "tab:green", "maintenance": "tab:gray", "decline": "tab:red"}
UNJUDGED = "tab:blue"
UNDATED = {".png": {}, ".pdf": {"CreationDate": None}, ".svg": {"Date": None}}


def scored(rows):
    """Return the rows of ideas that have a mean, in order of proposal."""
    return [r for r in rows if r["status"] == "scored" and r["mean"] is not None]


def baseline_mean(rows):
    means = [r["mean"] for r in rows if r["status"] == "baseline" and r["mean"] is not None]
    if not means:
        raise SystemExit("plot.py: the table holds no scored baseline; run a campaign first")
    return means[0]


def plot_effects(rows, path):
    """Draw each idea's difference to the baseline with its confidence interval."""
    from matplotlib.figure import Figure

    drawn = [r for r in scored(rows) if r["delta"] is not None]
    figure = Figure(figsize=(8, 1.5 + 0.35 * len(drawn)), layout="constrained")
    axes = figure.subplots()
    for y, row in enumerate(drawn):
        colour = COLOURS.get(row["finding"], UNJUDGED)
        if row["ci_low"] is not None and row["ci_high"] is not None:
            axes.plot([row["ci_low"], row["ci_high"]], [y, y], color=colour)
        axes.plot(row["delta"], y, "o", color=colour)
    axes.axvline(0.0, color="black", linewidth=0.8)
    axes.set_yticks(range(len(drawn)), [f"{r['idea_id']}  {r['title'][:44]}" for r in drawn])
    axes.invert_yaxis()
    axes.set_xlabel(f"difference in {rows[0]['metric']} to the baseline, with interval")
    figure.savefig(path, dpi=150, metadata=UNDATED[path.suffix])


def plot_running_best(rows, path):
    """Draw every idea's mean and the best mean so far, starting from the baseline."""
    from matplotlib.figure import Figure

    better = max if rows[0]["direction"] == "maximize" else min
    means = [baseline_mean(rows), *(r["mean"] for r in scored(rows))]
    best = [better(means[: i + 1]) for i in range(len(means))]
    figure = Figure(figsize=(7, 4), layout="constrained")
    axes = figure.subplots()
    axes.plot(range(len(means)), means, "o", color="tab:gray", label="mean over seeds")
    axes.step(range(len(best)), best, where="post", color="tab:green", label="best so far")
    axes.set_xlabel("scored ideas, in order of proposal (0: baseline)")
    axes.set_ylabel(rows[0]["metric"])
    axes.legend()
    figure.savefig(path, dpi=150, metadata=UNDATED[path.suffix])


def main():
    parser = argparse.ArgumentParser(description="Draw the figures of a campaign.")
    parser.add_argument("--results", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--format", choices=("png", "pdf", "svg"), default="png")
    args = parser.parse_args()
    import matplotlib

    matplotlib.rcParams["svg.hashsalt"] = "digits"  # the same file again from the same table
    rows = json.loads(args.results.read_text())
    baseline_mean(rows)
    args.out.mkdir(parents=True, exist_ok=True)
    plot_effects(rows, args.out / f"effects.{args.format}")
    plot_running_best(rows, args.out / f"running_best.{args.format}")


if __name__ == "__main__":
    main()
