"""Three methods of rounds: in the dual space, in the primal space, and with a state of the server's own."""

import fedualex as fx
from fedualex import tree
from fedualex.algorithms import AbstractMethod
from fedualex.algorithms.base import StepSize, step
from fedualex.algorithms.dual import AbstractDualMethod
from fedualex.algorithms.primal import AbstractPlainMethod


class CautiousDualEx(AbstractDualMethod):
    """FeDualEx with a step of its own, eta_half, to the half point."""

    eta_c: StepSize = step("eta_c")
    eta_half: StepSize = step("eta_half")
    eta_s: StepSize = step("eta_s", 1.0)
    linear_sample = 1

    def local_step(self, local, oracle, geometry):
        half = local.descend(self.eta_half, oracle(geometry.primal(local), 0))
        return local.descend(self.eta_c, oracle(geometry.primal(half), 1)), half, self.eta_c


fx.testing.check_method(CautiousDualEx())
game = fx.problems.matrix_game([[1.0, -1.0], [-1.0, 1.0]])
assert fx.solve(game, CautiousDualEx(0.3, 0.2), clients=2, local_steps=2, rounds=20).gap < 0.1


class LocalExtragradient(AbstractPlainMethod):
    """Two composite steps from the same point on every client; the server averages points."""

    eta_c: StepSize = step("eta_c")
    eta_s: StepSize = step("eta_s", 1.0)

    def local_step(self, local, oracle, geometry):
        center = geometry.dual(local.z)
        half = geometry.primal(center.descend(self.eta_c, oracle(local.z, 0)))
        z = geometry.primal(center.descend(self.eta_c, oracle(half, 1)))
        return local.move(z, self.eta_c), half, self.eta_c


assert fx.solve(game, LocalExtragradient(0.3), clients=2, local_steps=2, rounds=20).gap < 0.2


class ServerMomentum(AbstractMethod):
    """FeDualEx whose server adds a share of its last increment; its state is (pair, last increment)."""

    eta_c: StepSize = step("eta_c")
    momentum: StepSize = step("momentum", 0.5)

    def start(self, dual, geometry):
        return dual, tree.scale(0.0, dual)

    def local_init(self, server, memory):
        return server[0]

    def local_step(self, local, oracle, geometry):
        half = local.descend(self.eta_c, oracle(geometry.primal(local), 0))
        return local.descend(self.eta_c, oracle(geometry.primal(half), 1)), half, self.eta_c

    def local_final(self, local, server, memory):
        return tree.subtract(local, server[0]), None

    def server_step(self, server, message, geometry, fraction):
        pair, last = server
        move = tree.add(message, tree.scale(self.momentum, last))
        return tree.add(pair, move), move

    def point(self, server, geometry):
        return geometry.primal(server[0])

    def read(self, probe, geometry):
        return geometry.primal(probe)

    def memory(self, server):
        return None


assert fx.solve(game, ServerMomentum(0.2, 0.3), clients=2, local_steps=2, rounds=40).gap < 0.2
