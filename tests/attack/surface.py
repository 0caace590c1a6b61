"""The public surface as calls that work, and the values that are tried in place of their arguments."""

import ast
import inspect
from collections.abc import Callable, Iterator
from typing import Any

import fedualex as fx
from fedualex.runs.settings import METHODS, PROBLEMS

IMPORTS = """
import warnings; warnings.simplefilter("ignore")
from decimal import Decimal; from fractions import Fraction
import jax.numpy as jnp, numpy as np, fedualex as fx
""".strip()
GIVEN = {
    "GAME": "fx.problems.bilinear([[1.0, 2.0], [0.5, -1.0]], [0.3, 0.1], x=fx.Box(1.0), y=fx.Box(1.0))",
    "MATRICES": "fx.problems.bilinear(np.eye(2), np.eye(2), x=fx.Spectral(fx.Box(0.5)), y=fx.Spectral(fx.Box(0.5)))",
    "Z": "fx.Saddle(np.zeros(2), np.zeros(2))",
    "X": "np.arange(12.0).reshape(6, 2) % 5",
    "Y": "np.arange(6.0)",
    "LABELS": "np.array([0, 1, 0, 1, 1, 0])",
    "WHO": "np.array([0, 0, 0, 1, 1, 1])",
    "LIMITED": "fx.problems.constrained(X, LABELS, WHO, limits=0.9, l1=0.1)",
    "CONSTANTS": "fx.theory.constants(GAME)",
    "ATTACKED": "fx.Saddle({'weights': np.zeros(2), 'bias': np.zeros(())}, np.zeros(2))",
    "MODEL": "{'weights': np.zeros(2), 'bias': np.zeros(())}",
}
"""What the names in the calls stand for."""

