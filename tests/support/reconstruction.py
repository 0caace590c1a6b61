"""Everything that a server holds after an honest run, and attempts to solve for rows of sites from it."""

import itertools
import json
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from support.consortium import deployment, measure_few, noting
from support.patients import HOSPITALS, write

from fedualex.compiling import double
from fedualex.deploy.consortium.deployment import load_site, serve
from fedualex.deploy.consortium.messages import read_known
from fedualex.deploy.consortium.site import TableSite
from fedualex.deploy.threads import thread_engine

FEATURES = 5
GOALS = {
    "logistic": {"target": "outcome"},
    "fair": {"target": "outcome"},
    "fair, groups": {"target": "outcome", "groups": "ward"},
    "auc": {"target": "outcome"},
    "neyman-pearson": {"target": "outcome", "limit": 0.6},
    "limits": {"target": "outcome", "groups": "ward", "limit": {"A": 0.35}},
    "lasso": {"target": "days"},
    "fair-regression": {"target": "days"},
    "limits-regression": {"target": "days", "groups": "ward", "limit": {"A": 0.2}},
    "robust": {"target": "days"},
    "poisson": {"target": "visits", "exposure": "time"},
    "fair-counts": {"target": "visits"},
    "low-rank": {"target": ["days", "dose"]},
    "cox": {"time": "until", "event": "died"},
    "fair-cox": {"time": "until", "event": "died"},
    "limits-cox": {"time": "until", "event": "died", "groups": "ward", "limit": {"A": 0.99}, "least_rows": 10},
}
"""The options of each goal that a deployment may have, and of `fair` with groups that are spread over sites."""
SAME = 1e-9
"""1 - |cos| of two vectors that are the same but for a factor."""


def write_sites(folder: Path, rows: dict[str, int], settings: dict, seed: int = 0) -> None:
    """A table of random numbers for each site, with the columns that a goal needs and no others."""
    rng, counted = np.random.default_rng(seed), np.random.default_rng(seed + 1)
    target = settings.get("target", [])
    beside = [*([target] if isinstance(target, str) else target)]
    beside += [settings[key] for key in ("groups", "exposure", "time", "event") if key in settings]
    for name, count in rows.items():
        X = rng.normal(size=(count, FEATURES))
        score = X @ np.linspace(-1, 1, FEATURES) + 0.5 * rng.normal(size=count) + (name == "west")
        table = {f"f{j}": X[:, j].tolist() for j in range(FEATURES)}
        more = {
            "outcome": np.where(score + 0.01 * (np.arange(count) % 2) > 0, "sick", "well").tolist(),
            "days": (20 + 3 * score).tolist(),
            "dose": (score**2 + rng.normal(size=count)).tolist(),
            "visits": counted.poisson(np.exp(np.clip(score, -2, 2))).tolist(),
            "time": counted.uniform(0.5, 2.0, count).tolist(),
            "ward": [("A", "B", "C")[i % 3] for i in range(count)],
            "until": np.ceil(100 * counted.exponential(np.exp(-np.clip(score, -2, 2)))).tolist(),
            "died": (counted.random(count) < 0.7).astype(int).tolist(),
        }
        write(folder / f"{name}.csv", table | {column: more[column] for column in beside})


@dataclass
class Held:
    """What the server of a run has seen and kept, and beside it what it must not find."""

    asked: list = field(default_factory=list)
    """(task, number, arrays) of each exchange."""
    answered: list = field(default_factory=list)
    """(task, number, arrays) that the server made of the answers: of each site, or of their sum."""
    files: dict = field(default_factory=dict)
    """All arrays of all files in its folder."""
    rows: np.ndarray = field(default_factory=lambda: np.zeros((0, FEATURES)))
    """The rows of all sites as the loss sees them."""
    alone: list = field(default_factory=list)
    """(site, name, array) of each answer before masks."""
    told: list = field(default_factory=list)
    """(site, task, number, arrays) of each request to a site."""
    rows_of: dict = field(default_factory=dict)
    """The same rows by site."""


