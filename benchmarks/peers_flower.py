"""FeDualEx in Flower's simulation on Ray: a ClientApp does the local steps in numpy, FedAvg the averaging."""

import functools
import logging
import os

os.environ |= {"FLWR_TELEMETRY_ENABLED": "0", "RAY_USAGE_STATS_ENABLED": "0"}

import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import ServerApp
from flwr.serverapp.strategy import FedAvg
from flwr.simulation import run_simulation
from peers import numpy_client

logging.getLogger("flwr").setLevel(logging.ERROR)
client_app = ClientApp()


@functools.cache
def load(game_file):
    """A client's data, read once in each of Ray's workers."""
    with np.load(game_file) as game:
        return game["A"], game["b"], np.random.default_rng()


@client_app.train()
def train(message, context):
    """The client's local steps."""
    config = message.content["config"]
    A, b, rng = load(config["game"])
    x, y = message.content["arrays"].to_numpy_ndarrays()
    tau = config["eta"] * config["local_steps"] * (config["server-round"] - 1)
    local = {name: config[name] for name in ("local_steps", "eta", "sigma")}
    arrays = ArrayRecord(list(numpy_client(A, b, x, y, tau, rng=rng, **local)))
    reply = RecordDict({"arrays": arrays, "metrics": MetricRecord({"num-examples": 1})})
    return Message(content=reply, reply_to=message)


def run(game_file, A, b, *, rounds, local_steps, clients, eta, sigma, after_round):
    """Run some rounds, return omega."""
    server_app, results = ServerApp(), []
    config = {"game": game_file, "local_steps": local_steps, "eta": eta, "sigma": sigma}

    def evaluate(server_round, arrays):
        if server_round > 0:
            after_round()

    @server_app.main()
    def main(grid, context):
        start = ArrayRecord([np.zeros(A.shape[1], np.float32), np.zeros(A.shape[0], np.float32)])
        strategy = FedAvg(fraction_evaluate=0.0, min_available_nodes=clients)
        train_config = ConfigRecord(config)
        result = strategy.start(grid, start, num_rounds=rounds, train_config=train_config, evaluate_fn=evaluate)
        results.append(result.arrays.to_numpy_ndarrays())

    resources = {"client_resources": {"num_cpus": 1, "num_gpus": 0.0}}
    run_simulation(server_app, client_app, num_supernodes=clients, backend_config=resources)
    return results[0]
