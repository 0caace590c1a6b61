"""Records of a run: certificates and cost so far, the best point, and what they say about stopping."""

import dataclasses
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import jax

from .. import tree
from ..tree import Tree
from . import checkpoint as checkpoints
from .examination import Examination
from .outputs import Evaluator, Output
from .rounds import Setup, State
from .rules import answer_of, best_gap, stop_of
from .run import Run, columns
from .status import Stop

Record = dict[str, Any]


class Records:
    """Records, the best certificates so far, and what they say about stopping."""

    kept: tuple[str, ...] = ("ergodic", "clients")
    """The averages whose sums are kept. A deployment keeps fewer: those behind `ergodic` cost K-fold."""

    def __init__(
        self,
        evaluator: Evaluator,
        examination: Examination,
        grid: Any,
        setup: Setup,
        rounds: int,
        output: Any,
        every: int,
    ):
        self.evaluator, self.examination, self.grid, self.setup = evaluator, examination, grid, setup
        self.rounds, self.output, self.every = rounds, output, every
        self.tol = evaluator.tol
        self.everything = self.tol is not None or output in ("clients", "polished")
        """Whether all outputs are recorded, or `last` and `ergodic` only."""
        self.all: list[Record] = []
        self.best: Output | None = None

    def record(self, state: State, seconds: float, traffic: tuple[int, int]) -> Record:
        """Certificates and structure of the recorded outputs, and the cost so far."""
        record: Record = {"round": int(state.round), "seconds": seconds}
        record |= {"bytes_up": traffic[0], "bytes_down": traffic[1]}
        for name, output in self.outputs(state, self.everything).items():
            record[f"gap_{name}"] = output.gap
            record[f"density_{name}"] = output.density
            record[f"rank_{name}"] = output.rank
            if output.gap is not None and output.gap < _gap(self.best):
                self.best = dataclasses.replace(output, name="best", origin=f"{name} of round {int(state.round)}")
        self.all.append(record)
        return record

    def save(self, file: Path, state: Tree, run_id: str) -> None:
        """Write a checkpoint: the state, the best point so far, and the records."""
        z, origin = (None, None) if self.best is None else (self.best.z, self.best.origin)
        checkpoints.save(file, (state, z), self.all, run_id, origin)

    def resume(self, file: Path, state: Tree, run_id: str) -> Any:
        """Continue from a checkpoint, exactly as if the run had not stopped."""
        best = None if self.evaluator.reason else self.evaluator.problem.like
        (state, z), self.all, origin = checkpoints.load(file, (state, best), run_id)
        if z is not None and origin is not None:
            self.best = dataclasses.replace(self.evaluator.outputs({"best": z})["best"], origin=origin)
        return state

    def outputs(self, state: State, everything: bool) -> dict[str, Output]:
        """The outputs of a state; before the first round all are its point."""
        wanted = [name for name in self.kept if everything or name == "ergodic"]
        points = points_of(self.setup, state, wanted)
        if float(state.sums.weight) == 0:  # one point for all
            (start,) = self.evaluator.outputs({"last": points["last"]}).values()
            names = (*points, *["polished"] * ("clients" in points))
            return {name: dataclasses.replace(start, name=name) for name in names}
        outputs = self.evaluator.outputs(points)
        if "clients" in points:
            outputs["polished"] = self.evaluator.polished(outputs["clients"], self.grid)
        return outputs

    def verdict(self) -> Stop | None:
        """Whether the records say that it is time to stop."""
        gaps = [best_gap(record, self.output) for record in self.all]
        return stop_of(gaps, rounds=self.rounds, record_every=self.every, tol=self.tol)

    def finish(self, state: State, stop: Stop, seconds: float, chosen: str, detail: str = "") -> Run:
        """All outputs of the final state, the best record if it is better, and which of them is the answer."""
        try:
            outputs = self.outputs(state, everything=True)
        except FloatingPointError as error:
            if not self.all:  # not even the start has finite numbers: there is no run
                raise
            stop, detail = Stop.NUMERICAL_ERROR, str(error)
            self.evaluator.reason = str(error)
            outputs = self.outputs(state, everything=True)
        best = None if self.best is None or self.best.gap is None else self.best
        if best is not None and _gap(best) < min(map(_gap, outputs.values())):
            outputs["best"] = best
        certified = [output.z for output in outputs.values() if output.gap is not None]
        if certified and (reason := self.examination.reason(certified)):
            self.evaluator.reason = reason
            stop, best, outputs = Stop.DISPROVED, None, self.outputs(state, everything=True)
            self.all = [without_gaps(record) for record in self.all]
        gaps = {name: output.gap for name, output in outputs.items()}
        structure = {name: output.structure for name, output in outputs.items()}
        return Run(
            stop=stop,
            detail=detail,
            output=self.output or answer_of(gaps, structure, self.tol),
            outputs=outputs,
            best=best,
            history=columns(self.all),
            rounds=int(state.round),
            seconds=seconds,
            steps=chosen,
            state=state,
            convexity=self.examination.sentence,
            disproof=self.examination.found,
        )


def without_gaps(record: Record) -> Record:
    """A record whose certificates were withdrawn."""
    return {key: None if key.startswith("gap_") else value for key, value in record.items()}


def points_of(setup: Setup, state: State, averages: Iterable[str]) -> dict[str, Tree]:
    """The point of a state, and averages so far; before the first round all are its point."""
    last, sums = setup.method.point(state.server, setup.problem.geometry), state.sums
    if float(sums.weight) == 0:
        return {"last": last} | dict.fromkeys(averages, last)
    return {"last": last} | {name: tree.scale(1 / sums.weight, getattr(sums, name)) for name in averages}


def _gap(output: Output | None) -> float:
    """The certified gap of an output, infinite where it has none."""
    return float("inf") if output is None or output.gap is None else output.gap


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
