"""The laws of a method."""

from dataclasses import dataclass
from typing import Any, get_args

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from .. import tree
from ..algorithms import AbstractMethod, Method
from ..algorithms.base import Correction
from ..arrays import Array, Reals
from ..compiling import double
from ..geometry import Dual
from ..problems import AbstractProblem, Problem, bilinear, matrix_game
from ..regularizers import Box, SquaredL2
from ..runtime.options import RunOptions
from ..runtime.outputs import AVERAGES, Evaluator, exact_problem, points_of
from ..runtime.prepare import build_setup, first_state, with_steps
from ..runtime.rounds import advance
from ..runtime.status import Missing
from ..tree import Saddle, Tree
from ..validation import of_type, whole_number
from .sampling import holds, require, same_arrays

# Small strongly convex-concave games with a known saddle point, and exact runs of a method on them.


ROUNDS = 300
ETA = 0.2
"""The step of a theorem that `theory_steps` is asked to translate; every game has beta <= 2."""
BETA = 2.0
BOUND = 1.0
SIZES = ((3, 2), (3, 1), (1, 2), (1, 1))
"""Clients and local steps, of which a method gets the first that it does not refuse."""


@dataclass(frozen=True)
class Game:
    """A problem of one or more clients, where its runs start, and its saddle point if that is known."""

    name: str
    problem: AbstractProblem
    start: Saddle
    saddle: Saddle | None = None


class Quadratic(eqx.Module):
    """f(x, y, example) = |x|^2 / 2 + <c, x> + <A x - b, y> - |y|^2 / 2 for example = (A, b, c)."""

    def __call__(self, x: Array, y: Array, example: Tree) -> Array:
        cross = jnp.vdot(example["A"] @ x - example["b"], y)
        return jnp.vdot(x, x) / 2 + jnp.vdot(example["c"], x) + cross - jnp.vdot(y, y) / 2


class Games:
    """The games of one seed."""

    def __init__(self, seed: int):
        rng = np.random.default_rng(seed)
        A = rng.normal(size=(2, 3))
        self.A: Reals = A / np.linalg.norm(A, 2)
        self.start = Saddle(np.full(3, -0.5), np.full(2, 0.5))
        self.shift: Reals = rng.normal(size=3)
        self.y: Reals = rng.uniform(-0.5, 0.5, 2)

    def with_psi(self) -> Game:
        """<A x - b, y> + |x|^2 / 2 - |y|^2 / 2, the squares in psi, with a saddle point inside of both boxes."""
        saddle = Saddle(-self.A.T @ self.y, self.y)
        psi = SquaredL2(1.0) + Box(BOUND)
        problem = bilinear(self.A, self.A @ saddle.x - saddle.y, x=psi, y=psi)
        return Game("a bilinear game with psi", problem, self.start, saddle)

    def with_data(self, clients: int = 1, *, equal: bool = True) -> Game:
        """The mean of `Quadratic` over the examples, in two boxes, with a saddle point on the boundary of x's.

        With equal clients every one of them has this mean; else only all together have.
        """
        x = np.array([BOUND, 0.3, -0.4])
        outward = np.array([0.5, 0.0, 0.0])  # in the normal cone of the box at x
        mean = {"A": self.A, "b": self.A @ x - self.y, "c": -x - self.A.T @ self.y - outward}
        data = []
        for m in range(clients):
            off = 0.0 if equal else 0.3 * (m - (clients - 1) / 2)
            spread = np.array([off + 0.1, off - 0.1])
            data.append(
                {
                    "A": np.stack([mean["A"]] * 2),
                    "b": np.stack([mean["b"]] * 2),
                    "c": mean["c"] + spread[:, None] * self.shift,
                }
            )
        box = Box(BOUND)
        problem = Problem(Quadratic(), x=box, y=box, like=self.start, data=data, by_construction=True)
        return Game("a problem with data of clients", problem, self.start, Saddle(x, self.y))

    def on_simplices(self) -> Game:
        """A matrix game with entropic maps, where a dual vector is no point."""
        return Game("a matrix game on simplices", matrix_game(self.A), Saddle(np.full(3, 1 / 3), np.array([0.9, 0.1])))


def sizes_of(method: AbstractMethod, problem: AbstractProblem) -> tuple[int, int] | None:
    """The clients and local steps that the method is run with on this problem; None if it refuses all."""
    known = [(m, k) for m, k in SIZES if problem.clients in (None, m)]
    return next((size for size in known if not method.refusal(problem, *size)), None)


def complete(method: AbstractMethod) -> Any:
    """The method with every missing step size by its own rule."""
    rule = method.theory_steps(ETA, BETA, ROUNDS)
    return with_steps(method, {name: rule[name] for name in method.missing_steps()})


