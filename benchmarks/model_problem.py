"""How long the server takes for the model problem of methods with curvature, and what other solvers take.

    OPENBLAS_NUM_THREADS=1 python benchmarks/model_problem.py [--others] [--sizes 30 100 500 1000 2000]

Rows of standard normal columns with a common factor, 2 d of them, or d / 2, which makes the curvature singular; l1 in
the ball that the problem implies, alone or against an adversary on a simplex of 15 or with 3 multipliers in a box.
"""

import argparse
import time
from collections.abc import Callable

import numpy as np

import fedualex as fx
from fedualex.bundle import Flat
from fedualex.geometry import Product
from fedualex.model_problem import blocks_of, solve_model
from fedualex.tree import Saddle

ADVERSARIES = {"none": (None, 0), "simplex of 15": (fx.Simplex(), 15), "3 multipliers": (fx.Box(lower=0, upper=10), 3)}


def draw(seed: int, d: int, adversary: str, share: float, rows: int) -> tuple:
    """Flat geometry, g, J: a model problem whose l1 strength is a share of the largest slope."""
    rng = np.random.default_rng(seed)
    psi_y, m = ADVERSARIES[adversary]
    X = rng.standard_normal((rows, d)) + rng.standard_normal((rows, 1))
    J = np.zeros((d + m, d + m))
    J[:d, :d] = X.T @ X / rows
    B = rng.standard_normal((m, d)) / 4
    J[d:, :d], J[:d, d:] = -B, B.T
    g = np.concatenate([-J[:d, :d] @ (rng.standard_normal(d) * (rng.random(d) < 0.3)), rng.standard_normal(m)])
    psi_x = fx.L1(share * np.max(np.abs(g[:d]))) + fx.L1Ball(100.0 * d)
    saddle = (Saddle(psi_x), Saddle(np.zeros(d))) if not m else (Saddle(psi_x, psi_y), Saddle(np.zeros(d), np.zeros(m)))
    return Flat(Product(saddle[0]), saddle[1], 1.0), g, J


def seconds(solve: Callable[[], object]) -> tuple[float, object]:
    """CPU seconds, and what was returned."""
    start = time.process_time()
    answer = solve()
    return time.process_time() - start, answer


def with_clarabel(flat: Flat, g: np.ndarray, J: np.ndarray) -> tuple[float, np.ndarray]:
    """The x of the same model without an adversary by Clarabel, called directly; its setup is not counted."""
    import clarabel
    from scipy import sparse

    d = g.size
    form = flat.geometry.parts.x.model_form()
    P = sparse.csc_matrix(np.triu(np.block([[J, np.zeros((d, d))], [np.zeros((d, 2 * d))]])))
    one = sparse.eye(d)
    A = sparse.vstack([sparse.hstack([one, -one]), sparse.hstack([-one, -one]), np.r_[np.zeros(d), np.ones(d)][None]])
    settings = clarabel.DefaultSettings()
    settings.verbose, settings.tol_gap_abs, settings.tol_gap_rel, settings.tol_feas = False, 1e-10, 1e-10, 1e-10
    q, b = np.r_[g, np.full(d, form.l1)], np.r_[np.zeros(2 * d), form.radius]
    cones = [clarabel.NonnegativeConeT(2 * d + 1)]
    took, solution = seconds(clarabel.DefaultSolver(P, q, A.tocsc(), b, cones, settings).solve)
    return took, np.asarray(solution.x)[:d]


