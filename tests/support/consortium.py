"""Parties that each have a table of their own."""

import numpy as np
from support.patients import HOSPITALS, columns, write

from fedualex.data import read_csv
from fedualex.data.partitions import choose_held_out
from fedualex.deploy.consortium.deployment import load_site, serve
from fedualex.deploy.consortium.kit import write_table_deployment
from fedualex.deploy.party import Layout
from fedualex.deploy.threads import thread_engine
from fedualex.summaries import merge_summaries
from fedualex.tables.party import Party
from fedualex.tables.recipe import TableRecipe

GOAL_SETTINGS = {
    "logistic": {"target": "outcome"},
    "fair": {"target": "outcome", "groups": "ward"},
    "auc": {"target": "outcome", "weights": "unit"},
    "neyman-pearson": {"target": "outcome", "limit": 0.5},
    "lasso": {"target": "days", "weights": "dose"},
    "fair-regression": {"target": "days"},
    "robust": {"target": "days"},
    "poisson": {"target": "dose", "exposure": "unit"},
    "fair-counts": {"target": "dose"},
    "low-rank": {"target": ["days", "dose"]},
}


def recipe_for(goal: str) -> TableRecipe:
    settings = dict(GOAL_SETTINGS[goal])
    target = settings.pop("target")
    target = target if isinstance(target, str) else tuple(target)
    columns = target, *(settings.pop(name, None) for name in ("groups", "weights", "exposure"))
    return TableRecipe(goal, *columns, settings)


def parts_of(path, target="outcome") -> dict:
    """The rows that each hospital trains on, without the column that says whose they are."""
    whole = read_csv(path)
    found = {}
    for name in HOSPITALS:
        own = whole.take(whole["hospital"] == name).without("hospital")
        test = choose_held_out(own.pick(target), 0.2)
        found[name] = own.take(np.setdiff1d(np.arange(own.rows), test))
    return found


def known_of(recipe: TableRecipe, parts: dict) -> list:
    """All merged summaries."""
    known: list = []
    for _ in range(recipe.exchanges):
        known.append(
            merge_summaries(Party(recipe, m, table).summarize(known) for m, table in enumerate(parts.values()))
        )
    return known


def write_tables(folder, rows=150, without=("days",), seed=0) -> None:
    """A CSV file for each hospital, and one of all."""
    whole = columns(rows, seed)
    write(folder / "all.csv", whole, without=without)
    for name in HOSPITALS:
        own = [i for i, hospital in enumerate(whole["hospital"]) if hospital == name]
        table = {key: [values[i] for i in own] for key, values in whole.items() if key != "hospital"}
        write(folder / f"{name}.csv", table, without=without)


def given(goal: str) -> dict:
    """A penalty, where it takes too long to choose one."""
    return {"nuclear": 0.01} if goal == "low-rank" else {"l1": 0.004, "l2": 0.008}


def deployment(folder, secure_sums="off", name="deployment", server=(), run=(), method=None, **fit):
    """A deployment of the hospitals' tables, which are beside it; without masks, for tests look at what sites send."""
    sites = {name: {"table": str(folder / f"{name}.csv")} for name in HOSPITALS}
    run = {"secure_sums": secure_sums, "timeout": 300.0, "patience": 0.1, **dict(run)}
    goal = fit.get("goal", "fair")
    target = {} if "time" in fit else {"target": "outcome"}
    chosen = {"goal": goal, **target, **given(goal), **fit}
    write_table_deployment(folder / name, chosen, sites, dict(server), run, method)
    return folder / name


def measure_few(root) -> None:
    """Sites measure models on few rows, as those of small tables hold out."""
    for site in (root / "sites").iterdir():
        with (site / "policy.toml").open("a") as file:
            file.write("least_held_out = 5\n")


def run_in_threads(root, wrap=lambda works: works):
    """The whole run with all parties in this process. wrap: what happens on the way to sites."""
    works = {name: load_site(root / "sites" / name).work for name in Layout(root).sites()}
    return serve(thread_engine(wrap(works)), root / "server")


def noting(seen: list):
    """For `run_in_threads`: who was asked what, and answered what, is added to `seen`."""

    def noted(name, work):
        def answer(request):
            arrays = work(request)
            seen.append((name, request, arrays))
            return arrays

        return answer

    return lambda works: {name: noted(name, work) for name, work in works.items()}