CALLS = """
# regularizers and geometries
fx.Zero()
fx.NonNegative()
fx.L1(lam=0.1)
fx.SquaredL2(lam=0.1)
fx.ElasticNet(lam1=0.1, lam2=0.2)
fx.Linear(c=np.ones(2))
fx.GroupL2(lam=0.1, groups=np.array([0, 1]), weights=np.ones(2))
fx.Box(lower=-1.0, upper=np.ones(2))
fx.L2Ball(radius=1.0)
fx.L1Ball(radius=1.0)
fx.Simplex(radius=1.0)
fx.CappedSimplex(cap=0.6)
fx.KL(lam=0.1, q=np.ones(2))
fx.Entropy(lam=0.1)
fx.Spectral(psi=fx.L1(0.1), route='svd')
fx.Euclidean(regularizer=fx.L1(0.1))
fx.EntropicSimplex(regularizer=fx.Entropy(0.1))
fx.PNorm(p=1.5, regularizer=fx.L1(0.1))
fx.Product(parts=fx.Saddle(fx.Euclidean(), fx.Euclidean()))
# problems, and what they answer
fx.Exact()
fx.GaussianNoise(sigma=0.1)
fx.Minibatch(size=2)
fx.Problem(f=lambda x, y: x @ y, x=fx.Box(1.0), y=fx.Box(1.0), like=Z, data=None, weights='clients', uncertified='')
fx.problems.active_bounds(problem=GAME, z=Z)
fx.problems.attack_report(
    X=X, y=LABELS, z=ATTACKED, labels=None, zero=1e-5
)
fx.problems.check_convex_concave(problem=GAME, pairs=2, seed=0)
fx.problems.client_metrics(x=MODEL, X=X, y=LABELS, clients=WHO, loss=None, delta=1.0, labels=None)
fx.problems.roc_auc(scores=Y, y=LABELS)
fx.problems.violation(problem=LIMITED, z=LIMITED.like)
fx.problems.phase_one(problem=LIMITED)
GAME.certificate(z=Z)
GAME.certify(z=Z)
GAME.objective(z=Z)
GAME.project(z=Z)
# runs
fx.simulate(
    problem=GAME, method=fx.FeDualEx(0.1), rounds=2, clients=2, local_steps=1, cohort=None, noise=None, seed=0,
    z0=Z, init='project', record_every=1, output=None, dtype='float64', chunk=None, callback=None, fast=None,
    mesh=None, weights=None, convexity='check'
)
fx.solve(
    problem=GAME, method=fx.FeDualEx(0.1), rounds=2, clients=2, local_steps=1, cohort=None, noise=None, seed=0,
    z0=Z, init='project', record_every=1, output=None, dtype='float64', chunk=None, callback=None, fast=None,
    mesh=None, weights=None, convexity='check', tol=0.1, max_seconds=60.0
)
fx.sweep(problem=GAME, method=fx.FeDualEx(0.1), grid={'eta_c': [0.1]}, seeds=(0,), rounds=2)
fx.tune(problem=GAME, method=fx.FeDualEx(0.1), grid={'eta_c': [0.1]}, seed=0, output='last', rounds=2)
fx.compare(
    problem=GAME, methods={'a': fx.FeDualEx(0.1)}, seeds=1, rounds=2, clients=2, tol=None, noise=None, z0=Z, mesh=None
)
fx.deploy.run(problem=GAME, method=fx.FeDualEx(0.1), rounds=1, sites=2, callback=None, timeout=30.0, tol=None)
fx.deploy.Privacy(clip=1.0, noise=1.0, delta=1e-5)
fx.deploy.Policy(least_rows=5, least_group=2, exchanges_per_day=9, epsilon=1.0, delta=1e-5, secure_sums=True)
# theory, references, checkers
fx.theory.constants(problem=GAME, oracle=None, z0=Z, samples=2, seed=0)
fx.theory.theorem1(constants=CONSTANTS, clients=2, local_steps=2, rounds=5, eta_s=1.0)
fx.theory.theorem2(constants=CONSTANTS, clients=2, local_steps=2, rounds=5, eta_s=1.0)
fx.theory.theorem3(constants=CONSTANTS, steps=5)
fx.theory.theorem4(constants=CONSTANTS, steps=5)
fx.theory.proposition_b(constants=CONSTANTS, clients=2, local_steps=2, rounds=5, eta_s=1.0)
fx.theory.slide(constants=CONSTANTS, delta=0.1, local_steps=2, rounds=5, reference='fresh', norm='any', sigma=0.5)
fx.theory.similarity(problem=LIMITED, samples=2, seed=0)
fx.reference.lp(game=GAME)
fx.reference.least_violation(problem=LIMITED)
fx.reference.best_response(game=MATRICES, sweeps=3, tol=1e-6)
fx.testing.check_regularizer(psi=fx.L1(0.1), like=np.zeros(2), samples=2, seed=0)
fx.testing.check_geometry(geometry=fx.Euclidean(), like=np.zeros(2), samples=2, seed=0)
fx.testing.check_method(method=fx.FeDualEx(0.1), composite=True, seed=0)
fx.testing.check_problem(problem=GAME, samples=2, seed=0)
# data
fx.data.iid(rows=6, clients=2, seed=0)
fx.data.by_column(values=WHO)
fx.data.by_size(rows=6, sizes=[4, 2], seed=0)
fx.data.dirichlet(labels=LABELS, clients=2, alpha=1.0, seed=0, least=1)
fx.data.sums(X=X, center=None)
fx.data.added(parts=[fx.data.sums(X)])
fx.data.bundled(name='wine')
fx.data.bundled_table(name='wine')
fx.data.read_csv(path='no_such_file.csv', delimiter=',')
fx.data.read_npz(path='no_such_file.npz')
fx.data.read_npz_table(path='no_such_file.npz')
fx.data.read_parquet(path='no_such_file.parquet')
"""