def hold(folder: Path, goal: str, masked: bool, rows: dict[str, int], seed: int = 0, **options) -> Held:
    """An honest run of a goal, with all that its server holds afterwards."""
    settings = GOALS[goal]
    write_sites(folder, rows, settings, seed)
    options = {"rounds": 40, "tol": 1e-3} | options
    root = deployment(folder, "on" if masked else "off", goal=goal.partition(",")[0], **settings, **options)
    measure_few(root)  # more is told then
    held, seen = Held(), []
    sites = {name: load_site(root / "sites" / name) for name in HOSPITALS}
    for name, guard in sites.items():
        guard._work = _noting(held.alone, name, guard._work)
    serve(
        thread_engine(noting(seen)({name: _telling(held.told, name, guard.work) for name, guard in sites.items()})),
        root / "server",
    )
    held.asked = [(request.task, request.round, request.arrays) for _, request, _ in seen]
    seen.sort(key=lambda one: one[0])  # sites answer at the same time, in any order
    held.answered = _sums(seen) if masked else [(q.task, q.round, arrays) for _, q, arrays in seen]
    held.files = _arrays_of(root / "server")
    known = read_known(root / "server")
    own = [TableSite(root / "sites" / name, json.loads(_settings(root, name)), None) for name in HOSPITALS]
    each = (site.recipe.rows(site.table.trained, known).X for site in own)
    held.rows_of = dict(zip(HOSPITALS, each, strict=True))
    held.rows = np.concatenate(list(held.rows_of.values()))
    return held


def pooled(folder: Path, settings: dict) -> dict:
    """The settings of a fit on the tables of all sites together."""
    own = {name: (folder / f"{name}.csv").read_text().splitlines() for name in sorted(HOSPITALS)}
    lines = [f"{line},{name}" for name, rows in own.items() for line in rows[1:]]
    (folder / "all.csv").write_text("\n".join([next(iter(own.values()))[0] + ",site", *lines]) + "\n")
    return {"table": "all.csv", "clients": "site", **settings}


def _settings(root: Path, name: str) -> str:
    return (root / "sites" / name / "deployment.json").read_text()


def _telling(told: list, name: str, work):
    """What a site is told, whether it answers or refuses."""

    def answer(request):
        told.append((name, request.task, request.round, request.arrays))
        return work(request)

    return answer


def _noting(kept: list, name: str, work):
    def noted(request):
        arrays = work(request)
        kept.extend((name, f"{request.task} {key}", np.array(a)) for key, a in arrays.items() if a.dtype.kind == "f")
        return arrays

    return noted


def _sums(seen: list) -> list:
    """What the server can make of masked answers: the sum of all sites under each nonce, and what left in the clear."""
    from fedualex.deploy.secure.sums import reveal

    exchanges: dict = {}
    for name, request, arrays in seen:
        exchanges.setdefault((request.task, request.round, request.nonce), {})[name] = arrays
    found = []
    for (task, number, nonce), answers in exchanges.items():
        whole = nonce and len(answers) == len(HOSPITALS)
        ordered = {name: answers[name] for name in sorted(answers)}
        found += [(task, number, own) for own in (reveal(ordered) if whole else ordered).values()]
    return found


def _arrays_of(folder: Path) -> dict:
    found = {}
    for file in folder.rglob("*"):
        if file.suffix == ".npz":
            with np.load(file, allow_pickle=False) as arrays:
                found |= {f"{file.name} {key}": arrays[key] for key in arrays.files if arrays[key].dtype.kind in "fiu"}
        elif file.suffix in (".json", ".jsonl"):
            for number, line in enumerate(file.read_text().splitlines() if file.suffix == ".jsonl" else [""]):
                found |= _numbers(f"{file.name} {number}", json.loads(line or file.read_text()))
    return found


def _numbers(name: str, data) -> dict:
    """The lists of numbers in plain data."""
    if isinstance(data, dict):
        return {key: a for inner, value in data.items() for key, a in _numbers(f"{name}.{inner}", value).items()}
    if isinstance(data, list) and data and all(isinstance(item, int | float) for item in data):
        return {name: np.array(data, float)}
    if isinstance(data, list):
        return {key: a for i, value in enumerate(data) for key, a in _numbers(f"{name}.{i}", value).items()}
    return {}


def candidates(held: Held) -> np.ndarray:
    """Vectors of as many entries as a row has: those that are held, their differences, and slopes of what is held.

    A number that is an affine function of the point at which it was asked for gives its slope away by least squares.
    """
    found = [_windows(array) for *_, arrays in held.answered for array in arrays.values() if array.dtype.kind == "f"]
    found += [_windows(np.asarray(array, float)) for array in held.files.values()]
    found += [_windows(matrix) for matrix in _second_derivatives(held)]
    vectors = np.concatenate([*found, np.zeros((0, FEATURES))])
    vectors = np.unique(vectors[np.all(np.isfinite(vectors), axis=1)], axis=0)
    few = vectors[:400]
    differences = (few[:, None] - few[None]).reshape(-1, FEATURES)
    return np.concatenate([vectors, differences, _slopes(held)])


