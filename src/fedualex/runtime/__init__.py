"""The simulator: rounds on many clients, records, certificates, stopping, checkpoints."""

from .checkpoint import fingerprint
from .outputs import NONZERO, Output, structure_of
from .run import Run
from .simulator import simulate, solve
from .status import Status, Stop
from .sweeps import Tuned, averaging, score, sweep, tune

__all__ = [
    "NONZERO",
    "Output",
    "Run",
    "Status",
    "Stop",
    "Tuned",
    "averaging",
    "fingerprint",
    "score",
    "simulate",
    "solve",
    "structure_of",
    "sweep",
    "tune",
]
