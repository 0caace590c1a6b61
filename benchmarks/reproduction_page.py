"""The numbers of benchmarks/results/reproduction.md, from a folder that `fedualex reproduce` has written.

python benchmarks/reproduction_page.py runs/paper     prints them as Markdown

Experiments and cases without all their seeds are left out, and named on stderr.
"""

import argparse
import json
import re
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

PAPER = ("l1-k1", "l1-k10", "nuclear-k1", "nuclear-k10")
OUTPUTS = {"last": "last", "ergodic": "ergodic", "clients": "client_average", "polished": "polished"}
"""The columns of the paper's experiments, and the outputs that they show."""
STEPS = {"eta_s": "η_s", "eta_c": "η_c"}
VERSIONS = {"Theorem 1 as printed": "printed", "Theorem 1 as corrected": "corrected"}
NONE = "–"

# The folder.


def read(path: Path) -> Any:
    """What a JSON file says."""
    return json.loads(path.read_text())


@dataclass(frozen=True)
class Seed:
    """One finished run."""

    path: Path

    @cached_property
    def status(self) -> dict[str, Any]:
        """Its final numbers."""
        return read(self.path / "status.json")

    @cached_property
    def method(self) -> dict[str, Any]:
        """What its method was made from."""
        return read(self.path / "manifest.json")["configuration"]["method"]

    @cached_property
    def history(self) -> list[dict[str, Any]]:
        """Its records, in order."""
        return [json.loads(line) for line in (self.path / "history.jsonl").read_text().splitlines()]


@dataclass(frozen=True)
class Experiment:
    """A folder of one experiment, or of one case of a study."""

    path: Path
    title: str
    plan: dict[str, Any]

    @cached_property
    def runs(self) -> dict[str, list[Seed]]:
        """The finished seeds of each method, in the order of the plan."""
        return {
            label: [Seed(one.parent) for one in sorted(self.path.glob(f"runs/{folder_of(label)}/seed-*/status.json"))]
            for label in self.plan["settings"]["methods"]
        }

    @property
    def is_complete(self) -> bool:
        """Whether every method has all its seeds."""
        return all(len(seeds) == self.plan["seeds"] for seeds in self.runs.values())

    @property
    def case(self) -> dict[str, Any]:
        """Its study, axis and value; empty if it is no case."""
        return self.plan.get("case") or {}

    @property
    def output(self) -> str:
        """The output that its steps are tuned for."""
        return str(self.plan["settings"]["tuning"]["output"])

    @cached_property
    def exchanges(self) -> int:
        """As many as all its runs have made."""
        return min(seed.history[-1]["exchanges"] for seeds in self.runs.values() for seed in seeds)


def folder_of(label: str) -> str:
    """The name of a method's folder."""
    return label.replace(" ", "-")


def experiments_of(root: Path) -> list[Experiment]:
    """All experiments of a folder that are complete, in the order in which they were asked for."""
    asked = read(root / "manifest.json").get("experiments", []) if (root / "manifest.json").exists() else []
    present = sorted(path.parent.name for path in root.glob("*/manifest.json"))
    found = []
    for name in dict.fromkeys([name for name in (*PAPER, *asked) if name in present] + present):
        manifest = read(root / name / "manifest.json")
        if manifest.get("kind") != "experiment":
            continue
        one = Experiment(root / name, manifest["title"], manifest["plan"])
        if one.is_complete:
            found.append(one)
        else:
            print(f"{name}: left out, not all seeds are there", file=sys.stderr)
    return found


# Numbers as text.


def spread(values: Iterable[float]) -> str:
    """Mean and standard deviation."""
    numbers = np.array(list(values), float)
    return f"{numbers.mean():.3g} ± {numbers.std():.1g}"


def share(values: Iterable[float]) -> str:
    """Mean and standard deviation of densities."""
    numbers = np.array(list(values), float)
    return f"{numbers.mean():.3f} ± {numbers.std():.3f}"


