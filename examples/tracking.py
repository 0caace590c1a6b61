"""A run followed by MLflow and TensorBoard through `callback=`; printed where neither is installed."""

import importlib.util

import numpy as np

import fedualex as fx


class Printed:
    """In place of a tracker: the numbers go to the screen."""

    def log_metric(self, key, value, step):
        print(f"round {step}: {key} = {value:.3g}")


class TensorBoard:
    """A writer of TensorBoard, called as MLflow is."""

    def __init__(self, folder):
        from tensorboardX import SummaryWriter

        self.writer = SummaryWriter(folder)

    def log_metric(self, key, value, step):
        self.writer.add_scalar(key, value, step)


def trackers():
    """Those that are installed, or the screen."""
    found = []
    if importlib.util.find_spec("mlflow"):
        import mlflow

        found.append(mlflow)  # its log_metric begins a run by itself, in ./mlflow.db
    if importlib.util.find_spec("tensorboardX"):
        found.append(TensorBoard("runs/tensorboard"))
    if not found:
        print("neither is installed: pip install mlflow, or pip install tensorboardX tensorboard")
    return found or [Printed()]


def logging_to(*trackers):
    """A callback that gives the certified gaps and the bytes of every record to each tracker."""

    def log(record):
        for key, value in record.items():
            if value is not None and key.startswith(("gap_", "bytes_")):
                for tracker in trackers:
                    tracker.log_metric(key, float(value), step=record["round"])

    return log


psi = fx.L1(0.1) + fx.Box(0.5)
game = fx.problems.bilinear(np.random.default_rng(0).uniform(-1, 1, (4, 6)), np.ones(4), x=psi, y=psi)
print(fx.solve(game, fx.FeDualEx(0.3), clients=3, rounds=20, record_every=10, callback=logging_to(*trackers())))
