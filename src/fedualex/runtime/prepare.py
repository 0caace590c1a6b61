"""A run before its first round: options checked, steps chosen, and the fingerprint by which its checkpoint is known."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh
from jaxtyping import Array
from numpy.typing import NDArray

from .. import theory, tree
from ..algorithms import AbstractMethod, Facts, FeDualEx, FeDualExCorrected, FeDualNewton, FeDualSlide, Method
from ..algorithms.newton import describe_asked, why_no_curvature
from ..arrays import Reals
from ..compiling import compile_by_size
from ..geometry import Product
from ..problems import AbstractOracle, AbstractProblem, Exact, Problem
from ..problems.constrained import is_doubtful
from ..problems.rows import holds_sparse
from ..problems.score_rounding import score_errors
from ..problems.stored import HeldClients
from ..random import key_of
from ..regularizers import is_spectral
from ..theory.constants import smoothness
from ..tree import Saddle, Tree
from ..validation import positive, short
from . import checkpoint as checkpoints
from .clients import Wider
from .options import RunOptions, SimulatorOptions, decisive_options
from .outputs import AVERAGES, no_sums
from .sharding import clients_per_device, spread
from .state import Setup, State

# The method and the precision of a run for which nobody chose them, and why.


def choose_method(problem: AbstractProblem, options: RunOptions) -> tuple[Method, str]:
    """The method that fits a problem and the options of a run, and the reason in one sentence.

    Where every exchange can reach all clients and their exact operators, FeDualNewton if second derivatives exist and
    are not too many, else FeDualSlide; otherwise FeDualEx for clients that share one f, and FeDualExCorrected for those
    that differ.
    """
    hindered = _why_no_surveys(problem, options)
    if not hindered and not (why := why_no_curvature(problem)):
        asked = describe_asked(problem)
        return (
            FeDualNewton(),
            f"FeDualNewton: all clients can be asked for exact operators and second derivatives {asked}",
        )
    if not hindered:
        return FeDualSlide(), f"FeDualSlide: all clients can be asked for exact operators, but {why}"
    if problem.clients in (None, 1):
        return FeDualEx(), f"FeDualEx: all clients share one f, and {hindered}"
    return FeDualExCorrected(), f"FeDualExCorrected: clients differ, and {hindered}"


def _why_no_surveys(problem: AbstractProblem, options: RunOptions) -> str:
    """Why a method that surveys all clients is not the choice; empty if it is."""
    if options.noise is not None:
        return "operators are noisy"
    if options.cohort is not None:
        return "a round reaches a cohort only"
    if np.min(options.local_steps) != np.max(options.local_steps):
        return "they take unequally many local steps"
    if problem.why_uncertifiable():
        return "there is no certificate to work with"
    return ""


def choose_precision(method: Method, options: RunOptions) -> tuple[str, str]:
    """The precision of a run's rounds, 'float32' or 'float64', and the reason in one sentence.

    Noise is far above the rounding of float32, and rounds then take half the time; where operators are exact, nothing
    but the rounding keeps a certificate from becoming smaller.
    """
    if options.dtype is not None:
        return str(options.dtype), f"{options.dtype}, as was asked for"
    if method.needs_float64:
        return "float64", f"float64: {method.needs_float64}"
    noise: Any = options.noise
    if noise is None or not noise.noisy or (noise.gaussian and noise.sigma == 0):
        return "float64", "float64: operators are exact"
    return "float32", "float32: operators are noisy"


# From a user's options to what a compiled round needs.


CHUNK_ENTRIES = 2**19
"""How many numbers a chunk of clients holds of one variable, about."""


def build_setup(
    problem: AbstractProblem,
    method: Method,
    options: RunOptions,
    clients: int,
    *,
    chunk: int | None = None,
    fast: str | None = None,
    mesh: Mesh | None = None,
) -> Setup:
    """The setup of a run: all in one precision, step sizes as arrays, as many clients at once as memory allows."""
    kind = jnp.dtype(choose_precision(method, options)[0])
    per_client = np.broadcast_to(np.asarray(options.local_steps, int), (clients,))
    cohort = clients if options.cohort is None else int(options.cohort)
    cohort = cohort if method.rounds.lead is None else 1
    at_once = clients_per_device(mesh, clients, cohort, settled=problem.clients is not None)
    oracle = oracle_of(options)
    return Setup(
        problem=tree.cast_module(spread(problem, mesh), kind),
        method=tree.cast_module(method, kind),
        oracle=tree.cast_module(oracle, kind),
        weights=jax.device_put(np.asarray(problem.client_weights(clients), kind)),
        steps=jax.device_put(np.array(per_client)),
        key=key_of(options.seed),
        clients=clients,
        cohort=cohort,
        local_steps=int(per_client.max()),
        chunk=chunk or _even_chunk(problem, at_once),
        equal_steps=bool(np.all(per_client == per_client[0])),
        # The same law needs all of this; elsewhere nothing is replaced.
        merge_noise=bool(
            fast == "law"
            and problem.shared_affine
            and oracle.gaussian
            and method.rounds.linear_sample is not None
            and method.rounds.survey == "none"
            and per_client.max() == 1
        ),
        mesh=mesh,
    )


def oracle_of(options: RunOptions) -> AbstractOracle:
    """The oracle of a run's clients."""
    return Exact() if options.noise is None else options.noise


