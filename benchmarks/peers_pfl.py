"""FeDualEx in pfl-research: the model is the dual point, a user's statistics its own dual point, in numpy."""

from dataclasses import dataclass

import numpy as np
from peers import numpy_client
from pfl.aggregate.simulate import SimulatedBackend
from pfl.algorithm.base import FederatedAlgorithm
from pfl.callback.base import TrainingProcessCallback
from pfl.common_types import Population
from pfl.context import CentralContext
from pfl.data.dataset import Dataset
from pfl.data.federated_dataset import FederatedDataset
from pfl.data.sampling import get_user_sampler
from pfl.hyperparam.base import AlgorithmHyperParams, ModelHyperParams
from pfl.metrics import Metrics
from pfl.model.base import Model
from pfl.stats import MappedVectorStatistics


@dataclass(frozen=True)
class Parameters(AlgorithmHyperParams):
    """Of the method."""

    rounds: int
    clients: int
    local_steps: int
    eta: float
    sigma: float


class DualPoint(Model):
    """The server's omega."""

    def __init__(self, x, y):
        self.x, self.y = x, y

    def apply_model_update(self, statistics):
        """Take the mean of the users' dual points."""
        self.x, self.y = statistics["x"], statistics["y"]
        return self, Metrics()


class FeDualEx(FederatedAlgorithm):
    """Local dual extrapolation, averaged."""

    def __init__(self):
        super().__init__()
        self.rng = np.random.default_rng(0)

    def get_next_central_contexts(self, model, iteration, algorithm_params, model_train_params, model_eval_params=None):
        """One cohort of all users, until the last round."""
        if iteration == algorithm_params.rounds:
            return None, model, Metrics()
        context = CentralContext(
            current_central_iteration=iteration,
            do_evaluation=False,
            cohort_size=algorithm_params.clients,
            population=Population.TRAIN,
            algorithm_params=algorithm_params,
            model_train_params=model_train_params,
            seed=self._get_seed(),
        )
        return (context,), model, Metrics()

    def simulate_one_user(self, model, user_dataset, central_context):
        """The user's local steps."""
        A, b = user_dataset.raw_data
        p = central_context.algorithm_params
        tau = p.eta * p.local_steps * central_context.current_central_iteration
        local = {"local_steps": p.local_steps, "eta": p.eta, "sigma": p.sigma, "rng": self.rng}
        x, y = numpy_client(A, b, model.x, model.y, tau, **local)
        return MappedVectorStatistics({"x": x, "y": y}, weight=1.0), Metrics()

    def process_aggregated_statistics(self, central_context, aggregate_metrics, model, statistics):
        """The server's mean."""
        statistics.average()
        return model.apply_model_update(statistics)


class AfterRound(TrainingProcessCallback):
    """Calls a function with the server's point."""

    def __init__(self, function):
        self.function = function

    def after_central_iteration(self, aggregate_metrics, model, *, central_iteration):
        """Never asks to stop."""
        self.function(model.x, model.y)
        return False, Metrics()


def run(game_file, A, b, *, rounds, local_steps, clients, eta, sigma, after_round):
    """Run some rounds, return omega."""
    users = [str(m) for m in range(clients)]
    sampler = get_user_sampler("minimize_reuse", users)
    data = FederatedDataset(lambda user: Dataset((A, b), user_id=user), sampler)
    model = FeDualEx().run(
        algorithm_params=Parameters(rounds, clients, local_steps, eta, sigma),
        backend=SimulatedBackend(data, data),
        model=DualPoint(np.zeros(A.shape[1], np.float32), np.zeros(A.shape[0], np.float32)),
        model_train_params=ModelHyperParams(),
        callbacks=[AfterRound(after_round)],
        send_metrics_to_platform=False,
    )
    return model.x, model.y
