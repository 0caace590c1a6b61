"""What a page of the site leaves to the package: members of a room, and tables of options.

A line `.. listing:: methods` of the reference stands for every member that the package itself lists, and the comment
`<!-- the options of fx.solve -->` for the table of these options. A new method, problem, name of a room or option is
then on its pages without a line there.
"""

import inspect
import re
from collections.abc import Callable
from typing import Any

import fedualex as fx
from fedualex.deploy.policy import Policy
from fedualex.deploy.task import DeploymentOptions
from fedualex.runs.settings import METHODS, PROBLEMS
from fedualex.runtime.options import SolveOptions, table


def setup(app: Any) -> dict[str, bool]:
    """Expand every page before it is read."""
    app.connect("source-read", lambda app, page, source: source.__setitem__(0, expanded(source[0])))
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def methods(one_machine: bool) -> list[str]:
    """Those with clients, or those of one machine."""
    return [name for name, make in METHODS.items() if make().one_machine is one_machine]


def classes(room: Any, kind: type) -> list[str]:
    """The public classes of a room that are of a kind."""
    found = ((name, getattr(room, name)) for name in room.__all__)
    return [name for name, one in found if inspect.isclass(one) and issubclass(one, kind) and one is not kind]


LISTINGS: dict[str, Callable[[], tuple[str, list[str]]]] = {
    "methods": lambda: ("algorithms", methods(one_machine=False)),
    "methods of one machine": lambda: ("algorithms", methods(one_machine=True)),
    "problems": lambda: ("problems", list(PROBLEMS)),
    "recipes": lambda: ("problems", classes(fx.problems, fx.problems.AbstractRecipe)),
    "classifiers": lambda: ("estimators", classes(fx.estimators, fx.estimators.FederatedClassifier)),
    "regressors": lambda: ("estimators", classes(fx.estimators, fx.estimators.FederatedRegressor)),
}

OPTIONS: dict[str, Callable[[], str]] = {
    "fx.solve": lambda: table(SolveOptions),
    "fx.deploy.run": lambda: table(DeploymentOptions, SolveOptions),
    "a site": lambda: table(Policy),
}
"""The tables of options by whose they are; that of a deployment leaves out what `fx.solve` has alike."""


def expanded(page: str) -> str:
    """The page with what autodoc is asked for in place of each listing, and the tables of options."""
    page = re.sub(r"^<!-- the options of (.+) -->$", lambda line: OPTIONS[line[1]](), page, flags=re.MULTILINE)
    return re.sub(r"^\.\. listing:: (.+)$", lambda line: "\n".join(lines(line[1])), page, flags=re.MULTILINE)


def lines(listing: str) -> list[str]:
    """What autodoc is asked for: the members of a kind, or all names of a room with the members of its classes."""
    if listing.startswith("names of "):
        room = listing.removeprefix("names of ")
        return [line for name in getattr(fx, room).__all__ for line in entry(room, name, ("    :members:",))]
    room, names = LISTINGS[listing]()
    return [line for name in names for line in entry(room, name)]


def entry(room: str, name: str, members: tuple[str, ...] = ()) -> list[str]:
    """The directive for one name, as the package itself has it if it does."""
    one = getattr(getattr(fx, room), name)
    public = f"fedualex.{name if name in fx.__all__ else f'{room}.{name}'}"
    if inspect.isclass(one):
        return [f".. autoclass:: {public}", *members]
    return [f".. autofunction:: {public}"] if callable(one) else [f".. autodata:: {public}", "    :no-value:"]
