"""The simulator: rounds on many clients, records, certificates, stopping, checkpoints."""

from .outputs import Output
from .run import Run
from .simulate import simulate, solve
from .status import Status
from .sweep import Tuned, sweep, tune

__all__ = ["Output", "Run", "Status", "Tuned", "simulate", "solve", "sweep", "tune"]