def with_fixed_point(flat: Flat, g: np.ndarray, J: np.ndarray) -> np.ndarray:
    """1,000 accelerated steps of the prox, without an adversary."""
    lam, n, step = flat.geometry.parts.x.model_form().l1, np.zeros(g.size), 1 / np.linalg.norm(J, 2)
    before, momentum = n, 1.0
    for _ in range(1000):
        grown = (1 + np.sqrt(1 + 4 * momentum**2)) / 2
        ahead = n + (momentum - 1) / grown * (n - before)
        v = ahead - step * (g + J @ ahead)
        before, n, momentum = n, np.sign(v) * np.maximum(np.abs(v) - step * lam, 0), grown
    return n


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--sizes", type=int, nargs="+", default=[30, 100, 500, 1000, 2000])
    parser.add_argument("--others", action="store_true")
    options = parser.parse_args()
    print(
        "| d | adversary | rows | l1 | nonzero | seconds | iterations | residual |\n|---|---|---|---|---|---|---|---|"
    )
    for d in options.sizes:
        for adversary in ADVERSARIES:
            for share, rows in ((0.1, 2 * d), (1e-4, 2 * d), (0.01, d // 2)):
                flat, g, J = draw(0, d, adversary, share, rows)
                blocks, c = blocks_of(flat), np.zeros(g.size)
                took, s = seconds(lambda blocks=blocks, g=g, J=J, c=c: solve_model(blocks, g, J, c))
                filled = np.count_nonzero(s.point[:d])
                row = d, adversary, rows, share, filled, f"{took:.3f}", s.iterations, f"{s.residual:.0e}"
                print(f"| {' | '.join(map(str, row))} |", flush=True)
    _time_other_kinds()
    if options.others:
        _compare(options.sizes)


def _time_other_kinds() -> None:
    """One problem of each, of independent columns."""
    d, rng = 1000, np.random.default_rng(0)
    groups = fx.GroupL2(0.3, np.arange(d) // 5) + fx.L2Ball(1e4)
    l1, entropy = fx.L1(0.1) + fx.L1Ball(1e4), fx.EntropicSimplex(fx.KL(0.1, np.full(15, 1 / 15)))
    kinds = {
        "200 groups": (groups, (d,), None, 0),
        "l1, KL to 15 weights": (l1, (d,), entropy, 15),
        "l1 in an active l2 ball, simplex of 15": (fx.L1(0.1) + fx.L2Ball(0.5), (d,), fx.Simplex(), 15),
        "l1, box of 1,000": (l1, (d,), fx.Box(1.0), 1000),
        "nuclear norm, 40 x 25": (fx.Spectral(fx.L1(0.5) + fx.L2Ball(1e4)), (40, 25), None, 0),
        "nuclear norm, 50 x 40": (fx.Spectral(fx.L1(0.5) + fx.L2Ball(1e4)), (50, 40), None, 0),
    }
    print("\n| kind | d | seconds | iterations | residual |\n|---|---|---|---|---|")
    for name, (psi_x, shape, psi_y, m) in kinds.items():
        size = int(np.prod(shape))
        X, B = rng.standard_normal((2 * size, size)), rng.standard_normal((m, size))
        J = np.block([[X.T @ X / (2 * size), B.T], [-B, np.zeros((m, m))]])
        low_rank = rng.standard_normal((shape[0], 3)) @ rng.standard_normal((3, size // shape[0]))
        target = low_rank.ravel() if len(shape) == 2 else rng.standard_normal(size)
        g = np.concatenate([-J[:size, :size] @ target, rng.standard_normal(m)])
        parts, like = ([psi_x], [np.zeros(shape)]) if not m else ([psi_x, psi_y], [np.zeros(shape), np.zeros(m)])
        blocks = blocks_of(Flat(Product(Saddle(*parts)), Saddle(*like), 1.0))
        took, s = seconds(lambda blocks=blocks, g=g, J=J: solve_model(blocks, g, J, np.zeros(g.size)))
        print(f"| {name} | {size} | {took:.3f} | {s.iterations} | {s.residual:.0e} |", flush=True)


def _compare(sizes: list[int]) -> None:
    print("\n| d | rows | l1 | ours | Clarabel | its distance | 1,000 accelerated steps | their distance |")
    print("|---|---|---|---|---|---|---|---|")
    for d in sizes:
        for share, rows in ((0.1, 2 * d), (1e-4, 2 * d), (0.01, d // 2)):
            flat, g, J = draw(0, d, "none", share, rows)
            blocks, c = blocks_of(flat), np.zeros(d)
            ours, s = seconds(lambda blocks=blocks, g=g, J=J, c=c: solve_model(blocks, g, J, c))
            other, x = with_clarabel(flat, g, J)
            plain, z = seconds(lambda flat=flat, g=g, J=J: with_fixed_point(flat, g, J))
            far = [np.linalg.norm(v - s.point) / np.linalg.norm(s.point) for v in (x, z)]
            row = d, rows, share, f"{ours:.3f}", f"{other:.3f}", f"{far[0]:.0e}", f"{plain:.3f}", f"{far[1]:.0e}"
            print(f"| {' | '.join(map(str, row))} |", flush=True)


if __name__ == "__main__":
    main()
