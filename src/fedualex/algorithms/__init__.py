"""Methods, each written once: what a client does in a step, what it sends, and what the server does with it."""

from .adaptive import AdaptiveDualExtrapolation, BacktrackingDualExtrapolation
from .aliases import (
    CoMP,
    CompositeDualExtrapolation,
    CompositeMirrorDescent,
    DualAveraging,
    MirrorDescent,
    MirrorProx,
    StochasticDualExtrapolation,
    StochasticMirrorProx,
)
from .base import AbstractMethod
from .dual import FedDualAvg, FeDualEx, FeDualExCorrected
from .mirror import FedMiD, FedMiP
from .plain import ExtraStepLocalSGD, FedAvg, FedAvgS, LocalSGDA, ScaffoldS
from .scaffold import ScaffoldSMemory
from .sequential import ChambollePock, NesterovDualExtrapolation, OptimisticMirrorDescent, TsengAPG
from .synchronous import SynchronousDualExtrapolation, SynchronousMirrorProx

__all__ = [
    "AbstractMethod",
    "AdaptiveDualExtrapolation",
    "BacktrackingDualExtrapolation",
    "ChambollePock",
    "CoMP",
    "CompositeDualExtrapolation",
    "CompositeMirrorDescent",
    "DualAveraging",
    "ExtraStepLocalSGD",
    "FeDualEx",
    "FeDualExCorrected",
    "FedAvg",
    "FedAvgS",
    "FedDualAvg",
    "FedMiD",
    "FedMiP",
    "LocalSGDA",
    "MirrorDescent",
    "MirrorProx",
    "NesterovDualExtrapolation",
    "OptimisticMirrorDescent",
    "ScaffoldS",
    "ScaffoldSMemory",
    "StochasticDualExtrapolation",
    "StochasticMirrorProx",
    "SynchronousDualExtrapolation",
    "SynchronousMirrorProx",
    "TsengAPG",
]
