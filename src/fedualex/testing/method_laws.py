"""The laws of a method."""

from typing import Any, get_args

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from .. import tree
from ..algorithms import AbstractMethod
from ..algorithms.base import Survey
from ..geometry import Dual
from ..precision import double
from ..tree import Tree
from ..validation import of_type, whole_number
from .method_games import BETA, ETA, ROUNDS, Game, Games, complete, gap, outputs, sizes_of
from .sampling import holds, require, same_arrays

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
    of_type("method", method, AbstractMethod, "a method such as fx.FeDualEx(eta_c=0.03)")
    if method.exchanging:
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
        "survey is none, fresh or stale": holds(method.survey in get_args(Survey)),
        "surveys is 0 for none, 1 for stale, at least 1 for fresh": holds(
            method.surveys >= 1 if method.survey == "fresh" else method.surveys == (method.survey == "stale")
        ),
    }


def round_laws(method: AbstractMethod, game: Game, kind: Any) -> Conditions:
    """One round of one client, function by function: structures, shapes and precision stay what they are."""
    seen: Any = jax.eval_shape(lambda: one_round(method, game, kind, 0.0))
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
    pushed = eqx.filter_jit(lambda push: one_round(method, game, np.float64, push))
    behind, here, ahead = (pushed(jnp.asarray(push)) for push in (-1.0, 0.0, 1.0))
    laws = {"a probe's weight is >= 0 and finite": holds(0 <= float(here["weight"]) < np.inf)}
    if method.linear_sample is not None:
        bend = _numbers(ahead["following"]) - 2 * _numbers(here["following"]) + _numbers(behind["following"])
        beside = [(end["probe"], end["weight"]) for end in (ahead, behind)]
        laws["linear_sample enters the next state linearly"] = LINEAR - float(np.max(np.abs(bend)))
        laws["linear_sample enters nothing but the next state"] = LINEAR - _apart(*beside)
    return laws


def one_round(method: AbstractMethod, game: Game, kind: Any, push: Any) -> dict[str, Tree]:
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
    found = outputs(game, method, *size, game.start)
    if not all(bool(tree.is_finite(z)) for z in found.values()):
        return {"an exact run stays finite": holds(False)}
    laws = {f"the output {name} is in the domain": _inside(game, z) for name, z in found.items()}
    if game.saddle is not None and solves:
        first = gap(problem, {"start": game.start})
        kept = outputs(game, method, *size, game.saddle)
        laws["an exact run approaches the saddle point"] = NEAR * first - gap(problem, found)
        laws["a run from the saddle point stays there"] = NEAR * first - gap(problem, kept)
        for name, z in found.items():
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
    found = outputs(unequal, method, *size, unequal.start)
    require(method, {f"the output {name} is in the domain": _inside(unequal, z) for name, z in found.items()}, where)


def _size(method: AbstractMethod, game: Game) -> tuple[int, int] | None:
    return sizes_of(method, game.problem)


def _inside(game: Game, z: Tree) -> float:
    return OUTSIDE - float(game.problem.geometry.violation(z))


def _numbers(a: Tree) -> NDArray[Any]:
    return np.concatenate([np.ravel(np.asarray(leaf, float)) for leaf in jax.tree.leaves(a)])


def _apart(a: Tree, b: Tree) -> float:
    return float(np.max(np.abs(_numbers(a) - _numbers(b))))
