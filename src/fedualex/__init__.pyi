from . import (
    algorithms as algorithms,
    data as data,
    deploy as deploy,
    estimators as estimators,
    models as models,
    problems as problems,
    reference as reference,
    testing as testing,
    theory as theory,
)
from .algorithms import (
    AdaptiveDualExtrapolation as AdaptiveDualExtrapolation,
    BacktrackingCoMP as BacktrackingCoMP,
    BacktrackingDualExtrapolation as BacktrackingDualExtrapolation,
    ChambollePock as ChambollePock,
    CoMP as CoMP,
    CompositeDualExtrapolation as CompositeDualExtrapolation,
    CompositeMirrorDescent as CompositeMirrorDescent,
    DualAveraging as DualAveraging,
    ExtraStepLocalSGD as ExtraStepLocalSGD,
    FedAvg as FedAvg,
    FedAvgS as FedAvgS,
    FedDualAvg as FedDualAvg,
    FedGDAGT as FedGDAGT,
    FedMiD as FedMiD,
    FedMiP as FedMiP,
    FeDualEx as FeDualEx,
    FeDualExCorrected as FeDualExCorrected,
    FeDualSlide as FeDualSlide,
    LeadSliding as LeadSliding,
    LocalSGDA as LocalSGDA,
    MirrorDescent as MirrorDescent,
    MirrorProx as MirrorProx,
    NesterovDualExtrapolation as NesterovDualExtrapolation,
    OptimisticMirrorDescent as OptimisticMirrorDescent,
    ScaffoldS as ScaffoldS,
    ScaffoldSMemory as ScaffoldSMemory,
    StochasticDualExtrapolation as StochasticDualExtrapolation,
    StochasticMirrorProx as StochasticMirrorProx,
    SynchronousDualExtrapolation as SynchronousDualExtrapolation,
    SynchronousMirrorProx as SynchronousMirrorProx,
    TsengAPG as TsengAPG,
)
from .geometry import (
    Dual as Dual,
    EntropicSimplex as EntropicSimplex,
    Euclidean as Euclidean,
    PNorm as PNorm,
    Product as Product,
)
from .problems import (
    Certificate as Certificate,
    Exact as Exact,
    GaussianNoise as GaussianNoise,
    Minibatch as Minibatch,
    Problem as Problem,
)
from .regularizers import (
    KL as KL,
    L1 as L1,
    Box as Box,
    CappedSimplex as CappedSimplex,
    ElasticNet as ElasticNet,
    Entropy as Entropy,
    GroupL2 as GroupL2,
    L1Ball as L1Ball,
    L2Ball as L2Ball,
    Linear as Linear,
    NonNegative as NonNegative,
    Simplex as Simplex,
    Spectral as Spectral,
    SquaredL2 as SquaredL2,
    Zero as Zero,
)
from .report.comparing import (
    compare as compare,
)
from .runtime import (
    Run as Run,
    Status as Status,
    Stop as Stop,
    simulate as simulate,
    solve as solve,
    sweep as sweep,
    tune as tune,
)
from .tree import (
    Saddle as Saddle,
)

__version__: str