def steps_of(seeds: Sequence[Seed]) -> str:
    """The steps that a method was given, and those that theory chose for it, which are means over seeds."""
    texts = []
    for name, letter in STEPS.items():
        if name in seeds[0].method:
            texts.append(f"{letter} {seeds[0].method[name]:g}")
            continue
        chosen = [re.match(rf"{name}=(\S+)", seed.status.get("steps") or "") for seed in seeds]
        if numbers := [float(one[1]) for one in chosen if one]:
            texts.append(f"{letter} {np.mean(numbers):.3g} by theory")
    return ", ".join(texts)


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table in Markdown."""
    lines = [head, *rows]
    texts = [f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |" for cells in lines]
    return "\n".join([texts[0], "|" + "---|" * len(head), *texts[1:]])


# What the claims say.


def claims(root: Path) -> list[str]:
    """The sentences of the paper, and what its theorems ask: two tables."""
    if not (root / "claims.json").exists():
        print("claims.json is not there: no tables of claims", file=sys.stderr)
        return []
    found = read(root / "claims.json")
    paper = [row for row in found if row["claim"].startswith(("l1:", "nuclear:"))]
    others = [row for row in found if row not in paper]
    parts = []
    for heading, first, rows in (
        ("The paper's sentences", "the paper says", paper),
        ("The questions of its theorems", "the question", others),
    ):
        cells = [(row["claim"], f"**{row['verdict']}**", row["why"], row["measured"]) for row in rows]
        if cells:
            parts += [f"## {heading}", table((first, "verdict", "why", "measured"), cells)]
    return parts


# The paper's experiments.


def structure(found: Sequence[dict[str, Any]]) -> str:
    """The ranks of an output over seeds, or else its density."""
    if found[0]["rank"] is None:
        return share(one["density"] for one in found)
    return " / ".join(spread(ranks) for ranks in zip(*(one["rank"] for one in found), strict=True))


def optimum(one: Experiment) -> str:
    """The line about the exact optimum and the time."""
    sentences = []
    if (one.path / "exact.json").exists():
        exact = read(one.path / "exact.json")
        ranks = exact["rank"]
        form = f"density {exact['density']:.3f}" if ranks is None else "ranks " + " / ".join(map(str, ranks))
        sentences.append(
            f"Exact optimum ({exact['how']}): value {exact['value']:.6f}, certified gap {exact['gap']:.2g}, {form}."
        )
    if (one.path / "timing.json").exists():
        minutes = {stage: seconds / 60 for stage, seconds in read(one.path / "timing.json").items()}
        stages = ", ".join(f"{stage} {amount:.1f}" for stage, amount in minutes.items())
        sentences.append(f"Time: {sum(minutes.values()):.0f} minutes ({stages}).")
    return " ".join(sentences)


def final_row(label: str, seeds: Sequence[Seed], value: float | None) -> list[str]:
    """A method's final numbers."""
    row = [label, steps_of(seeds) or NONE]
    for output in OUTPUTS.values():
        found = [seed.status["outputs"].get(output) for seed in seeds]
        row.append(f"{spread(one['gap'] for one in found)}, {structure(found)}" if all(found) else NONE)
    last = [seed.status["outputs"].get("last") for seed in seeds]
    known = value is not None and all(last)
    return [*row, f"{np.mean([abs(one['objective'] - value) for one in last]):.2g}" if known else NONE]


def best_row(label: str, points: Sequence[dict[str, Any]]) -> list[str]:
    """Where in the grid each output of a method has its smallest gap."""
    row = [label]
    for output in OUTPUTS.values():
        known = [(point["outputs"].get(output, {}).get("gap"), point["steps"]) for point in points]
        finite = [(gap, steps) for gap, steps in known if gap is not None and np.isfinite(gap)]
        if not finite:
            row.append(NONE)
            continue
        gap, steps = min(finite, key=lambda one: one[0])
        where = ", ".join(f"{letter} {steps[name]:g}" for name, letter in STEPS.items() if name in steps)
        row.append(f"{gap:.3g} at {where}")
    return row


def result(one: Experiment) -> list[str]:
    """The section of one of the paper's experiments; methods whose steps were given have no grid."""
    exact = one.path / "exact.json"
    value = float(read(exact)["value"]) if exact.exists() else None
    seeds = next(iter(one.runs.values()))
    kind = "density" if seeds[0].status["outputs"]["last"]["rank"] is None else "rank"
    head = ["method", "steps", f"last: gap, {kind}", *list(OUTPUTS)[1:], "distance of `last` to the value"]
    parts = [f"### `{one.path.name}`: {one.title}", optimum(one)]
    parts.append(table(head, [final_row(label, seeds, value) for label, seeds in one.runs.items()]))
    grids = {
        label: [read(point) for point in sorted((one.path / "grid" / folder_of(label)).glob("*.json"))]
        for label in one.runs
    }
    rows = [best_row(label, points) for label, points in grids.items() if len(points) > 1]
    if rows:
        parts.append("Smallest certified gap of the whole grid on the tuning seed, by output, and where:")
        parts.append(table(["method", *OUTPUTS], rows))
    return parts


def results(experiments: Sequence[Experiment]) -> list[str]:
    """The paper's experiments, one section each."""
    shown = [one for one in experiments if one.path.name in PAPER and not one.case]
    if not shown:
        return []
    last = max(one.plan["seeds"] for one in shown) - 1
    text = (
        f"The tables have the mean and standard deviation over seeds 0 to {last}. Steps are η_s, η_c; "
        "ranks are those of X / Y. The column `clients` is\nthe output `client_average`."
    )
    return ["## Results", text, *(part for one in shown for part in result(one))]


# Studies: the same at several values of one thing.