def _even_chunk(problem: AbstractProblem, count: int) -> int:
    """How many of `count` clients to compute at once, so that all chunks are about equally full."""
    limit = max(1, CHUNK_ENTRIES // max(np.size(leaf) for leaf in jax.tree.leaves(problem.like)))
    return -(-count // -(-count // limit))


def first_state(setup: Setup, z0: Saddle, options: RunOptions, averages: Iterable[str] = AVERAGES) -> State:
    """The method's start from the dual image of z0, with nothing summed up yet for these averages."""
    projected = options.init == "project"
    server, point, memory = _begin(setup.rounds, setup.problem.geometry, z0, setup.weights, projected)
    return State(server, memory, point, no_sums(setup, averages), np.asarray(0))


@compile_by_size
def _begin(
    method: AbstractMethod, geometry: Product, z0: Saddle, weights: Array, projected: bool
) -> tuple[Tree, Tree, Tree]:
    """The server's state, its point, and the memories of all clients, in the precision of the weights."""
    z0 = tree.cast(z0, weights.dtype)
    server = method.start(geometry.dual(geometry.project(z0) if projected else z0), geometry)
    memory = jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (weights.size, *leaf.shape)), method.memory(server))
    return server, method.point(server, geometry), memory


# Step sizes for methods that were built without: from theory where there is a theorem, a heuristic elsewhere.


FACTORS = (0.1, 0.3, 1.0, 3.0, 10.0)
"""Multiples of a step size that are tried where none is known to be the best."""


def with_theory_steps(
    method: Method,
    problem: AbstractProblem,
    options: RunOptions,
    z0: Saddle,
    *,
    clients: int,
    rounds: int,
    alone: bool = False,
) -> tuple[Method, str]:
    """The method with every missing step size filled in, and a sentence that says what was chosen and why.

    alone: whether the theorems for one machine are asked instead of the one for clients.
    """
    names = method.missing_steps()
    if not names:
        return method, ""
    constants = theory.constants(problem, oracle_of(options), z0)
    label, bound = _theorem_for(method, constants, options, clients=clients, rounds=rounds, alone=alone)
    eta = float(bound.best_step)
    if not 0 < eta < np.inf:
        raise ValueError(
            f"theory gives no step size here (beta={constants.beta:.3g}, B0={constants.B0:.3g}, "
            f"sigma={constants.sigma:.3g}); give {', '.join(names)} yourself"
        )
    rule = method.theory_steps(eta, constants.beta, rounds)
    chosen = {name: rule[name] for name in names}
    filled = with_steps(method, chosen)
    why = label if _is_covered(method, problem, options, constants) else f"heuristic: the step of {label}"
    shown = ", ".join(f"{name}={value:.4g}" for name, value in chosen.items())
    return filled, f"{shown} ({why}; beta={constants.beta:.4g}, sigma={constants.sigma:.3g}, B0={constants.B0:.3g})"


def describe_untuned(steps: Mapping[str, str]) -> str:
    """One sentence about the methods whose step sizes nobody tuned; empty if there are none.

    steps: for each method what `with_theory_steps` says that it chose.
    """
    labels = [label for label, chosen in steps.items() if chosen]
    if not labels:
        return ""
    names = " and ".join(filter(None, (", ".join(labels[:-1]), labels[-1])))
    return (
        f"The step sizes of {names} are theory's defaults and untuned: fx.tune(problem, method, rounds=...) looks for "
        "better ones."
    )


def with_steps(method: Method, steps: Mapping[str, float]) -> Method:
    """The method with these step sizes."""
    return eqx.tree_at(
        lambda m: [getattr(m, name) for name in steps],
        method,
        [positive(name, value) for name, value in steps.items()],
        is_leaf=lambda leaf: leaf is None,
    )


