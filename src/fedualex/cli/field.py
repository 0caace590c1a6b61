"""`fedualex benchmark`: methods side by side on the field's problems."""

from pathlib import Path
from typing import TypeVar

import click

from .common import echo, json_option, one_line_errors, out_option, print_json
from .paper import progress

T = TypeVar("T")
FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.command()
@click.option("--quick", is_flag=True, help="Small problems, few tries: some minutes.")
@click.option("--add", type=FILE, help="A Python file of your own.")
@click.option("--methods", help="Labels of the methods to run, separated by commas; all if left out.")
@click.option("--problems", help="Names of the problems to run, separated by semicolons; all if left out.")
@click.option("--heart", type=FILE, help="The table of heart disease (CSV).")
@click.option("--tcga", type=FILE, help="FLamby's table of TCGA-BRCA (CSV).")
@out_option(default="runs/benchmark", show_default=True, help="Where results and page go; what is there is kept.")
@json_option
@one_line_errors
def benchmark(
    quick: bool,
    add: Path | None,
    methods: str | None,
    problems: str | None,
    heart: Path | None,
    tcga: Path | None,
    out: Path,
    as_json: bool,
) -> None:
    """Every method on every problem, tuned by the same number of tries and judged by the certificate.

    A file for --add defines METHODS = {label: method} and PROBLEMS = {name: problem}, or one of them. It is run.
    A benchmark that was cut off goes on where it was.
    """
    from .. import field

    tasks = {name: task for name, task in field.FIELD.items() if task.quick or not quick}
    entrants = dict(field.METHODS)
    if heart:
        tasks["worst center, heart disease"] = field.Task(lambda: field.heart(heart))
    if tcga:
        tasks["times, TCGA-BRCA"] = field.Task(lambda: field.breast_cancer_times(tcga))
    if add:
        more_tasks, more_entrants = field.read_additions(add)
        tasks, entrants = tasks | more_tasks, entrants | more_entrants
    tasks, entrants = _choose(problems, ";", tasks, "problems"), _choose(methods, ",", entrants, "methods")
    with progress() as show:
        results = field.benchmark(
            out,
            problems=tasks,
            methods=entrants,
            quick=quick,
            show=lambda name, label, done, total: show("benchmark", "runs", done, total),
        )
    page = field.write_page(results)[0]
    if as_json:
        solved = {f"{level:g}": field.count_solved(results, level) for level in field.LEVELS}
        print_json({"folder": str(out), "page": str(page), "solved": solved, "problems": results.problems})
        return
    echo(field.headline(results))
    echo(f"page: {page}")


def _choose(given: str | None, separator: str, every: dict[str, T], what: str) -> dict[str, T]:
    """Those that are named, in the order of the list."""
    if given is None:
        return every
    wanted = [name.strip() for name in given.split(separator)]
    if unknown := [name for name in wanted if name not in every]:
        raise ValueError(f"--{what}: there is no {unknown[0]!r}; there are {separator.join(every)}")
    return {name: one for name, one in every.items() if name in wanted}
