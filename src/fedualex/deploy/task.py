"""What server and sites of a run agree on, and the two views of it: the server's and a site's."""

import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, no_type_check

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from .. import __version__
from ..algorithms import Method
from ..arrays import Reals
from ..compiling import double
from ..geometry import AbstractGeometry
from ..problems import AbstractProblem, Minibatch
from ..runtime import Run, checkpoint as checkpoints, fingerprint
from ..runtime.clients import Conversation
from ..runtime.driver import Driver, Judgement, Keeping, Records, RunHooks
from ..runtime.options import (
    RunOptions,
    StoppingOptions,
    a_function,
    a_path,
    anything,
    decisive_options,
    one_word_of,
    option,
    optional,
    options,
)
from ..runtime.outputs import averages_of, exact_problem
from ..runtime.prepare import build_setup, check_clients, choose_precision, polish_grid, start_of, with_theory_steps
from ..runtime.state import Setup, State
from ..storage import lock, write_atomically
from ..validation import of_type, positive, real_array, short, whole_number
from .clients import AnswerCheck, SiteClients
from .engine import Engine
from .policy import Privacy
from .secure.sums import AUTO, OFF, ON, check_choice
from .site import Site
from .wire import own_factors

# The options of a deployment: those of every run, and what has to do with sites.


LONGEST = 1e9
"""Seconds that a clock can still wait for."""


def _privacy(name: str, value: object) -> Privacy:
    return of_type(name, value, Privacy, "fx.deploy.Privacy(clip, noise) or None")


def _seconds(name: str, value: object) -> float:
    if (seconds := float(positive(name, value))) > LONGEST:
        raise ValueError(f"{name} must be a number of seconds of at most {LONGEST:g}, got {value}")
    return seconds


def _positive(name: str, value: object) -> float:
    return float(positive(name, value))


def _patience(name: str, value: object) -> float:
    return 0.0 if type(value) in (int, float) and value == 0 else _seconds(name, value)


def _flag(name: str, value: object) -> bool:
    return of_type(name, value, bool, "True or False")


@no_type_check
@options
class DeploymentOptions(RunOptions, StoppingOptions):
    """The options of `Task`, and the keys of [run] in the file of a deployment.

    The fields are the keywords of `fx.deploy.run`, where each of them is explained.
    """

    weights: Sequence[float] | Reals | None = option(
        anything,
        "Weights of the sites in the objective, divided by their sum; all alike if None.",
        default=None,
        in_files=False,
    )
    ergodic: bool = option(
        _flag, "Whether sites send the K probes of a round, for the exact `ergodic` output.", default=False
    )
    min_replies: int | None = option(
        optional(whole_number),
        "With fewer valid replies a round fails and is done again; all of its cohort if None.",
        default=None,
        decides=False,
    )
    attempts: int = option(
        whole_number,
        "Failed rounds in a row after which the run ends as CLIENTS_LOST, once `patience` is over too.",
        default=5,
        decides=False,
    )
    patience: float = option(
        _patience,
        "Seconds since the first of these failures before which the run does not end by them; a refusal ends it at "
        "once. Sites of this process do not come back by themselves: 0; in files 300.",
        default=0.0,
        decides=False,
    )
    timeout: float = option(
        _seconds,
        "Seconds in which a site must answer.",
        default=60.0,
        decides=False,
    )
    operator_bound: float | None = option(
        optional(_positive),
        "A site whose operator is longer than this, in the Euclidean norm, is not believed; no limit if None.",
        default=None,
        decides=False,
    )
    secure_sums: str = option(
        one_word_of(AUTO, ON, OFF),
        "Whether the server sees sums over sites only: 'on', 'off', or 'auto': with three or more that have keys.",
        default=AUTO,
        decides=False,
    )
    privacy: Privacy | None = option(
        optional(_privacy),
        "Clipping and noise at the sites; then nothing but the noisy increment leaves them.",
        default=None,
        in_files=False,
    )

    @property
    def averages(self) -> tuple[str, ...]:
        """The outputs whose sums sites send parts of."""
        return () if self.privacy is not None else averages_of(self.ergodic)

    def check_together(self) -> None:
        """Refuse options that do not go together."""
        if self.output == "ergodic" and not self.ergodic:
            raise ValueError("output='ergodic' needs ergodic=True: sites then send the probes of all K local steps")
        if self.privacy is None:
            return
        for name, value, accepted in (("tol", self.tol, None), ("ergodic", self.ergodic, False)):
            if value != accepted:
                raise ValueError(f"privacy: {name} needs what sites do not send then, got {value}")
        if self.output not in (None, "last"):
            raise ValueError(f"privacy: output must be 'last', got {self.output!r}")