NOT_CALLED = {
    "runs many methods into a folder; tests/field has it": {"benchmark", "field"},
    "reads and writes folders of models; tests/models has them": {"models"},
    "holds results or messages": {
        *("Facts", "LocalSteps", "Stepped", "Survey"),
        *("Certificate", "Dual", "Run", "Saddle", "Status", "Stop", "AttackReport", "Bilinear", "ClientMetrics"),
        *(
            "ConvexityCheck",
            "Bound",
            "Similarity",
            "SlideBound",
            "Constants",
            "Term",
            "Theorem",
            "Solution",
            "LeastViolation",
        ),
        *("Sums", "Standardizer", "Table", "Coding", "Encoder", "BUNDLED", "Floor", "Surveyed"),
        *("Arrays", "Reply", "Request", "RunHooks", "DeploymentOptions"),
    },
    "between parties": {"Rows", "assemble", "gather", "split_rows", "Guard", "RefusedError", "SiteFacts"},
    "abstract": {
        *("AbstractRecipe", "AbstractOracle", "AbstractProblem", "AbstractMethod", "Method"),
        *("AbstractFederated", "FederatedClassifier", "FederatedRegressor"),
    },
    "needs a network or an engine": {"openml", "Engine", "thread_engine", "Site", "Task"},
    "takes any arrays": {"checksum"},
    "inside the checkers": {"Laws", "check_extremes", "geometry_laws", "regularizer_laws"},
}

EXAMPLES = {
    "X": "X",
    "y": "LABELS",
    "Y": "np.stack([Y, -Y], 1)",
    "time": "np.abs(Y) + 1.0",
    "event": "LABELS > 0",
    "clients": "WHO",
    "A": "np.eye(2)",
    "b": "np.zeros(2)",
    "family": "'logistic'",
    "limits": "0.9",
    **dict.fromkeys(["l1", "l2", "kl", "lam", "nuclear"], "0.1"),
    **dict.fromkeys(["eta", "eta_c", "eta_x", "eta_y", "tau", "tau_x", "tau_y", "mu"], "0.1"),
    "L": "1.0",
    "radius": "1.0",
    "size": "3",
    "features": "4",
    "nonzeros": "2",
    "rank": "2",
}
"""Arguments of problems, recipes, methods and estimators by their names; others have their defaults."""
OTHER_EXAMPLES = {
    "fx.problems.bilinear": {"x": "fx.Box(1.0)", "y": "fx.Box(1.0)"},
    "fx.problems.paper_l1_unequal": {"clients": "2"},
    "fx.problems.paper_nuclear_unequal": {"clients": "2"},
}

VALUES = """
None, True, False, 0, -1, 1, 2, 3, 0.5, -0.5, -0.0, 1e-320, 1e-160, 1e200, 1e308,
float('nan'), float('inf'), float('-inf'), 1 + 2j, Fraction(1, 3), Decimal('0.1'), '', 'abc',
b'x', [], (), {}, {'a': 1}, {1, 2}, [1, [2, 3]], [1.0, 2.0], ['a', 'b'], [None, None],
range(2), (i for i in range(2)), object(), int, lambda *a, **k: None, lambda x: x, np, Ellipsis,
np.float32(0.5), np.float64('nan'), np.int8(3), np.uint8(2), np.int64(-1), np.uint64(1),
np.bool_(True), np.array(3.0), np.array(2), np.array([]), np.zeros((0, 2)), np.zeros((2, 0)),
np.array([np.nan, 1.0]), np.array([1.0, np.inf]), np.full(2, 1e200), np.full((2, 2), 1e-200),
np.ones((2, 2)), np.ones((2, 2, 2)), np.ones(7), np.ones(6), np.zeros(2), np.zeros(6),
np.array([True, False]), np.array(['a', 'b']), np.array([None, 1.0], dtype=object), np.array([1j, 2]),
np.ma.masked_array([1.0, 2.0], [True, False]), np.ma.masked_array(np.ones(6), [True] + [False] * 5),
np.array(['2020-01-01', '2021-01-01'], dtype='datetime64[D]'), np.datetime64('nat'), jnp.ones(2),
np.arange(6).astype(np.int8), np.arange(12).reshape(6, 2), np.arange(6) % 2 == 0, np.longdouble(1),
np.array(['x', 'y', '', 'x', 'y', 'x']), [1, '1', 1, '1', 1, '1'], [0, 1, None, 1, 0, 1], Y * np.nan,
GAME, Z, fx.Saddle(np.zeros(2)), fx.Saddle(None, None), fx.Saddle(np.zeros(3), np.zeros(2)),
fx.Saddle([0.0, 0.0], [0.0, 0.0]), fx.Saddle(np.full(2, np.nan), np.zeros(2)), fx.Saddle('a', 'b'),
fx.Saddle(np.full(2, 1e300), np.zeros(2)), fx.Status.OPTIMAL, fx.GaussianNoise(0.1), CONSTANTS,
np.random.default_rng(0), [fx.L1(0.1), fx.L1(0.1)], {'eta_c': []}, {'eta_c': [0.0]}, {'eta': [1.0]},
2**31, 2**63, -2**63, 10**400,
"""
WHOLE = 4
"""So many of the values, the last ones, are large whole numbers."""


