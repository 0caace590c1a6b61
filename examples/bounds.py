"""The bounds of both tables of docs/theory.md, printed and corrected, on the paper's two games."""

import fedualex as fx
from fedualex import theory

T = 5000


def show(label, bound):
    """One line: the best step, the bound there, and its closed form term by term."""
    step, terms = bound.best_step, bound.rate.values()
    strong = "" if bound.strong is None else f", expected gap {bound.strong.total(step):.3g}"
    rate = " + ".join(f"{value:.3g}" for value in terms)
    print(f"  {label}: step {step:.3g}, bound {bound.total(step):.3g}{strong}, rate {sum(terms):.3g} = {rate}")


for name, game in (("l1", fx.problems.paper_l1(0)), ("nuclear", fx.problems.paper_nuclear(0))):
    c = theory.constants(game, fx.GaussianNoise(0.1))
    loose = [k for k, v in c.how.items() if v != "exact"]
    print(f"{name}: beta {c.beta:.2f}, sigma {c.sigma:.2f}, G {c.grad_bound:.1f}, B {c.B:.3g}, ", end="")
    print(f"B0 {c.B0:.3g}, D {c.diameter:.3g}; bounds, not exact: {loose}")
    print(" Table 1")
    for K in (1, 10):
        run = {"clients": 100, "local_steps": K, "rounds": T // K}
        show(f"Theorem 1 printed,   K={K}", theory.theorem1(c, **run).printed)
        show(f"Theorem 1 corrected, K={K}", theory.theorem1(c, **run).corrected)
    show("Proposition B, any K", theory.proposition_b(c, **run))
    print(" Table 2")
    for which in (theory.theorem3(c, steps=T), theory.theorem4(c, steps=T)):
        show(f"{which.name} printed  ", which.printed)
        show(f"{which.name} corrected", which.corrected)
    pairs = ((game.geometry.parts.x, game.like.x), (game.geometry.parts.y, game.like.y))
    x, y = (float(part.B0(leaf)) for part, leaf in pairs)
    print(f"  Tseng, deterministic: {4 * c.beta * (x * y) ** 0.5 / (T + 1):.3g}")
    print(f" gap at the start: {game.gap(game.like):.3g}")
