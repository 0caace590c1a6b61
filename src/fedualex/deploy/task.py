"""What server and sites of a run agree on, and the two views of it: the server's and a site's."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from .. import __version__
from ..algorithms import AbstractMethod
from ..algorithms.dual import AbstractDualMethod
from ..precision import double
from ..problems import AbstractProblem, Exact
from ..runtime import Run, fingerprint
from ..runtime import checkpoint as checkpoints
from ..runtime.options import check_choices, check_hooks, check_sizes
from ..runtime.rounds import Setup, State
from ..runtime.setup import build_setup, first_state
from ..runtime.steps import missing_steps, polish_grid, with_theory_steps
from ..validation import positive, real_array, short, whole_number
from .engine import Engine
from .loop import Journal, Loop, Plan
from .privacy import Privacy
from .site import Site

NOTHING_BESIDE = Journal()
POLISH = (1.0, 3.0, 10.0, 30.0, 100.0)
"""Steps of `polished` in units of eta_c, where the smoothness of the problem is not known to the server."""


@dataclass(frozen=True)
class Prepared:
    """What a server begins with."""

    view: AbstractProblem
    setup: Setup
    start: State
    plan: Plan
    run_id: str
    steps: str
    """Which step sizes theory chose; empty if all were given."""


@dataclass(frozen=True)
class Task:
    """A run of a method by these sites: everything but their data, so that server and sites can be told the same."""

    method: AbstractMethod
    sites: tuple[str, ...]
    """Site m of this order is client m: the order decides the noise of each, and the order of sums."""
    rounds: int
    weights: tuple[float, ...] | None = None
    """p, divided by its sum; all alike if None."""
    local_steps: Any = 1
    cohort: int | None = None
    noise: Any = None
    seed: int = 0
    z0: Any = None
    init: str = "project"
    record_every: int | None = None
    output: str | None = None
    dtype: str = "float64"
    tol: float | None = None
    max_seconds: float | None = None
    ergodic: bool = False
    min_replies: int | None = None
    attempts: int = 5
    timeout: float = 60.0
    """Seconds in which a site must answer."""
    privacy: Privacy | None = None
    """Clipping and noise at the sites; then nothing but the noisy increment leaves them."""

    def site(self, problem: AbstractProblem, name: str) -> Site:
        """The side of one site, with a problem that holds its own data and nobody else's."""
        with double():
            method, _ = self._method_with_steps(problem)
            setup, agreed = self._setup(problem, method), self._agreed(problem, method)
            return Site(problem, setup, self.sites.index(name), agreed, self.ergodic, self.privacy)

    def serve(
        self, engine: Engine, problem: AbstractProblem, checkpoint: Path, journal: Journal = NOTHING_BESIDE
    ) -> Run:
        """The server's side, on its view of the problem; goes on from the checkpoint if there is one."""
        self.check(problem)
        check_hooks(None, checkpoint, self.max_seconds)
        if self.privacy is not None:
            self.privacy.epsilon(1)  # without an accountant nothing begins
        with double():
            run = self.prepare(problem)
            p = dict(zip(self.sites, map(float, self._weights()), strict=True))
            grid = _polish_steps(run.view, self.method)
            loop = Loop(engine, run.view, run.setup, p, run.plan, grid, timeout=self.timeout, run_id=run.run_id)
            try:
                return loop.run(run.start, checkpoint, journal, run.steps)
            finally:
                engine.close()

    def prepare(self, problem: AbstractProblem) -> Prepared:
        """What the server begins with. Call within `double()`."""
        view = problem.without_data()
        z0 = view.admit(view.like if self.z0 is None else self.z0, "z0")
        method, chosen = self._method_with_steps(view)
        setup = self._setup(view, method)
        start = first_state(setup, z0, self.init, self.dtype)
        plan = Plan(
            self.rounds,
            self.record_every or max(1, self.rounds // 50),
            self.tol,
            self.max_seconds,
            self.output,
            self.ergodic,
            self.min_replies,
            self.attempts,
            self.privacy,
        )
        # Patience may change from one server to the next: it decides when a run ends, not how it goes on.
        decisive = replace(plan, max_seconds=None, min_replies=None, attempts=1)
        run_id = f"{self._agreed(view, method)}-{checkpoints.run_id(setup, start, repr(decisive), *self.sites)}"
        return Prepared(view, setup, start, plan, run_id, chosen)

    def _agreed(self, problem: AbstractProblem, method: AbstractMethod) -> str:
        """What a site's answers depend on besides its data and its loss, as a word that server and sites compare.

        Not the code of the loss, whose bytes differ between versions of Python.
        """
        setup = self._setup(problem.without_data(), method)
        parts = (method, setup.oracle, setup.steps, setup.key, setup.problem.geometry, str(self.dtype), self.sites)
        return fingerprint(*parts, repr((self.cohort, self.ergodic, self.privacy)), __version__)[:16]

    def _setup(self, problem: AbstractProblem, method: AbstractMethod) -> Setup:
        oracle = Exact() if self.noise is None else self.noise
        cohort = None if self.cohort is None else int(self.cohort)
        sizes = (len(self.sites), cohort, self.local_steps, int(self.seed), self.dtype)
        setup = build_setup(problem, method, oracle, *sizes, chunk=1)
        return eqx.tree_at(lambda s: s.weights, setup, jnp.asarray(self._weights(), self.dtype))

    def _weights(self) -> NDArray[Any]:
        p = np.ones(len(self.sites)) if self.weights is None else real_array("weights", self.weights)
        if p.shape != (len(self.sites),) or np.any(p < 0) or not p.sum() > 0:
            raise ValueError(
                f"weights must be {len(self.sites)} numbers >= 0 with a positive sum, got {short(self.weights)}"
            )
        return p / p.sum()

    def _method_with_steps(self, problem: AbstractProblem) -> tuple[AbstractMethod, str]:
        """Server and sites find the same steps, because they see the same f; with data at sites they must be given."""
        if not missing_steps(self.method):
            return self.method, ""
        oracle = Exact() if self.noise is None else self.noise
        z0 = problem.admit(problem.like if self.z0 is None else self.z0, "z0")
        steps = int(np.max(self.local_steps))
        sizes: dict[str, Any] = {"clients": len(self.sites), "local_steps": steps, "rounds": self.rounds}
        sizes["as_assumed"] = self.init == "project" and bool(steps == np.min(self.local_steps))
        return with_theory_steps(self.method, problem, oracle, z0, one_machine=False, **sizes)

    def check(self, problem: AbstractProblem) -> None:
        """Refuse what cannot be run, before anything is sent or written."""
        count = len(self.sites)
        if count < 1 or len(set(self.sites)) < count:
            raise ValueError(f"sites must be at least one name, each once, got {short(self.sites)}")
        check_sizes(problem.without_data(), self.method, self.rounds, None, count, self.local_steps, self.cohort)
        check_choices(self.init, self.output, self.noise, self.seed, self.tol, self.record_every, None, self.dtype)
        if problem.data is not None and (names := missing_steps(self.method)):
            raise ValueError(f"give {', '.join(names)}: theory needs the data of all sites, and nobody has it")
        if jax.tree.leaves(jax.eval_shape(self._memory, problem.like, problem.geometry)):
            raise ValueError(f"{type(self.method).__name__} keeps a memory at its clients, which sites do not have")
        positive("timeout", self.timeout)
        whole_number("attempts", self.attempts)
        most = self.cohort or count
        if self.min_replies is not None and whole_number("min_replies", self.min_replies) > most:
            raise ValueError(f"min_replies must be at most the sites of a round, {most}, got {self.min_replies}")
        if np.any(self._weights() == 0) and min(most, self.min_replies or most) < count:
            raise ValueError(f"weights must be > 0 where some of the sites may be missing, got {short(self.weights)}")
        if self.privacy is not None:
            self._check_private()
        if self.output == "ergodic" and not self.ergodic:
            raise ValueError("output='ergodic' needs ergodic=True: sites then send the probes of all K local steps")

    def _memory(self, z: Any, geometry: Any) -> Any:
        return self.method.memory(self.method.start(geometry.dual(z), geometry))

    def _check_private(self) -> None:
        """Privacy covers the increments of dual methods; what else a run might ask of its sites is refused."""
        if not isinstance(self.method, AbstractDualMethod) or self.method.survey != "none":
            raise ValueError(f"privacy covers FeDualEx and FedDualAvg, got {type(self.method).__name__}")
        for name, value, accepted in (("tol", self.tol, None), ("ergodic", self.ergodic, False)):
            if value != accepted:
                raise ValueError(f"privacy: {name} needs what sites do not send then, got {value}")
        if self.output not in (None, "last"):
            raise ValueError(f"privacy: output must be 'last', got {self.output!r}")


def _polish_steps(problem: AbstractProblem, method: AbstractMethod) -> Any:
    if problem.data is None:
        return polish_grid(problem)
    eta = getattr(method, "eta_c", None)
    return np.asarray(POLISH) * float(1.0 if eta is None else eta)
