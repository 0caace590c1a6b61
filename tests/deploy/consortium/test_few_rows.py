"""What sums would tell of few rows: columns, classes and folds that set them apart, and what keeps it back."""

import json

import numpy as np
import pytest
from support.command_line import cli
from support.consortium import deployment, noting, run_in_threads
from support.patients import HOSPITALS, write
from support.reconstruction import _sums, write_sites

from fedualex.data import Coding, Table, read_csv
from fedualex.deploy.clients import SilentSitesError
from fedualex.deploy.consortium.messages import read_known
from fedualex.deploy.consortium.site import Counted, TableSite, merge_rare, refuse_rare_pairs
from fedualex.deploy.policy import LEAST_PART, POLICY, Policy, Release, SiteFacts
from fedualex.runs.settings import ConfigurationError
from fedualex.summaries import merge_summaries
from fedualex.tables.folds import known_by_fold
from fedualex.tables.party import Party, agree
from fedualex.tables.recipe import TableRecipe

ROWS = {"east": 40, "north": 34, "west": 30}
FIRST_ORDER = {"rounds": 40, "tol": 1e-9, "method": {"name": "FeDualSlide"}}


def rewrite(file, change):
    """A table with changed columns."""
    header, *rows = [line.split(",") for line in file.read_text().splitlines()]
    write(file, change({name: [row[i] for row in rows] for i, name in enumerate(header)}))


def prepared(folder, masked, changes, rule, target="outcome", **options):
    """A deployment of three sites whose tables are changed and whose own rules are these."""
    folder.mkdir()
    write_sites(folder, ROWS, {"target": target or "outcome"})
    for name in HOSPITALS:
        rewrite(folder / f"{name}.csv", changes.get(name, lambda table: table))
    asked = {name: value for name, value in {"target": target, "goal": "logistic", **options}.items() if value}
    root = deployment(folder, "on" if masked else "off", **asked)
    for name in HOSPITALS:
        (root / "sites" / name / POLICY).write_text(rule)
    return root


# A column in which few rows differ from all others.


def mark(rows):
    return lambda table: {**table, "f4": [int(2 <= i < 2 + rows) for i in range(len(table["f4"]))]}


def solved_from_slopes(root, seen, masked):
    """The distance to the nearest row of what slopes by the last column lead to, if one row alone has made them.

    The slope of a logistic loss tells the score of its row, and scores at several models tell the row.
    """
    known = read_known(root / "server")
    place = known[0]["columns"].tolist().index("f4")
    mean = known[0]["total"][place] / known[0]["count"][place]
    deviation = np.sqrt(known[1]["squares"][-1] / known[0]["count"][place])
    asked = {request.round: request.arrays for _, request, _ in seen if request.task == "survey"}
    told = _sums(seen) if masked else [(q.task, q.round, arrays) for _, q, arrays in seen]
    points, slopes = [], []
    for _, number, answer in (one for one in told if one[0] == "survey" and "values" in one[2]):
        own = deviation * answer["operators.x['weights']"][:, -1] + mean * answer["operators.x['bias']"]
        at = asked[number]
        points += np.column_stack([at["points.x['weights']"], at["points.x['bias']"]]).tolist()
        slopes += own.tolist()
    sites = [
        TableSite(root / "sites" / n, json.loads((root / "sites" / n / "deployment.json").read_text()), None)
        for n in HOSPITALS
    ]
    each = [site.recipe.rows(site.table.trained, known).X[:, :-1] for site in sites]
    return min(
        nearest(np.array(points), np.array(slopes) * rows, np.concatenate(each))
        for rows in ([sum(map(len, each))] if masked else map(len, each))
    )


def nearest(points, slopes, rows):
    """Of the row that these slopes lead to."""
    fine, least = (np.abs(slopes) > 1e-9) & (np.abs(slopes) < 1 - 1e-9), np.inf
    share = np.abs(slopes[fine])
    for sign in (-1, 1) if fine.sum() > points.shape[1] else ():
        score = sign * np.log(share / (1 - share)) - points[fine, -1]
        row = np.linalg.lstsq(points[fine, :-1], score, rcond=None)[0][: rows.shape[1]]
        least = min(least, float(np.min(np.max(np.abs(rows - row), axis=1))))
    return least


@pytest.mark.parametrize("masked", [False, True], ids=["plain", "masked"])
def test_a_row_that_a_column_sets_apart_follows_from_slopes_unless_it_is_told_as_the_others(tmp_path, masked):
    """In an honest run: the slope by such a column is the slope of that row."""
    changes, distance = {"east": mark(1), "north": mark(0), "west": mark(0)}, {}
    for number, rule in enumerate(("", "least_category = 5\n")):
        root, seen = prepared(tmp_path / str(number), masked, changes, rule, **FIRST_ORDER), []
        run_in_threads(root, noting(seen))
        distance[rule] = solved_from_slopes(root, seen, masked)
    assert distance[""] < 1e-6
    assert distance["least_category = 5\n"] > 1e-3