@no_type_check
@options
class RehearsalOptions(DeploymentOptions):
    """The options of `fx.deploy.run`."""

    sites: int | None = option(
        optional(whole_number), "How many, where the problem has no data of clients; else theirs.", default=None
    )
    callback: Callable[[dict[str, Any]], object] | None = option(
        optional(a_function), "Is given a copy of every record; the run ends if it returns True.", default=None
    )
    checkpoint: Path | str | None = option(
        optional(a_path), "A file that is written at every round, and from which the run is resumed.", default=None
    )


# One writer of a checkpoint: who comes later takes over, who was there before is told at its next write.


class FencedError(RuntimeError):
    """Another server has taken over this run."""


class Fence:
    """Files beside a checkpoint, of which one names the server that may write."""

    def __init__(self, checkpoint: Path):
        checkpoint.parent.mkdir(parents=True, exist_ok=True)
        self._file, self._lock = (checkpoint.with_name(f"{checkpoint.name}.{kind}") for kind in ("server", "lock"))
        self._token = uuid.uuid4().hex

    @contextmanager
    def take_over(self) -> Iterator[None]:
        """Take over when this ends well: whoever cannot go on from the checkpoint leaves the other one alone."""
        with lock(self._lock):
            yield
            write_atomically(self._file, self._token.encode())

    @contextmanager
    def hold(self) -> Iterator[None]:
        """Write only inside of this; raises `FencedError` if another server has come."""
        with lock(self._lock):
            if self._file.read_text() != self._token:
                raise FencedError(
                    f"another server has taken over the run in {self._file.parent}: this one wrote nothing more"
                )
            yield


POLISH = (1.0, 3.0, 10.0, 30.0, 100.0)
"""Steps of `polished` in units of eta_c, where the smoothness of the problem is not known to the server."""


@dataclass(frozen=True)
class Prepared:
    """What a server begins with. precision: that of the rounds, and why. steps: which theory chose, empty if none."""

    view: AbstractProblem
    setup: Setup
    start: State
    run_id: str
    steps: str
    precision: str


