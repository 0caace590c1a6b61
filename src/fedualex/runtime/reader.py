"""The outputs of a state: points that clients are asked about, and bounds that follow from all surveys."""

import dataclasses
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

import jax.numpy as jnp
import numpy as np

from .. import tree
from ..algorithms import AbstractMethod
from ..compiling import compiled
from ..geometry import AbstractGeometry, Product
from ..problems import AbstractProblem
from ..tree import Tree
from .clients import Clients
from .evaluator import Evaluator
from .kinds import polishing
from .missing import Missing
from .outputs import Output, projected, unstacked
from .state import Setup, State, Sums
from .trace import no_trace, traced


class Reader:
    """Reads outputs from states, and remembers what their surveys say together. Call within `double()`.

    polish: the steps that are tried for the polished output.
    """

    def __init__(self, evaluator: Evaluator, setup: Setup, clients: Clients, polish: Any):
        self.evaluator, self.setup, self.clients, self.polish = evaluator, setup, clients, polish
        # Without anything known beforehand, bounds of both sides say little more than the certificates themselves.
        traceless = setup.method.exchanging or evaluator.reason or evaluator.problem.floor is None
        self.trace = None if traceless else no_trace(evaluator.problem)

    def outputs(self, state: State, everything: bool) -> dict[str, Output] | Missing:
        """The outputs of a state; before the first round all are its point."""
        if self.setup.method.exchanging:
            return self._bounded(state.server)
        outputs = self._asked(state, everything)
        if isinstance(outputs, Missing) or self.trace is None:
            return outputs
        several = [outputs["last"], min(outputs.values(), key=gap_of)]
        # The value as an array: as a number of Python it would be part of the program, and compiled for.
        points = [(output.z, output.operator, np.asarray(output.value)) for output in several]
        self.trace = traced(self.evaluator.problem, self.trace, points)
        return outputs | self._traced()

    def _traced(self) -> dict[str, Output]:
        """What all surveys so far bound, if they do."""
        if self.trace is not None and self.trace.bounds.known:
            with suppress(FloatingPointError):
                return {"bounds": self.evaluator.bounded(self.trace.bounds)}
        return {}

    def _bounded(self, server: Any) -> dict[str, Output]:
        """What the server's own surveys bound."""
        if not server.bounds.known:
            return self.evaluator.unanswered({"bounds": server.at}, "nobody was asked for an operator yet")
        return {"bounds": self.evaluator.bounded(server.bounds)}

    def _asked(self, state: State, everything: bool) -> dict[str, Output] | Missing:
        """The outputs that clients are asked about."""
        points = self._points(state, everything)
        if self.clients.unsurveyed:
            return _unpolished(self.evaluator.unanswered(points, self.clients.unsurveyed))
        if float(state.sums.weight) == 0:  # one point for all
            found = self.evaluator.certified({"last": points["last"]})
            return found if isinstance(found, Missing) else _unpolished(dict.fromkeys(points, found["last"]))
        outputs = self.evaluator.certified(points)
        if isinstance(outputs, Missing):
            return outputs
        for kind in polishing(points):
            polished = self.evaluator.polished(outputs[kind.polishes], self.polish)
            if isinstance(polished, Missing):
                return polished
            outputs[kind.name] = polished
        return outputs

    def _points(self, state: State, everything: bool) -> dict[str, Tree]:
        points = points_in_domain(self.evaluator.problem, self.clients.setup, state, self.clients.averages)
        return {name: z for name, z in points.items() if everything or name in ("last", "ergodic")}

    def unanswered(self, state: State, reason: str) -> dict[str, Output]:
        """The outputs of a state without certificates, for this reason; bounds from earlier surveys stay."""
        points = _unpolished(self.evaluator.unanswered(self._points(state, everything=True), reason))
        return points | self._traced()


def exchanges_of(setup: Setup, state: State) -> int:
    """Round trips of the method until this state; those for certificates alone are not counted."""
    method = setup.method
    return int(state.server.exchanges) if method.exchanging else int(state.round) * method.exchanges


def points_of(setup: Setup, state: State, averages: Iterable[str]) -> dict[str, Tree]:
    """The point of a state, and averages so far; before the first round all are its point."""
    return _points(setup.method, setup.problem.geometry, state.server, state.sums, averages)


def points_in_domain(exact: AbstractProblem, setup: Setup, state: State, averages: tuple[str, ...]) -> dict[str, Tree]:
    """The same as the nearest points of the domain, in float64."""
    if setup.method.exchanging:  # it asks about points of the domain only
        return {"last": setup.method.point(state.server, setup.problem.geometry)}
    names = ("last", *averages)
    found = _read(exact.geometry, setup.method, setup.problem.geometry, state.server, state.sums, averages)
    return dict(zip(names, unstacked(found), strict=True))


@compiled
def _read(
    reports: Product, method: AbstractMethod, geometry: Product, server: Tree, sums: Sums, averages: tuple[str, ...]
) -> Tree:
    return projected(reports, list(_points(method, geometry, server, sums, averages).values()))


def _points(
    method: AbstractMethod, geometry: AbstractGeometry, server: Tree, sums: Sums, averages: Iterable[str]
) -> dict[str, Tree]:
    last, some = method.point(server, geometry), sums.weight > 0
    inverse = 1 / jnp.where(some, sums.weight, 1)
    means = {name: tree.scale(inverse, sums.points[name]) for name in averages}
    return {"last": last} | {name: tree.where(some, mean, last) for name, mean in means.items()}


def _unpolished(outputs: dict[str, Output]) -> dict[str, Output]:
    """All outputs by their names, where there is nothing to polish with: a polished one is what it would be made of."""
    whole = outputs | {kind.name: outputs[kind.polishes] for kind in polishing(outputs)}
    return {name: dataclasses.replace(output, name=name) for name, output in whole.items()}


def gap_of(output: Output | None) -> float:
    """The certified gap of an output, infinite where it has none."""
    return float("inf") if output is None or output.gap is None else output.gap