def _second_derivatives(held: Held) -> list[np.ndarray]:
    """The matrices behind all triangles, their differences, and the directions in which these are long or short."""
    triangles = [a for *_, arrays in held.answered for name, a in arrays.items() if name == "curvature.xx" and a.size]
    found = []
    for triangle in np.concatenate(triangles) if triangles else ():
        size = int((2 * triangle.size + 0.25) ** 0.5)
        matrix = np.zeros((size, size))
        matrix[np.triu_indices(size)] = triangle
        found.append(matrix + np.triu(matrix, 1).T)
    found += [one - other for one, other in itertools.pairwise(found) if one.shape == other.shape]
    return found + [np.linalg.eigh(matrix)[1].T for matrix in found]


def _windows(array: np.ndarray) -> np.ndarray:
    """All runs of FEATURES entries along the last axis, and along the one before it."""
    kinds = [array] if array.ndim < 2 else [array, np.swapaxes(array, -1, -2)]
    return np.concatenate(
        [
            np.lib.stride_tricks.sliding_window_view(one, FEATURES, axis=-1).reshape(-1, FEATURES)
            if one.ndim and one.shape[-1] >= FEATURES
            else np.zeros((0, FEATURES))
            for one in kinds
        ]
    )


def _slopes(held: Held) -> np.ndarray:
    """Of each entry of operators and values, least squares against the weights at which it was asked for."""
    asked = {number: arrays for task, number, arrays in held.asked if task == "survey"}
    answers: dict = {}
    for task, number, arrays in held.answered:
        if task == "survey" and np.any(arrays["values"]):
            answers.setdefault(number, []).append(arrays)
    points, said = [], []
    for number, replies in answers.items():
        at = asked[number]
        x = np.concatenate([a.reshape(len(a), -1) for name, a in sorted(at.items()) if ".x" in name], axis=1)
        each = [np.concatenate([a.reshape(len(x), -1) for _, a in sorted(one.items())], axis=1) for one in replies]
        points.append(x)
        said.append(np.concatenate(each, axis=1))
    if not points:
        return np.zeros((0, FEATURES))
    x, values = np.concatenate(points), np.concatenate(said)
    with double():
        slope = np.linalg.lstsq(np.concatenate([x, np.ones((len(x), 1))], axis=1), values, rcond=None)[0]
    return _windows(slope[:-1].T)


def found_rows(held: Held, vectors: np.ndarray | None = None) -> int:
    """How many rows of sites are among the candidates, but for a factor."""
    return int(np.sum(_nearest(held.rows, candidates(held) if vectors is None else vectors) < SAME))


def _nearest(wanted: np.ndarray, vectors: np.ndarray) -> np.ndarray:
    """For each wanted vector 1 - |cos| to the nearest candidate."""
    lengths = np.linalg.norm(vectors, axis=1)
    units = vectors[lengths > 1e-12] / lengths[lengths > 1e-12, None]
    own = wanted / np.linalg.norm(wanted, axis=1, keepdims=True)
    least = np.full(len(own), np.inf)
    for part in np.array_split(units, max(1, len(units) // 50_000)):
        # |u -+ v|^2 = 2 (1 -+ cos), which does not lose the digits that 1 - cos would
        cosines = own @ part.T
        best = np.argmax(np.abs(cosines), axis=1)
        signs = np.sign(cosines[np.arange(len(own)), best])[:, None]
        least = np.minimum(least, np.sum((own - signs * part[best]) ** 2, axis=1) / 2)
    return least


def found_gradients(held: Held) -> int:
    """How many gradients of single sites are among what the server holds under masks, but for a factor.

    One that all sites have alike, as at 0 where it follows from merged summaries, is no site's own.
    """
    own = [(name, array) for name, key, array in held.alone if "operators" in key]
    return found_vectors(own, [a for *_, arrays in held.answered for a in arrays.values() if a.dtype.kind == "f"])


def found_vectors(own: list, arrays: list) -> int:
    """How many runs of FEATURES entries of (site, array) are among arrays, but for a factor, and no other site's too."""
    sites = sorted({site for site, _ in own})
    each = {site: np.concatenate([_windows(a) for name, a in own if name == site]) for site in sites}
    sent = np.concatenate([np.zeros((0, FEATURES)), *map(_windows, arrays)])
    count = 0
    for site, vectors in each.items():
        others = np.concatenate([other for name, other in each.items() if name != site])
        vectors = vectors[np.linalg.norm(vectors, axis=1) > 1e-9]
        count += int(np.sum((_nearest(vectors, sent) < SAME) & (_nearest(vectors, others) > SAME)))
    return count