@dataclass(frozen=True)
class Task:
    """A run of a method by these sites: everything but their data, so that server and sites can be told the same.

    Site m is client m: the order of sites decides the noise of each, and the order of sums.

    method, options: what is run, and how. sites: their names in order.
    """

    method: Method
    sites: tuple[str, ...]
    options: DeploymentOptions

    @property
    def averages(self) -> tuple[str, ...]:
        """The outputs whose sums sites send parts of."""
        return self.method.rounds.sums or self.options.averages

    def site(self, problem: AbstractProblem, name: str) -> Site:
        """The side of one site, with a problem that holds its own data and nobody else's."""
        with double():
            method, _ = self._method_with_steps(problem)
            setup, agreed = self._setup(problem, method), self._digest_agreed(problem, method)
            number = self.sites.index(name)
            factors = own_factors(setup, self._weights(), number)
            told = fingerprint(agreed, self.sites, self._weights())
            return Site(problem, setup, number, agreed, self.averages, self.options.privacy, factors, told)

    def serve(
        self,
        engine: Engine,
        problem: AbstractProblem,
        checkpoint: Path,
        hooks: RunHooks | None = None,
        roster: str = "",
    ) -> Run:
        """The server's side, on its view of the problem; resumed from the checkpoint if there is one.

        The engine stays open: there may be more to ask of sites after a run. roster: the digest of the sites' list of
        keys, for secure sums; nothing if sites answer in the clear.
        """
        self.check(problem)
        options = self.options
        if options.privacy is not None:
            options.privacy.epsilon(1)  # without an accountant nothing begins
        with double():
            run = self.prepare(problem)
            sites = SiteClients(
                engine,
                run.setup,
                dict(zip(self.sites, map(float, self._weights()), strict=True)),
                run_id=run.run_id,
                timeout=options.timeout,
                needed=options.min_replies,
                attempts=options.attempts,
                patience=options.patience,
                averages=self.averages,
                privacy=options.privacy,
                answer_check=AnswerCheck(run.view, options.operator_bound),
                roster=roster,
            )
            exact = exact_problem(run.view)
            clients = Conversation(sites, exact)
            records = Records(run.view, exact, run.setup, clients, self._judgement(run), run.start)
            keeping = Keeping(checkpoint, run.run_id, fence=Fence(checkpoint), hooks=hooks or RunHooks())
            driver = Driver(clients, records, keeping, stopping=True, max_seconds=options.max_seconds)
            return driver.run(run.start, steps=run.steps, precision=run.precision, began=time.perf_counter())

    def prepare(self, problem: AbstractProblem) -> Prepared:
        """What the server begins with. Call within `double()`."""
        view = problem.without_data()
        z0 = view.validate_point(view.like if self.options.z0 is None else self.options.z0, "z0")
        method, chosen = self._method_with_steps(view)
        setup = self._setup(view, method)
        start = start_of(setup, view, z0, self.options, averages=self.averages)
        dtype, precision = choose_precision(method, self.options)
        decides = checkpoints.run_id(setup, start, decisive_options(replace(self.options, dtype=dtype)), *self.sites)
        return Prepared(view, setup, start, f"{self._digest_agreed(view, method)}-{decides}", chosen, precision)

    def _judgement(self, run: Prepared) -> Judgement:
        options = self.options
        return Judgement.of(
            options,
            int(options.rounds or 0),
            output="last" if options.privacy is not None else options.output,
            polish=_polish_steps(run.view, self.method),
            everything=options.tol is not None or options.output != "last",
        )

    def _digest_agreed(self, problem: AbstractProblem, method: Method) -> str:
        """What a site's answers depend on besides its data and its loss, as a word that server and sites compare.

        Not the code of the loss, whose bytes differ between versions of Python.
        """
        setup, options = self._setup(problem.without_data(), method), self.options
        parts = (setup.oracle, setup.steps, setup.key, setup.problem.geometry, str(setup.weights.dtype), self.sites)
        return fingerprint(method, *parts, repr((options.cohort, options.ergodic, options.privacy)), __version__)[:16]

    def _setup(self, problem: AbstractProblem, method: Method) -> Setup:
        setup = build_setup(problem, method, self.options, len(self.sites), chunk=1)
        return eqx.tree_at(lambda s: s.weights, setup, jnp.asarray(self._weights(), setup.weights.dtype))

    def _weights(self) -> Reals:
        given = self.options.weights
        p = np.ones(len(self.sites)) if given is None else real_array("weights", given)
        if p.shape != (len(self.sites),) or np.any(p < 0) or not p.sum() > 0:
            raise ValueError(f"weights must be {len(self.sites)} numbers >= 0 with a positive sum, got {short(given)}")
        return np.asarray(p / p.sum())

    def _method_with_steps(self, problem: AbstractProblem) -> tuple[Method, str]:
        """Server and sites find the same steps: they see the same f, or were told the same smoothness of it."""
        z0 = problem.validate_point(problem.like if self.options.z0 is None else self.options.z0, "z0")
        rounds = int(self.options.rounds or 0)
        return with_theory_steps(self.method, problem, self.options, z0, clients=len(self.sites), rounds=rounds)

    def check(self, problem: AbstractProblem) -> None:
        """Refuse what cannot be run, before anything is sent or written."""
        count, options = len(self.sites), self.options
        if count < 1 or len(set(self.sites)) < count:
            raise ValueError(f"sites must be at least one name, each once, got {short(self.sites)}")
        if options.rounds is None:
            raise TypeError("give rounds=, the rounds of communication")
        check_clients(problem.without_data(), self.method, options, count)
        unknown = problem.data is not None and (problem.smoothness is None or isinstance(options.noise, Minibatch))
        if unknown and (names := self.method.missing_steps()):
            raise ValueError(f"give {', '.join(names)}: theory needs the data of all sites, and nobody has it")
        if jax.tree.leaves(jax.eval_shape(self._memory, problem.like, problem.geometry)):
            raise ValueError(f"{type(self.method).__name__} keeps a memory at its clients, which sites do not have")
        most = options.cohort or count
        if options.min_replies is not None and options.min_replies > most:
            raise ValueError(f"min_replies must be at most the sites of a round, {most}, got {options.min_replies}")
        if np.any(self._weights() == 0) and min(most, options.min_replies or most) < count:
            raise ValueError(f"weights must be > 0 where sites may be missing, got {short(options.weights)}")
        if options.privacy is not None and not self.method.private:
            raise ValueError(f"privacy covers FeDualEx and FedDualAvg, got {type(self.method).__name__}")
        check_choice(options.secure_sums, self.method, count, options.cohort, options.min_replies)
        options.check_together()

    def _memory(self, z: Any, geometry: AbstractGeometry) -> Any:
        steps = self.method.rounds
        return steps.memory(steps.start(geometry.dual(z), geometry))


def _polish_steps(problem: AbstractProblem, method: Method) -> Any:
    if problem.data is None or problem.smoothness is not None:
        return polish_grid(problem)
    return np.asarray(POLISH) * float(1.0 if (eta := getattr(method, "eta_c", None)) is None else eta)
