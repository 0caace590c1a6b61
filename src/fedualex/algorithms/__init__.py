"""Methods, each written once: what a client does in a step, what it sends, and what the server does with it."""

from .base import AbstractMethod, Facts, LocalSteps, Method, Stepped, Survey
from .cuts import FeDualCuts
from .dual import FedDualAvg, FeDualEx, FeDualExCorrected, SynchronousDualExtrapolation, SynchronousMirrorProx
from .lead_sliding import LeadSliding
from .newton import FeDualNewton
from .one_machine import (
    AdaptiveDualExtrapolation,
    BacktrackingCoMP,
    BacktrackingDualExtrapolation,
    ChambollePock,
    CoMP,
    CompositeDualExtrapolation,
    CompositeMirrorDescent,
    DualAveraging,
    MirrorDescent,
    MirrorProx,
    NesterovDualExtrapolation,
    OptimisticMirrorDescent,
    StochasticDualExtrapolation,
    StochasticMirrorProx,
    TsengAPG,
)
from .primal import ExtraStepLocalSGD, FedAvg, FedAvgS, FedGDAGT, FedMiD, FedMiP, LocalSGDA, ScaffoldS, ScaffoldSMemory
from .rivals import AFL, DRFA, SDANE, ProxNewton, ProxSkipVIP, ScaffPD
from .slide import FeDualSlide

__all__ = [
    "AFL",
    "DRFA",
    "SDANE",
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
    "Facts",
    "FeDualCuts",
    "FeDualEx",
    "FeDualExCorrected",
    "FeDualNewton",
    "FeDualSlide",
    "FedAvg",
    "FedAvgS",
    "FedDualAvg",
    "FedGDAGT",
    "FedMiD",
    "FedMiP",
    "LeadSliding",
    "LocalSGDA",
    "LocalSteps",
    "Method",
    "MirrorDescent",
    "MirrorProx",
    "NesterovDualExtrapolation",
    "OptimisticMirrorDescent",
    "ProxNewton",
    "ProxSkipVIP",
    "ScaffPD",
    "ScaffoldS",
    "ScaffoldSMemory",
    "Stepped",
    "StochasticDualExtrapolation",
    "StochasticMirrorProx",
    "Survey",
    "SynchronousDualExtrapolation",
    "SynchronousMirrorProx",
    "TsengAPG",
]
