"""Methods, each written once: what a client does in a step, what it sends, and what the server does with it."""

from .adaptive import AdaptiveDualExtrapolation, BacktrackingCoMP, BacktrackingDualExtrapolation
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
from .chambolle_pock import ChambollePock
from .extra_step import ExtraStepLocalSGD
from .fedavg import FedAvg, FedAvgS
from .feddualavg import FedDualAvg
from .fedgda_gt import FedGDAGT
from .fedmid import FedMiD
from .fedmip import FedMiP
from .fedualex import FeDualEx, FeDualExCorrected
from .fedualslide import FeDualSlide
from .lead_sliding import LeadSliding
from .local_sgda import LocalSGDA
from .nesterov import NesterovDualExtrapolation
from .optimistic import OptimisticMirrorDescent
from .scaffold_memory import ScaffoldSMemory
from .scaffold_survey import ScaffoldS
from .synchronous import SynchronousDualExtrapolation, SynchronousMirrorProx
from .tseng import TsengAPG

__all__ = [
    "AbstractMethod",
    "AdaptiveDualExtrapolation",
    "BacktrackingCoMP",
    "BacktrackingDualExtrapolation",
    "ChambollePock",
    "CoMP",
    "CompositeDualExtrapolation",
    "CompositeMirrorDescent",
    "DualAveraging",
    "ExtraStepLocalSGD",
    "FeDualEx",
    "FeDualExCorrected",
    "FeDualSlide",
    "FedAvg",
    "FedAvgS",
    "FedDualAvg",
    "FedGDAGT",
    "FedMiD",
    "FedMiP",
    "LeadSliding",
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