def _theorem_for(
    method: Method, constants: Any, options: RunOptions, *, clients: int, rounds: int, alone: bool
) -> tuple[str, Any]:
    """The theorem whose step is taken, by name, and its bound."""
    if alone:
        if constants.sigma == 0:
            return "Theorem 4", theory.theorem4(constants, steps=rounds).corrected
        return "Theorem 3", theory.theorem3(constants, steps=rounds).corrected
    eta_s = min(float(getattr(method, "eta_s", None) or 1.0), 1.0)  # nothing is known above 1
    local_steps = int(np.max(options.local_steps))
    return "proposition B", theory.proposition_b(
        constants, clients=clients, local_steps=local_steps, rounds=rounds, eta_s=eta_s
    )


def _is_covered(method: Method, problem: AbstractProblem, options: RunOptions, constants: Any) -> bool:
    """Whether the run starts and steps as the theorems assume, on a problem whose constants are known."""
    equal_steps = bool(np.min(options.local_steps) == np.max(options.local_steps))
    known = np.inf > constants.B0 and "estimate" not in (constants.how.get("beta"), constants.how.get("sigma"))
    as_assumed = options.init == "project" and equal_steps and problem.clients in (None, 1)
    return method.covered and float(getattr(method, "eta_s", None) or 1) <= 1 and as_assumed and known


def polish_grid(problem: AbstractProblem) -> NDArray[np.float64]:
    """The steps that are tried for the polished output, around 1 / beta."""
    try:
        beta = smoothness(problem)
    except ValueError:  # an operator that is nan somewhere in the domain has no constants
        beta = np.inf
    return np.asarray(FACTORS) / (beta if np.isfinite(beta) and beta > 0 else 1.0)


@dataclass(frozen=True)
class Prepared:
    """What a run begins with."""

    problem: AbstractProblem
    """The problem with the weights of this run."""
    options: SimulatorOptions
    setup: Setup
    start: State
    rounds: int
    steps: str
    """Which step sizes theory chose; empty if all were given."""
    precision: str
    """The precision of the rounds, and why."""
    wider: Wider | None
    """What rounds are computed with once they continue in float64; None if they keep their precision."""

    def run_id(self) -> str:
        """The fingerprint of all that decides how the run goes on (docs/simulator.md)."""
        # The problem as it was given: on a mesh no process has all data of the setup's.
        whole = eqx.tree_at(lambda s: s.problem, self.setup, self.problem)
        # The same if asked for or chosen, unless what was chosen may change.
        decides = decisive_options(replace(self.options, dtype=None if self.wider else self.setup.weights.dtype))
        return checkpoints.run_id(whole, self.start, decides)


def prepare(problem: AbstractProblem, method: Method, options: SimulatorOptions) -> Prepared:
    """The run that these options describe, or one sentence about what does not fit. Call within `double()`."""
    rounds, clients = check_simulation(problem, method, options)
    mesh = check_mesh(options.mesh, problem)
    problem = _hold_once(problem if options.weights is None else problem.reweighted(options.weights), method, mesh)
    check_cohort(options.cohort, problem.client_weights(clients))
    z0 = problem.validate_point(problem.like if options.z0 is None else options.z0, "z0")
    alone = options.steps is not None
    method, chosen = with_theory_steps(method, problem, options, z0, clients=clients, rounds=rounds, alone=alone)

    def build(dtype: Any) -> Setup:
        asked = replace(options, dtype=dtype)
        return build_setup(problem, method, asked, clients, chunk=options.chunk, fast=options.fast, mesh=mesh)

    setup, (kind, precision) = build(options.dtype), choose_precision(method, options)
    wider = partial(build, "float64") if options.dtype is None and kind == "float32" else None
    return Prepared(problem, options, setup, start_of(setup, problem, z0, options), rounds, chosen, precision, wider)


def _hold_once(problem: AbstractProblem, method: Method, mesh: Mesh | None) -> AbstractProblem:
    """The problem with its data once: as it is where numpy alone reads it, else on the device in float64."""
    if problem.data is None or mesh is not None:  # a mesh places the data of each device
        return problem
    if isinstance(problem.data, HeldClients):
        return problem
    if method.asks_curvature and _is_read_by_numpy(problem):
        return eqx.tree_at(lambda p: p.data, problem, problem.data.hold())
    held: AbstractProblem = eqx.tree_at(lambda p: p.data, problem, tree.cast(problem.data, jnp.float64))
    return held