@pytest.mark.parametrize(
    ("column", "coding", "told", "words"),
    [
        ([0, 1, 0, 0, 0, 0, 0, 0], "mean", [0] * 8, "f 1 (1)"),
        (["", "", "", "", "", "", "", "2.5"], "mean", [""] * 8, "f 2.5 (1)"),
        (["a", "a", "a", "a", "a", "a", "b", "c"], "mean", ["a"] * 8, "f b (1), c (1)"),
        (["a", "a", "a", "b", "b", "b", "c", "d"], "mean", ["a"] * 3 + ["b"] * 3 + ["a"] * 2, "f c (1), d (1)"),
        (["a", "a", "a", "a", "b", "b", "c", "d"], "mean", ["a"] * 4 + ["other"] * 4, "f b (2), c (1), d (1)"),
        (["a", "a", "a", "a", "b", "b", "b", ""], "mean", ["a"] * 4 + ["b"] * 3 + ["a"], "f missing (1)"),
        ([1.5, 2.5, 3.5, 4.5, 5.5, 6.5, 7.5, ""], "mean", [1.5, 2.5, 3.5, 4.5, 5.5, 6.5, 7.5, ""], ""),
        (
            [1.5, 2.5, 3.5, 4.5, 5.5, 6.5, 7.5, ""],
            "indicator",
            [1.5, 2.5, 3.5, 4.5, 5.5, 6.5, 7.5, 4.5],
            "f missing (1)",
        ),
    ],
)
def test_few_values_of_a_column_are_told_as_the_others(tmp_path, column, coding, told, words):
    """With least_category = 3; held-out rows do not count, and numbers of them stay as they are."""
    recipe = TableRecipe("logistic", "y", coding=Coding(missing=coding))
    rest = "z" if isinstance(column[0], str) and column[0] else 9
    columns = {"f": [*column, rest], "y": ["A", "B"] * 4 + ["A"], "g": [*range(9)]}
    table = read_csv(write(tmp_path / "t.csv", columns))
    found, rare = merge_rare(table, Counted(np.arange(8), np.ones(8, bool)), recipe, 3)
    whole, _ = merge_rare(table, Counted(np.arange(8), np.ones(8, bool)), recipe, 0)
    assert ["" if value != value else value for value in found["f"].tolist()][:8] == told
    assert found["f"][8] == whole["f"][8]
    assert "; ".join(f"{name} {', '.join(f'{v} ({n})' for v, n in one.rows.items())}" for name, one in rare) == words


def test_products_of_columns_that_set_few_rows_apart_are_refused(tmp_path):
    """Each of two values has rows enough; two together have not, words or numbers."""
    columns = {"f": ["a"] * 4 + ["b"] * 4, "g": [0, 0, 0, 1, 1, 1, 1, 1], "h": range(8)}
    table = read_csv(write(tmp_path / "t.csv", columns | {"y": ["A", "B"] * 4}))

    def interact(*pair):
        return TableRecipe("logistic", "y", coding=Coding(interact=(pair,)))

    with pytest.raises(ConfigurationError, match=r"interact: fewer than 3 rows of .* have f = a, g = 1"):
        refuse_rare_pairs(table, interact("f", "g"), 3)
    refuse_rare_pairs(table, interact("f", "g"), 0)
    refuse_rare_pairs(table, interact("f", "h"), 3)


def test_rows_without_weight_do_not_hide_others(tmp_path):
    recipe = TableRecipe("logistic", "y")
    table = read_csv(write(tmp_path / "t.csv", {"f": [1, 1, 1, 0, 0, 0, 0, 0], "y": ["A", "B"] * 4}))
    weighs = np.array([True, False, False, True, True, True, True, True])
    assert merge_rare(table, Counted(np.arange(8), np.ones(8, bool)), recipe, 3)[1] == []
    assert merge_rare(table, Counted(np.arange(8), weighs), recipe, 3)[0]["f"].tolist() == [0] * 8


# Classes, events and targets of which there are few rows.


def sick(rows):
    """So many rows have the first class."""
    return lambda table: {**table, "outcome": ["sick" if i < rows else "well" for i in range(len(table["outcome"]))]}


def events(rows):
    def change(table):
        n = len(table["outcome"])
        return {**table, "outcome": [int(i < rows) for i in range(n)], "time": [1.5 + (i % 7) for i in range(n)]}

    return change


