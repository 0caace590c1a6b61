"""Colonel Blotto: ten soldiers on three fields against ten, found by twenty clients who see payoffs with noise."""

import itertools

import numpy as np

import fedualex as fx

plans = np.array([p for p in itertools.product(range(11), repeat=3) if sum(p) == 10])
won = np.sign(plans[:, None] - plans)  # -1, 0, 1 on each field, for every pair of plans
A = np.sign(won.sum(axis=2)).astype(float)  # whoever wins more fields wins the war

game = fx.problems.matrix_game(A)
exact = fx.reference.lp(game)
print(f"{len(plans)} plans; value by a linear program {exact.value:.6f}, its certified gap {exact.gap:.1e}")

run = fx.simulate(
    game, fx.FeDualEx(0.2, 1.0), clients=20, local_steps=10, rounds=200, noise=fx.GaussianNoise(0.5), record_every=50
)
print(run)
x = np.asarray(run.z.x)
print(f"worst payoff of this strategy {np.max(A @ x):.4f}, at most value + gap = {exact.value + run.gap:.4f}")
for i in np.argsort(-x)[:5]:
    print(f"  {plans[i]} with probability {x[i]:.3f}")
