"""Records of a run: certificates and cost so far, the best point, and what they say about stopping."""

import dataclasses
from pathlib import Path
from typing import Any

import jax

from .. import tree
from ..tree import Tree
from . import checkpoint as checkpoints
from .outputs import Evaluator, Output
from .rounds import Setup, State
from .run import Run, columns
from .status import Status

NEGLIGIBLE = 1e-9
"""A certificate below this share of the first one is rounding: growing from there is not divergence."""

Record = dict[str, Any]


class Records:
    """Records, the best certificates so far, and what they say about stopping."""

    kept: tuple[str, ...] = ("ergodic", "clients")
    """The averages whose sums are kept. A deployment keeps fewer: those behind `ergodic` cost K-fold."""

    def __init__(self, evaluator: Evaluator, grid: Any, setup: Setup, rounds: int, tol: Any, output: Any, every: int):
        self.evaluator, self.grid, self.setup = evaluator, grid, setup
        self.rounds, self.tol, self.output, self.every = rounds, tol, output, every
        self.all: list[Record] = []
        self.best: Output | None = None

    def record(self, state: State, seconds: float, traffic: tuple[int, int]) -> Record:
        """Certificates and structure of `last` and `ergodic` (of all if there is a tol), and the cost so far."""
        outputs = self.outputs(state, everything=self.tol is not None or self.output in ("clients", "polished"))
        record: Record = {"round": int(state.round), "seconds": seconds}
        record |= {"bytes_up": traffic[0], "bytes_down": traffic[1]}
        for name, output in outputs.items():
            record[f"gap_{name}"] = output.gap
            record[f"density_{name}"] = output.density
            record[f"rank_{name}"] = output.rank
            if output.gap is not None and (self.best is None or output.gap < (self.best.gap or 0)):
                self.best = output
        self.all.append(record)
        return record

    def save(self, file: Path, state: Tree, run_id: str) -> None:
        """Write a checkpoint: the state, the best point so far, and the records."""
        best = None if self.best is None else (self.best.name, self.best.z)
        checkpoints.save(file, (state, None if best is None else best[1]), self.all, run_id, best and best[0])

    def resume(self, file: Path, state: Tree, run_id: str) -> Any:
        """Go on from a checkpoint, exactly as if the run had not stopped."""
        best = None if self.evaluator.reason else self.evaluator.problem.like
        (state, z), self.all, name = checkpoints.load(file, (state, best), run_id)
        self.best = None if z is None or name is None else self.evaluator.outputs({name: z})[name]
        return state

    def outputs(self, state: State, everything: bool) -> dict[str, Output]:
        """The outputs of a state; before the first round all are its point."""
        setup, sums = self.setup, state.sums
        points = {"last": setup.method.point(state.server, setup.problem.geometry)}
        wanted = [name for name in self.kept if everything or name == "ergodic"]
        averages = {name: getattr(sums, name) for name in wanted}
        if float(sums.weight) == 0:  # nothing to average yet
            (start,) = self.evaluator.outputs(points).values()
            names = ("last", *averages, *["polished"] * ("clients" in averages))
            return {name: dataclasses.replace(start, name=name) for name in names}
        points |= {name: tree.scale(1 / sums.weight, total) for name, total in averages.items()}
        outputs = self.evaluator.outputs(points)
        if "clients" in averages:
            outputs["polished"] = self.evaluator.polished(outputs["clients"], self.grid)
        return outputs

    def verdict(self) -> Status | None:
        """Whether the records say that it is time to stop."""
        best = [min(gaps) for record in self.all if (gaps := _gaps(record, self.output))]
        if len(best) < len(self.all):
            return None
        if self.tol is not None and best[-1] <= self.tol:
            return Status.OPTIMAL
        floor = NEGLIGIBLE * max(best[0], 0)
        if len(best) > 3 and all(gap > 10 * max(min(best), floor) for gap in best[-3:]):
            return Status.DIVERGED
        fifth = max(2, self.rounds // (5 * self.every))
        if self.tol is not None and len(best) > fifth and min(best) > 0.99 * min(best[:-fifth]):
            return Status.STALLED
        return None

    def finish(self, state: State, status: Status, seconds: float, chosen: str) -> Run:
        """All outputs of the final state, and the rule that picks one."""
        try:
            outputs = self.outputs(state, everything=True)
        except FloatingPointError as error:
            if not self.all:  # not even the start has finite numbers: there is no run
                raise
            status, self.evaluator.reason = Status.NUMERICAL_ERROR, str(error)
            outputs = self.outputs(state, everything=True)
        name = self.output or self._pick(outputs)
        gap = outputs[name].gap
        if gap is None:
            if status in (Status.MAX_ROUNDS, Status.MAX_TIME):
                status = Status.UNCERTIFIED
        elif self.tol is not None and status in (Status.MAX_ROUNDS, Status.MAX_TIME, Status.STALLED):
            if gap <= self.tol:
                status = Status.OPTIMAL
            elif gap <= 10 * self.tol:
                status = Status.OPTIMAL_INACCURATE
        return Run(status, name, outputs, self.best, columns(self.all), int(state.round), seconds, chosen, state)

    def _pick(self, outputs: dict[str, Output]) -> str:
        good = [o for o in outputs.values() if self.tol is not None and o.gap is not None and o.gap <= self.tol]
        return min(good, key=lambda o: (o.structure, o.gap)).name if good else "polished"


def _gaps(record: Record, output: str | None) -> list[float]:
    """The certified gaps of a record: of one output, or of all."""
    wanted = f"gap_{output or ''}"
    return [value for key, value in record.items() if key.startswith(wanted) and value is not None]


def bytes_per_round(setup: Setup) -> tuple[int, int]:
    """What a network would carry in a round: state down, message and the sum behind `clients` up; surveys both ways."""

    def size(a: Any) -> int:
        return sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(a))

    like = tree.cast(setup.problem.like, setup.weights.dtype)
    dual = jax.eval_shape(setup.problem.geometry.dual, like)
    server = jax.eval_shape(lambda d: setup.method.start(d, setup.problem.geometry), dual)
    up, down = setup.cohort * (size(server) + size(like)), setup.cohort * size(server)
    if setup.method.survey != "none":
        up, down = up + setup.clients * size(like), down + (setup.clients + setup.cohort) * size(like)
    return up, down
