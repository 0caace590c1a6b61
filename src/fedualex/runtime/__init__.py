"""The simulator: rounds on many clients, records, certificates, stopping, checkpoints."""

from .outputs import Output
from .run import Run
from .simulate import simulate, solve
from .status import Status

__all__ = ["Output", "Run", "Status", "simulate", "solve"]