def outputs(game: Game, method: AbstractMethod, clients: int, local_steps: int, start: Saddle) -> dict[str, Tree]:
    """The points of all outputs after ROUNDS exact rounds from a start, before anything projects them."""
    options = RunOptions(rounds=ROUNDS, local_steps=local_steps)
    setup = build_setup(game.problem, method, options, clients)
    state = advance(setup, first_state(setup, start, options), jnp.asarray(ROUNDS))
    return points_of(setup, state, AVERAGES)


def gap(problem: AbstractProblem, points: dict[str, Tree]) -> float:
    """The smallest certified gap of all outputs that are finite."""
    finite = {name: z for name, z in points.items() if bool(tree.is_finite(z))}
    certified = Evaluator(exact_problem(problem)).project_and_certify(finite)
    gaps = [] if isinstance(certified, Missing) else [output.gap for output in certified.values()]
    return min((value for value in gaps if value is not None), default=np.inf)


NEAR = 1e-2
"""What of the certified gap of the start may be left in the best output of an exact run."""
AVERAGED = 0.2
"""The same for every output: an average still contains the start."""
OUTSIDE = 1e-9
LINEAR = 1e-9

Conditions = dict[str, float]


def check_method(method: AbstractMethod, *, composite: bool = True, seed: int = 0) -> None:
    """Check every law of a method on small strongly convex-concave games.

    Step sizes that are missing come from its own `theory_steps`; those that are given should suit an operator with
    beta = 1. composite: whether it solves problems with psi; False for a method whose limit is another point then, such
    as `fx.FedMiD()` as printed, which counts psi twice. seed: decides the games. FeDualSlide has no rounds to check.
    """
    of_type("method", method, Method, "a method such as fx.FeDualEx(eta_c=0.03)")
    if not isinstance(method, AbstractMethod):
        raise TypeError(
            f"method must be one of rounds, such as fx.FeDualEx(), got {method!r}, which asks for exchanges"
        )
    of_type("composite", composite, bool, "True or False")
    games = Games(whole_number("seed", seed, 0))
    require(method, declared_laws(method), "its declarations")
    ready = complete(method)
    with double():
        tried = [game for game in (games.with_data(), games.with_psi(), games.on_simplices()) if _size(ready, game)]
        require(method, {"some small game is not refused": holds(tried)}, "clients=1, local_steps=1")
        for game in tried:
            for kind in (np.float32, np.float64):
                require(method, round_laws(ready, game, kind), f"a round on {game.name} in {np.dtype(kind).name}")
            require(method, sample_laws(ready, game), f"a round on {game.name}")
            solves = game.saddle is not None and (composite or game.name != games.with_psi().name)
            require(method, run_laws(ready, game, solves), f"{ROUNDS} exact rounds of one client on {game.name}")
        _check_clients(ready, games)


def declared_laws(method: AbstractMethod) -> Conditions:
    """What a method says about itself."""
    names = method.step_names()
    given = {name: getattr(method, name) for name in names if hasattr(method, name)}
    rule = method.theory_steps(ETA, BETA, ROUNDS)
    numbers = [rule.get(name, np.nan) for name in method.missing_steps()]
    arrays = [value for value in given.values() if value is not None]
    leaves = {id(leaf) for leaf in jax.tree.leaves(method)}
    return {
        "every step name is a field": holds(len(given) == len(names)),
        "missing_steps are the steps that are None": holds(
            set(method.missing_steps()) == {name for name, value in given.items() if value is None}
        ),
        "theory_steps gives every missing step a number > 0": holds(all(0 < value < np.inf for value in numbers)),
        "a step size is an array, so that another one does not compile again": holds(
            all(id(value) in leaves and hasattr(value, "dtype") for value in arrays)
        ),
        "survey is none, fresh or stale": holds(method.survey in get_args(Correction)),
        "surveys is 0 for none, 1 for stale, at least 1 for fresh": holds(
            method.surveys >= 1 if method.survey == "fresh" else method.surveys == (method.survey == "stale")
        ),
    }


def round_laws(method: AbstractMethod, game: Game, kind: object) -> Conditions:
    """One round of one client, function by function: structures, shapes and precision stay what they are."""
    seen: Any = jax.eval_shape(lambda: run_round(method, game, kind, 0.0))
    z = jax.eval_shape(lambda: tree.cast(game.start, kind))
    laws = {
        "a point has the shapes and precision of z": same_arrays(seen["point"], z),
        "a survey is taken at such a point": same_arrays(seen["at"], z),
        "surveyed keeps the server state's shapes and precision": same_arrays(seen["ready"], seen["server"]),
        "a probe is read as a point": same_arrays(seen["read"], z),
        "local_step keeps the local state's shapes and precision": same_arrays(seen["following"], seen["local"]),
        "local_final keeps the memory's shapes and precision": same_arrays(seen["remembered"], seen["memory"]),
        "server_step keeps the server state's shapes and precision": same_arrays(seen["after"], seen["server"]),
        "a message has the precision of z": holds(all(leaf.dtype == kind for leaf in jax.tree.leaves(seen["message"]))),
        "a probe's weight is one number": holds(getattr(seen["weight"], "shape", None) == ()),
    }
    if method.private:
        pairs = isinstance(seen["message"], Dual) and isinstance(seen["server"], Dual)
        laws["a private method sends one increment of a dual pair"] = holds(pairs)
    return laws