def calls() -> list[tuple[str, dict[str, str]]]:
    """Each function with its arguments, as text."""
    written = [statement.value for statement in ast.parse(CALLS).body if isinstance(statement, ast.Expr)]
    found = [(ast.unparse(call.func), {arg.arg: ast.unparse(arg.value) for arg in call.keywords}) for call in written]
    return found + list(catalogue())


def catalogue() -> Iterator[tuple[str, dict[str, str]]]:
    """Every method, problem, recipe and estimator that the package lists, called as its signature says."""
    for name, method in METHODS.items():
        yield f"fx.{name}" if hasattr(fx, name) else f"fx.algorithms.{name}", arguments(method, {})
    for name in [*PROBLEMS, *concrete(fx.problems, fx.problems.AbstractRecipe)]:
        path = f"fx.problems.{name}"
        yield path, arguments(getattr(fx.problems, name), OTHER_EXAMPLES.get(path, {}))
    for name in concrete(fx.estimators, fx.estimators.AbstractFederated):
        kind = getattr(fx.estimators, name)
        labelled = issubclass(kind, fx.estimators.FederatedClassifier)
        parameters = inspect.signature(kind).parameters.values()
        needed = (one.name for one in parameters if one.default is inspect.Parameter.empty)
        yield (
            f"fx.estimators.{name}({''.join(f'{one}={EXAMPLES[one]}, ' for one in needed)}max_rounds=2).fit",
            {"X": "X", "y": "LABELS" if labelled else "Y", "clients": "WHO"},
        )


def concrete(module: Any, kind: type) -> list[str]:
    """The classes of a kind among the public names of a module, of which there are instances."""
    classes = {name: getattr(module, name) for name in module.__all__ if inspect.isclass(getattr(module, name))}
    return [name for name, one in classes.items() if issubclass(one, kind) and name not in NOT_CALLED["abstract"]]


def arguments(function: Callable[..., object], other: dict[str, str]) -> dict[str, str]:
    """Examples of all arguments of a function, as text."""
    found = {}
    for name, parameter in inspect.signature(function).parameters.items():
        known = other.get(name, EXAMPLES.get(name))
        if known is None and parameter.default is inspect.Parameter.empty:
            raise LookupError(f"EXAMPLES has no {name}, which {function} needs")
        found[name] = repr(parameter.default) if known is None else known
    return found


def values() -> list[str]:
    """The values, as text."""
    return [ast.unparse(value) for value in ast.parse(f"({VALUES})").body[0].value.elts]


def uncovered(modules: dict[str, Any]) -> set[str]:
    """Public names that are neither called here nor excused."""
    called = {part for function, _ in calls() for part in function.replace("(", ".").split(".")}
    excused = set().union(*NOT_CALLED.values())
    public = {name for module in modules.values() for name in module.__all__}
    return public - called - excused - modules.keys()