def counts(rows):
    return lambda table: {**table, "outcome": [3 * (i < rows) for i in range(len(table["outcome"]))]}


FEW = {
    "logistic": (sick, {"target": "outcome"}),
    "neyman-pearson": (sick, {"target": "outcome", "limit": 0.6}),
    "auc": (sick, {"target": "outcome"}),
    "poisson": (counts, {"target": "outcome"}),
    "cox": (events, {"target": "", "time": "time", "event": "outcome"}),
}


@pytest.mark.parametrize("goal", FEW)
def test_sums_over_a_class_or_over_events_of_few_rows_leave_under_masks_and_with_enough_of_all_sites(tmp_path, goal):
    """One row of a class is its own sum. Of all sites together every one can be told how many there are, before."""
    few, settings = FEW[goal]
    for masked in (False, True):
        for rows in (1, 2 * LEAST_PART):  # some are held out
            changes = {name: few(rows if name == "east" else 0 if masked else 9) for name in HOSPITALS}
            place = tmp_path / f"{masked}{rows}"
            root = prepared(place, masked, changes, "", goal=goal, rounds=2, **settings)
            if rows > 1:
                run_in_threads(root)
                continue
            whose = "of all sites together" if masked else "of its own, or under masks"
            with pytest.raises(SilentSitesError, match=f"events of {LEAST_PART} rows or more {whose}"):
                run_in_threads(root)


def parties(goal, rows, few, **options):
    rng = np.random.default_rng(0)
    recipe = TableRecipe(goal, "y", options={"l1": "auto", **options})
    for m, (count, rare) in enumerate(zip(rows, few, strict=True)):
        columns = {f"f{j}": rng.normal(size=count) for j in range(4)}
        table = Table(columns | {"y": np.where(np.arange(count) < rare, "sick", "well")}, f"site {m}")
        yield Party(recipe, m, table, f"site {m}")


def folds_of(found, known):
    """What a server makes of the summaries of folds, with and without each: sums over rows, and rows that are some."""
    folded = [party.fold(known) for party in found]
    rows = np.concatenate([party.rows(known).X for party in found])
    told, solved = [[] for _ in range(6)], 0
    for _ in range(folded[0].recipe.exchanges):
        by = known_by_fold(merge_summaries([own.summarize(told) for own in folded]), 6)
        for name in by[5]:
            if np.shape(by[5][name])[-1:] == (4,):
                differences = np.concatenate([(by[5][name] - by[k][name]).reshape(-1, 4) for k in range(5)])
                solved += sum(np.min(np.max(np.abs(rows - one), axis=1)) < 1e-9 for one in differences if np.any(one))
        told = [[*own, part] for own, part in zip(told, by, strict=True)]
    return solved, folded, [own[0] for own in told]


@pytest.mark.parametrize(("goal", "options"), [("logistic", {}), ("neyman-pearson", {"limit": 0.6})])
@pytest.mark.parametrize("masked", [False, True], ids=["plain", "masked"])
def test_no_class_of_few_rows_is_told_by_a_fold(goal, options, masked):
    """The sum of a class with a fold, less that without it, is that of the fold: of one row, that row."""
    for few, apart in ((1 if masked else 3, True), (60, False)):
        found = list(parties(goal, (150, 150, 150), (few, few, few), **options))
        known = agree(found)
        solved, folded, first = folds_of(found if masked else found[:1], known)
        assert (solved > 0) == apart
        own, total = folded[0].fewest_of_parts(first)
        asked = Release("fold-summary", 6, fold=25, parts=(own, total))
        why = Policy().why_not_released(asked, SiteFacts(rows=150), masked)
        assert (why is not None) == (total < LEAST_PART if masked else own < LEAST_PART)
        assert why is not None or not apart


def test_check_says_that_a_class_of_few_rows_keeps_a_site_in_the_clear_from_answering(tmp_path):
    root = prepared(tmp_path / "few", False, {"east": sick(1)}, "")
    said = cli("deploy", "check", root / "sites" / "east")
    assert f"events of {LEAST_PART} rows or more of its own, or under masks" in said.output


def test_nothing_is_told_of_folds_where_the_groups_are_the_sites_and_sums_are_masked(tmp_path):
    """The loss of a group on a fold would be that of one site, which zeros of the others do not hide."""
    root, seen = prepared(tmp_path / "fair", True, {}, "", goal="fair", l1="auto", rounds=3), []
    run_in_threads(root, noting(seen))
    asked = {request.task for _, request, _ in seen}
    assert "survey" in asked
    assert not asked & {"fold-summary", "path", "fold-losses"}
    said = json.loads((root / "server" / "penalty.json").read_text())["sentence"]
    assert "a default that was not chosen by held-out rows" in said
    assert "folds that are whole sites" in said