def _is_read_by_numpy(problem: AbstractProblem) -> bool:
    """Whether surveys and the rounding of bounds have closed forms, so that no program of jax ever reads a row.

    Of a problem with limits that may not be met, one does.
    """
    plain = isinstance(problem, Problem) and not hasattr(problem.f, "surveyor") and not is_doubtful(problem)
    return plain and not holds_sparse(problem.data) and score_errors(problem) is not None


def start_of(setup: Setup, problem: AbstractProblem, z0: Saddle, options: RunOptions, **averages: Any) -> State:
    """The state with which a run begins."""
    server = setup.method.init(Facts(problem, setup.local_steps), tree.cast(z0, jnp.float64))
    if server is None:
        return first_state(setup, z0, options, **averages)
    return State(server, None, None, no_sums(setup, ()), np.asarray(0))


def check_simulation(problem: AbstractProblem, method: Method, options: SimulatorOptions) -> tuple[int, int]:
    """The number of rounds and of clients, or one sentence about what does not fit."""
    check_length(options)
    alone = options.clients in (None, 1) and options.cohort in (None, 1) and options.local_steps == 1
    if options.steps is not None and not alone:
        raise ValueError("steps= means one client and one local step: leave out clients, cohort and local_steps")
    if problem.clients and options.clients not in (None, problem.clients):
        raise ValueError(f"clients must be {problem.clients}, as many as the problem's data has, got {options.clients}")
    clients = int(problem.clients or options.clients or 1)
    if options.steps is not None and clients > 1:
        raise ValueError(f"steps= means one client, and the problem has {clients}: use rounds=")
    check_clients(problem, method, options, clients)
    return int(options.rounds or options.steps or 0), clients


def check_length(options: SimulatorOptions) -> None:
    """Refuse a run whose length is not given, or given twice."""
    if (options.rounds is None) == (options.steps is None):
        raise TypeError("give either rounds= (with clients= and local_steps=) or steps= (one machine)")


def check_clients(problem: AbstractProblem, method: Method, options: RunOptions, clients: int) -> None:
    """Refuse options that do not fit the method or the number of clients."""
    steps = options.local_steps
    if np.shape(steps) not in ((), (clients,)):
        raise ValueError(
            f"local_steps must be a whole number >= 1, or one for each of {clients} clients, got {short(steps)}"
        )
    if options.cohort is not None and options.cohort > clients:
        raise ValueError(f"cohort must be at most the number of clients, {clients}, got {options.cohort}")
    if options.cohort not in (None, clients) and method.needs_everybody:
        raise ValueError(f"{type(method).__name__} surveys all clients: leave out cohort={options.cohort}")
    if options.cohort is not None and method.rounds.lead is not None:
        raise ValueError(f"{type(method).__name__} has a lead instead of a cohort: leave out cohort={options.cohort}")
    if reason := method.refusal(problem, clients, steps):
        raise ValueError(reason)


def check_cohort(cohort: int | None, weights: Reals) -> None:
    """Refuse a cohort that may be of weight 0."""
    if cohort is not None and not np.sum(np.sort(weights)[:cohort]) > 0:
        raise ValueError(f"cohort must be large enough that some client of weight > 0 is in it, got {cohort}")


def check_mesh(mesh: Mesh | None, problem: AbstractProblem) -> Mesh | None:
    """The mesh with its axis left to the compiler; refused unless it has one axis and devices that fit."""
    if mesh is None:
        return None
    if len(mesh.axis_names) != 1:
        raise ValueError(f"mesh must have one axis, along which clients are split, got {mesh.axis_names}")
    processes = {device.process_index for device in mesh.devices.flat}
    if processes not in ({jax.process_index()}, set(range(jax.process_count()))):
        raise ValueError(
            f"mesh must have devices of this process alone or of all {jax.process_count()} processes, "
            f"got those of {sorted(processes)}"
        )
    spectral = any(map(is_spectral, jax.tree.leaves(problem.geometry, is_leaf=is_spectral)))
    if spectral and len(mesh.local_devices) > 1 and mesh.local_devices[0].platform == "cpu":
        # Two devices that call LAPACK at once wait for each other forever (docs/scaling.md).
        raise ValueError(
            f"mesh must have one CPU device in each process for a problem with Spectral parts, got "
            f"{len(mesh.local_devices)}; start more processes instead"
        )
    return Mesh(mesh.devices, mesh.axis_names)
