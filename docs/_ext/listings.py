"""A line `.. listing:: methods` of the reference stands for every member that the package itself lists.

A new method, problem, recipe or estimator is then on its page of the reference without a line there.
"""

import inspect
import re
from collections.abc import Callable
from typing import Any

import fedualex as fx
from fedualex.runs.settings import METHODS, PROBLEMS


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


def expanded(page: str) -> str:
    """The page with what autodoc is asked for in place of each listing."""
    return re.sub(r"^\.\. listing:: (.+)$", lambda line: "\n".join(lines(line[1])), page, flags=re.MULTILINE)


def lines(listing: str) -> list[str]:
    """What autodoc is asked for."""
    room, names = LISTINGS[listing]()
    found = {name: getattr(getattr(fx, room), name) for name in names}
    return [
        f".. auto{'class' if inspect.isclass(one) else 'function'}:: "
        f"fedualex.{name if name in fx.__all__ else f'{room}.{name}'}"
        for name, one in found.items()
    ]
