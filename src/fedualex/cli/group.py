"""The commands, under one name."""

import click

from .catalogue import methods, problems, theory
from .common import Commands
from .deploy import deploy
from .field import benchmark
from .fit import evaluate, explain, fit, predict, summary
from .paper import demo, reproduce
from .runs import compare, figures, report, solve, verify


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="fedualex")
def main() -> None:
    """Federated composite saddle point optimization, with a certificate for every answer."""


for command in (
    demo,
    fit,
    predict,
    evaluate,
    explain,
    summary,
    solve,
    deploy,
    reproduce,
    compare,
    benchmark,
    report,
    figures,
    verify,
    theory,
    methods,
    problems,
):
    main.add_command(command)
