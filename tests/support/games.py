"""A small game that many tests run on."""

import numpy as np

import fedualex as fx

PSI = fx.L1(0.1) + fx.Box(0.5)


def game(seed=0, rows=4, columns=5):
    rng = np.random.default_rng(seed)
    return fx.problems.bilinear(rng.uniform(-1, 1, (rows, columns)), rng.uniform(-1, 1, rows), x=PSI, y=PSI)


GAME = game()
