"""OSBDO on sums of losses of scores that share one x: run in the environment of requirements-osbdo.txt.

    python peers_osbdo.py TASK.npz EXCHANGES

TASK.npz has for each client m rows_m (a column of ones last), sign_m and counts_m, and l1 and radius. Prints the
package's own bounds of the optimal value after every exchange, as JSON.
"""

import contextlib
import json
import sys

import cvxpy as cp
import numpy as np
import osbdo


class Client(osbdo.Agent):
    """sum_i counts_i log(1 + exp(-sign_i <row_i, x>)) with its gradient."""

    def _construct_params(self):
        self.rows, self.sign, self.counts = (self.params[name] for name in ("rows", "sign", "counts"))

    def query(self, *, v, solver):
        """A value and a gradient."""
        margin = self.sign * (self.rows @ v)
        value = float(self.counts @ np.logaddexp(0, -margin))
        slope = self.rows.T @ (-self.counts * self.sign / (1 + np.exp(margin)))
        return osbdo.Point(x=v, q=slope, f=value)

    def get_init_minorant(self):
        """Losses are not negative."""
        return cp.Constant(0)


def main(task, exchanges):
    """All clients have a copy of x, and the structured function holds the copies together."""
    data = np.load(task)
    count, radius, l1 = int(data["clients"]), float(data["radius"]), float(data["l1"])
    size = data["rows_0"].shape[1]
    bound = np.full(size, radius)
    agents = [
        Client({"dimension": size, "lower_bound": -bound, "upper_bound": bound}
               | {name: data[f"{name}_{m}"] for name in ("rows", "sign", "counts")})
        for m in range(count)
    ]  # fmt: skip
    alike = [agents[0].x == agent.x for agent in agents[1:]]
    coupling = osbdo.Coupling(agents=agents, function=l1 * cp.norm1(agents[0].x[:-1]), domain=alike)
    problem = osbdo.Problem(agents=agents, g=coupling)
    with contextlib.redirect_stdout(sys.stderr):
        problem.solve(rel_gap=0.0, abs_gap=0.0, max_iter=exchanges, solver="CLARABEL")
    print(json.dumps({"upper": problem.upper_bnd[1:], "lower": problem.lower_bnd[1:]}))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