def record(one: Experiment, seed: Seed) -> dict[str, Any]:
    """The last record of a run that is no dearer than what all runs of its case have paid."""
    return [line for line in seed.history if line["exchanges"] <= one.exchanges][-1]


def gaps(one: Experiment, label: str) -> list[float]:
    """The gaps of a method at equal cost; one without the tuned output is read by its own answer."""
    records = [(seed, record(one, seed)) for seed in one.runs[label]]
    key = f"gap_{one.output}"
    return [line[key] if key in line else line[f"gap_{seed.status['output']}"] for seed, line in records]


def cell(one: Experiment, label: str) -> str:
    """The gap of a method, in the study of the last point with its density, and below it its steps."""
    if label not in one.runs:
        return NONE
    text = spread(gaps(one, label))
    if one.case["study"] == "last-point":
        text += ", " + share(record(one, seed)["density_last"] for seed in one.runs[label])
    steps = steps_of(one.runs[label])
    return f"{text}<br>({steps})" if steps else text


def promised(one: Experiment) -> list[str]:
    """What Theorem 1 promises in each version at its own best step."""
    if not (one.path / "theory.json").exists():
        return [NONE] * len(VERSIONS)
    bounds = {b["version"]: b["total"] for b in read(one.path / "theory.json")["bounds"] if b["result"] == "Theorem 1"}
    totals = [bounds.get(version) for version in VERSIONS.values()]
    return [NONE if total is None else f"{total:.3g}" for total in totals]


def axis_table(cases: Sequence[Experiment]) -> list[str]:
    """The cases of one axis: a sentence on how they are read, and one row for each value."""
    study, axis = cases[0].case["study"], cases[0].case["axis"]
    labels = list(dict.fromkeys(label for one in cases for label in one.runs))
    theory = list(VERSIONS) if study == "rates" else []
    rows = [
        [
            f"{one.case['value']:,g}" if isinstance(one.case["value"], int | float) else str(one.case["value"]),
            *(cell(one, label) for label in labels),
            *(promised(one) if theory else []),
        ]
        for one in cases
    ]
    counts = list(dict.fromkeys(one.exchanges for one in cases))
    what = f"`{cases[0].output}`: gap" + (", density" if study == "last-point" else "")
    listed = ", ".join(map(str, counts)) + (" exchange" if counts == [1] else " exchanges")
    return [f"{what} after {listed}, by {axis}:", table([axis, *labels, *theory], rows)]


def slope(cases: Sequence[Experiment]) -> str:
    """How FeDualEx's gap changes along an axis: the slope of its logarithm by least squares."""
    points = {
        float(one.case["value"]): float(np.mean(gaps(one, "FeDualEx"))) for one in cases if "FeDualEx" in one.runs
    }
    if len(points) < 2 or min(points) <= 0 or min(points.values()) <= 0:
        return ""
    found = np.polyfit(np.log(list(points)), np.log(list(points.values())), 1)[0]
    return f"Slope of FeDualEx's log gap against the log of {cases[0].case['axis']}: {found:.2f}."


def study_section(name: str, cases: Sequence[Experiment]) -> list[str]:
    """A study: one table for each axis."""
    title = cases[0].title.replace(f": {cases[0].case['axis']} = ", "\n").partition("\n")[0]
    parts = [f"### `{name}`: {title}"]
    for axis in dict.fromkeys(one.case["axis"] for one in cases):
        along = [one for one in cases if one.case["axis"] == axis]
        if all(isinstance(one.case["value"], int | float) for one in along):
            along.sort(key=lambda one: float(one.case["value"]))
        parts += axis_table(along)
        if name == "rates":
            parts.append(slope(along))
    return parts


def studies(experiments: Sequence[Experiment]) -> list[str]:
    """All studies, one section each."""
    cases = [one for one in experiments if one.case]
    if not cases:
        return []
    seeds = sorted({one.plan["seeds"] for one in cases})
    over = " or ".join("seed 0" if count == 1 else f"seeds 0 to {count - 1}" for count in seeds)
    text = (
        f"The tables have the mean and standard deviation of the certified gap over {over}, after as many exchanges as "
        "all methods\nof the case have made, and below it the steps. A method without the output that is shown is read "
        "by its own answer."
    )
    parts = ["## Results of the studies", text]
    for name in dict.fromkeys(one.case["study"] for one in cases):
        parts += study_section(name, [one for one in cases if one.case["study"] == name])
    return parts


def page(root: Path) -> str:
    """All sections."""
    experiments = experiments_of(root)
    small = any(one.plan.get("quick") for one in experiments)
    warning = ["**These are small instances (`--quick`), not the paper's sizes.**"] if small else []
    parts = [*warning, *claims(root), *results(experiments), *studies(experiments)]
    return "\n\n".join(part for part in parts if part)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="what `fedualex reproduce --out` has written")
    print(page(parser.parse_args().folder))
