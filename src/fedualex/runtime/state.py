"""What does not change during a run, what does, and what clients add to it."""

import equinox as eqx
from jax.sharding import Mesh
from jaxtyping import Array

from ..algorithms import AbstractMethod, Method
from ..problems import AbstractOracle, AbstractProblem
from ..tree import Count, Tree, Vector


class Setup(eqx.Module):
    """What does not change during a run."""

    problem: AbstractProblem
    method: Method
    oracle: AbstractOracle
    weights: Array
    """p, one for each client, summing to 1."""
    steps: Array
    """Local steps of each client; at most `local_steps`."""
    key: Array
    clients: int = eqx.field(static=True)
    cohort: int = eqx.field(static=True)
    local_steps: int = eqx.field(static=True)
    chunk: int = eqx.field(static=True)
    """How many clients are computed at once: memory grows with this, not with `clients`."""
    equal_steps: bool = eqx.field(static=True)
    merge_noise: bool = eqx.field(static=True, default=False)
    """Draw the mean of the clients' last samples of a round at once: the same law, other numbers (fast="law")."""
    mesh: Mesh | None = eqx.field(static=True, default=None)
    """The devices that the clients are spread over; None for one device."""

    @property
    def rounds(self) -> AbstractMethod:
        """The local steps that clients take."""
        return self.method.rounds


class Sums(eqx.Module):
    """Weighted sums of points behind the outputs that are averages, by the names of these, and their common weight."""

    points: dict[str, Tree]
    weight: Vector


class State(eqx.Module):
    """What a run must remember to go on exactly as it would have: saved in checkpoints."""

    server: Tree
    memory: Tree
    reference: Tree
    """The previous round's server point, for stale surveys."""
    sums: Sums
    round: Count


class Contribution(eqx.Module):
    """What clients add to a round; None is what they do not send."""

    message: Tree
    probes: Tree = None
    """sum_m a_m probe, for every local step."""
    probe_weights: Array | None = None
    """sum_m a_m weight over the clients active in each local step."""
    shares: Array | None = None
    """sum_m a_m over the clients active in each local step."""
    points: Tree = None
    """sum_m a_m (K / K_m) sum_k weight read(probe)."""
    point_weight: Array | None = None