def sample_laws(method: AbstractMethod, game: Game) -> Conditions:
    """What one local step does with its samples: a linear one is pushed forth and back."""
    pushed = eqx.filter_jit(lambda push: run_round(method, game, np.float64, push))
    behind, here, ahead = (pushed(jnp.asarray(push)) for push in (-1.0, 0.0, 1.0))
    laws = {"a probe's weight is >= 0 and finite": holds(0 <= float(here["weight"]) < np.inf)}
    if method.linear_sample is not None:
        bend = _numbers(ahead["following"]) - 2 * _numbers(here["following"]) + _numbers(behind["following"])
        beside = [(end["probe"], end["weight"]) for end in (ahead, behind)]
        laws["linear_sample enters the next state linearly"] = LINEAR - float(np.max(np.abs(bend)))
        laws["linear_sample enters nothing but the next state"] = LINEAR - _apart(*beside)
    return laws


def run_round(method: AbstractMethod, game: Game, kind: Any, push: Any) -> dict[str, Tree]:
    """What each function of a method returns in one round of one client, whose linear sample is pushed along z."""
    problem, own = tree.cast_module(game.problem, kind), tree.cast_module(method, kind)
    geometry, z = problem.geometry, tree.cast(game.start, kind)
    client = None if problem.data is None else jax.tree.map(lambda leaf: leaf[0], problem.data)

    def oracle(at: Tree, sample: int) -> Tree:
        g = problem.client_operator(client, at)
        return tree.add(g, tree.scale(push, z)) if sample == own.linear_sample else g

    server = own.start(geometry.dual(z), geometry)
    memory = own.memory(server)
    at, ready = own.point(server, geometry), server
    for index in range(own.surveys):
        at = own.survey_point(ready, geometry, index)
        ready = own.surveyed(ready, oracle(at, -1), geometry, index)
    local = own.local_init(ready, memory)
    following, probe, weight = own.local_step(local, oracle, geometry)
    message, remembered = own.local_final(following, ready, memory)
    after = own.server_step(ready, message, geometry, jnp.ones((), kind))
    return {
        "server": server,
        "at": at,
        "ready": ready,
        "memory": memory,
        "local": local,
        "following": following,
        "probe": probe,
        "weight": weight,
        "message": message,
        "remembered": remembered,
        "after": after,
        "point": own.point(server, geometry),
        "read": own.read(probe, geometry),
    }


def run_laws(method: AbstractMethod, game: Game, solves: bool) -> Conditions:
    """Exact runs of one client, from the start and from the saddle point. solves: whether they must approach it."""
    problem, size = game.problem, (1, (_size(method, game) or (1, 1))[1])
    ends = outputs(game, method, *size, game.start)
    if not all(bool(tree.is_finite(z)) for z in ends.values()):
        return {"an exact run stays finite": holds(False)}
    laws = {f"the output {name} is in the domain": _inside(game, z) for name, z in ends.items()}
    if game.saddle is not None and solves:
        first = gap(problem, {"start": game.start})
        kept = outputs(game, method, *size, game.saddle)
        laws["an exact run approaches the saddle point"] = NEAR * first - gap(problem, ends)
        laws["a run from the saddle point stays there"] = NEAR * first - gap(problem, kept)
        for name, z in ends.items():
            laws[f"the output {name} approaches the saddle point"] = AVERAGED * first - gap(problem, {name: z})
    return laws


def _check_clients(method: AbstractMethod, games: Games) -> None:
    """Three clients with the same data are one client; with their own they stay finite and in the domain."""
    equal, unequal = games.with_data(3), games.with_data(3, equal=False)
    if (size := sizes_of(method, equal.problem)) is None:
        return
    alone, together = (
        outputs(games.with_data(), method, 1, size[1], equal.start),
        outputs(equal, method, *size, equal.start),
    )
    apart = max(_apart(together[name], alone[name]) for name in alone)
    where = f"{size[0]} clients, local_steps={size[1]}"
    require(method, {"equal clients give what one client gives": LINEAR - apart}, f"{where}, the same data")
    ends = outputs(unequal, method, *size, unequal.start)
    require(method, {f"the output {name} is in the domain": _inside(unequal, z) for name, z in ends.items()}, where)


def _size(method: AbstractMethod, game: Game) -> tuple[int, int] | None:
    return sizes_of(method, game.problem)


def _inside(game: Game, z: Tree) -> float:
    return OUTSIDE - float(game.problem.geometry.violation(z))


def _numbers(a: Tree) -> Reals:
    return np.concatenate([np.ravel(np.asarray(leaf, float)) for leaf in jax.tree.leaves(a)])


def _apart(a: Tree, b: Tree) -> float:
    return float(np.max(np.abs(_numbers(a) - _numbers(b))))
