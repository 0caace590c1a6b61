"""FeDualSlide: certified dual extrapolation with a memory of surveys, for clients that differ."""

import math
from dataclasses import replace
from typing import Any, ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from .. import tree
from ..accepted import Numbers
from ..arrays import Array, by_numpy, xp
from ..bundle import (
    Bounds,
    Cuts,
    Flat,
    KnownFloor,
    find_nearest,
    improve_bounds,
    no_bounds,
    no_cuts,
    pair_of,
    scaled_primal,
    solve_level_problem,
)
from ..certificates.surveys import Surveyed
from ..compiling import compile_by_size, compile_moderately
from ..geometry import AbstractGeometry, Dual
from ..problems import AbstractProblem
from ..tree import Count, Flag, Saddle, Scalar, Tree
from ..validation import real_scalar, short, whole_number
from .base import AbstractMethod, Correction, Facts, LocalSteps, Method, Oracle, Stepped, Survey, choice

# Step sizes that are found on the way, and which of two ways to go on is the better one.


PATIENCE = 8
"""Steps in a row that are short against T_f before the server's own point is surveyed."""
UNTRIED = -1e300
"""A rate that nobody measured."""
SLACK = 2
"""How many times as fast the other way must have been to take over before a phase ends."""
NEAR = 3.0
"""Scales that differ by less are about the same."""
TRIAL = 4
"""Every so many turns the way that was worse is tried again."""


class StepSizes(NamedTuple):
    """The step sizes of one way to propose."""

    trial: Scalar
    """T, which is tried next."""
    fresh: Scalar
    """T_f, which is tried after a survey of the server's own point."""
    unfailed: Flag
    poor: Count
    """Short steps in a row; -1 while a proposal from the server's own point is under way."""

    @property
    def is_exhausted(self) -> bool:
        """Whether it is time to survey the server's own point."""
        return int(self.poor) >= PATIENCE

    def rescale(self, ratio: float) -> "StepSizes":
        """Multiplied by the ratio by which x's part of ell is, so that a step moves x as far as before."""
        return self._replace(trial=ratio * float(self.trial), fresh=ratio * float(self.fresh))

    def judge(self, step: float, top: float) -> "StepSizes":
        """The sizes after a proposal of this step that was good up to `top`."""
        good, taken = top >= step, min(top, step)
        if self.poor < 0:
            return self._replace(fresh=1.5 * step if good else step / 2, poor=0)
        trial = step * (3.0 if self.unfailed else 1.5) if good else max(top, step / 2)
        if taken < self.fresh / 4:
            return StepSizes(trial, self.fresh, self.unfailed and good, self.poor + 1)
        return StepSizes(trial, max(self.fresh, taken), self.unfailed and good, 0)


class ModeSelector(eqx.Module):
    """Which of two ways to propose has its turn; the rate of a way is what an exchange takes off log(gap).

    A gap falls at the end of a phase and may stand still before, so a turn lasts as long as its phase. It ends earlier
    where the other way was SLACK times as fast as this one could still be, if it ended the phase right now.
    """

    rates: tuple[Scalar, Scalar]
    """The rate of the last turn of each way; UNTRIED before the first."""
    count: Count
    began: Count
    """Exchanges when the present turn began."""
    gap: Scalar
    """The gap then."""

    def choose(self, way: int, exchanges: int, gap: float, drop: float, *, ended: bool) -> tuple[int, "ModeSelector"]:
        """The way to go on with after so many exchanges, and the rates then.

        drop: the share of its first gap at which a phase ends. ended: whether one just did.
        """
        if float(self.gap) == UNTRIED:
            return way, replace(self, began=exchanges, gap=gap)
        spent = exchanges - int(self.began)
        rate = -math.log(drop) / spent
        if not ended and SLACK * rate >= float(self.rates[1 - way]):
            return way, self
        if ended:
            rate = math.log(float(self.gap) / gap) / spent if min(float(self.gap), gap) > 0 else 0.0
        rates = (rate, self.rates[1]) if way == 0 else (self.rates[0], rate)
        count, better = int(self.count) + 1, int(float(rates[1]) > float(rates[0]))
        untried = float(rates[1 - way]) == UNTRIED
        other = 1 - way if untried else (1 - better if count % TRIAL == 0 else better)
        return other, replace(self, rates=rates, count=count, began=exchanges, gap=gap)


def no_rates() -> ModeSelector:
    """Before the first exchange."""
    nothing, number = xp.asarray(0), xp.asarray(UNTRIED)
    return ModeSelector((number, number), nothing, nothing, number)


class BlockScale(NamedTuple):
    """The scale of x's part of ell, as phases find it: so that x and y have equally far to go.

    How far they went in a phase proposes the next scale. But a smaller scale also lets x go farther, so proposals may
    run away: where a phase ends without success, far from the last successful scale, that one comes back, as a limit.
    """

    scale: Scalar
    proven: Scalar
    """The scale of the last phase that was successful, 0 if there is none since one failed at about that scale."""
    least: Scalar
    most: Scalar

    def end_phase(self, proposed: float, *, success: bool) -> "BlockScale":
        """The scale after a phase that proposes another; as arrays, because other numbers would be compiled for."""
        scale, proven, least, most = (float(number) for number in self)
        if success:
            proven, scale = scale, min(max(proposed, least), most)
        elif proven == 0 or proven / NEAR < scale < proven * NEAR:  # nothing better is known
            scale, proven, least, most = proposed, 0.0, 0.0, -UNTRIED
        elif scale < proven:
            scale, least = proven, proven
        else:
            scale, most = proven, proven
        return BlockScale(*(np.asarray(number, np.float64) for number in (scale, proven, least, most)))


def with_step_sizes(step_sizes: tuple[StepSizes, StepSizes], way: int, own: StepSizes) -> tuple[StepSizes, StepSizes]:
    """The step sizes of both ways, those of one way replaced."""
    return (own, step_sizes[1]) if way == 0 else (step_sizes[0], own)


# The local steps of FeDualSlide: dual extrapolation that is pulled back to the pair where the round began.


class Pull(eqx.Module):
    """What clients are sent: the pair where a round begins, the step size, and how strongly it pulls back."""

    dual: Dual
    eta: Scalar
    rho: Scalar
    scale: Scalar
    """The scale of x's part of ell (`bundle.Flat`)."""


class Pulled(eqx.Module):
    """A client's pair in between, and the weight of its next probe."""

    dual: Dual
    origin: Pull
    weight: Scalar


class PulledSteps(AbstractMethod[Pull, Pulled, None]):
    """Dual extrapolation with a pull back, for operators corrected to g_m(z) - g_m(w) + g(w) at a given reference w.

        back = (1 - rho) local + rho O
        half = back.descend(eta, g(P(local)));   local <- back.descend(eta, g(P(half)))

    Probes are the points P(half), of weight (1 - rho)^(K - 1 - k) up to a common factor; their weighted mean is all
    that the server uses. rho = 0 is the local step of `FeDualEx`.
    """

    survey: ClassVar[Correction] = "given"
    sums: ClassVar[tuple[str, ...]] = ("client_average",)

    def start(self, dual: Dual, geometry: AbstractGeometry) -> Pull:
        """The pair, with a step of size 0."""
        nothing = jnp.zeros((), jnp.result_type(dual.tau))
        return Pull(dual, nothing, nothing, nothing + 1)

    def local_init(self, server: Pull, memory: None) -> Pulled:
        """The pair that was sent."""
        return Pulled(server.dual, server, jnp.ones_like(server.rho))

    def local_step(self, local: Pulled, oracle: Oracle, geometry: Any) -> tuple[Pulled, Tree, Scalar]:
        """The half point is the probe."""
        eta, rho, scale = local.origin.eta, local.origin.rho, local.origin.scale
        back = tree.add(tree.scale(1 - rho, local.dual), tree.scale(rho, local.origin.dual))
        half = scaled_primal(geometry, back.descend(eta, oracle(scaled_primal(geometry, local.dual, scale), 0)), scale)
        following = back.descend(eta, oracle(half, 1))
        return Pulled(following, local.origin, local.weight / (1 - rho)), half, local.weight

    def local_final(self, local: Pulled, server: Pull, memory: None) -> tuple[None, None]:
        """No message: only the mean of the probes is used."""
        return None, None

    def server_step(self, server: Pull, message: None, geometry: AbstractGeometry, fraction: Scalar) -> Pull:
        """The state as it is: `FeDualSlide.tell` decides what becomes of the probes."""
        return server

    def point(self, server: Pull, geometry: Any) -> Tree:
        """P of the pair."""
        return scaled_primal(geometry, server.dual, server.scale)

    def read(self, probe: Tree, geometry: AbstractGeometry) -> Tree:
        return probe

    def memory(self, server: Pull) -> None:
        return


# The server of FeDualSlide: what it remembers between two exchanges.


START, PROBE, FRESH, LOCAL = range(4)
"""What the next exchange is: the first survey, one of a proposal, one of the server's own point, or local steps."""
SURVEY, STEPS = range(2)
"""How proposals are made: by the server alone, or by local steps of the clients."""
ASKED = PROBE, LOCAL
"""The exchange that a proposal of each way begins with."""
SPAN = 10
"""Surveys that the first phase lasts at most."""
PHASES = 6
"""New phases that one survey may begin at most."""


class SlideServer(NamedTuple):
    """Everything that the server remembers, in float64."""

    center: Array
    """The point from which the level problem measures distances."""
    block_scale: BlockScale
    cuts: Cuts
    bounds: Bounds
    phase: Scalar
    """The gap when the phase began."""
    age: Count
    """Surveys since then."""
    span: Count
    """Surveys after which a phase ends in any case; doubled whenever one does."""
    step_sizes: tuple[StepSizes, StepSizes]
    way: Count
    """How proposals are made at present."""
    selector: ModeSelector
    omega: Array
    tau: Array
    """(omega, tau) = O(c), where the next proposal starts."""
    row: Count
    """The row of the survey whose operator is the reference of that proposal."""
    step: Scalar
    """T of the proposal that is under way."""
    want: Count
    """What the next exchange is."""
    at: Saddle
    """Where the next survey is, or the last one was."""
    surveys: Count
    local_rounds: Count

    @property
    def scale(self) -> Scalar:
        """The scale of x's part of ell."""
        return self.block_scale.scale

    @property
    def exchanges(self) -> int:
        """Round trips so far."""
        return int(self.surveys) + int(self.local_rounds)

    def begin_phase(self, center: Array, scale: float, *, success: bool) -> "SlideServer":
        """The server at another center, with the scale that the last phase and its success make, and no weights."""
        block_scale = self.block_scale.end_phase(scale, success=success)
        first, second = (sizes.rescale(float(block_scale.scale) / float(self.scale)) for sizes in self.step_sizes)
        cuts = self.cuts.with_weights(np.zeros(self.cuts.weights.shape))
        return self._replace(center=center, block_scale=block_scale, cuts=cuts, step_sizes=(first, second))


@by_numpy
def first_server(flat: Flat, memory: int, z: Saddle, way: int) -> SlideServer:
    """Before the first exchange, which is a survey of the projection of z."""
    z = flat.geometry.project(z)
    center, one, zero, none = flat.interior(flat.vector(z)), xp.ones(()), xp.zeros(()), xp.asarray(0)
    pace = StepSizes(one, one, xp.asarray(True), none)
    return SlideServer(
        center=center,
        block_scale=BlockScale(one, zero, zero, xp.asarray(-UNTRIED)),
        cuts=no_cuts(memory, center.size),
        bounds=no_bounds(flat, memory),
        phase=zero,
        age=none,
        span=xp.asarray(SPAN),
        step_sizes=(pace, pace),
        way=xp.asarray(way),
        selector=no_rates(),
        omega=flat.dual(center),
        tau=zero,
        row=none,
        step=zero,
        want=xp.asarray(START),
        at=z,
        surveys=none,
        local_rounds=none,
    )


def share(name: str, default: float) -> Any:
    """The field of a number above 0 and below 1, which is compiled in."""

    def check(value: Any) -> float:
        number = float(real_scalar(name, value, "a number above 0 and below 1"))
        if not 0 < number < 1:
            raise ValueError(f"{name} must be a number above 0 and below 1, got {number!r}")
        return number

    return eqx.field(static=True, default=default, converter=check)


# The steps of FeDualSlide's server that are compiled; between them, `FeDualSlide` decides on plain numbers.
#
# Every exchange waits for them, and most of all for `reweigh_cuts`, two loops of a few hundred small operations. The
# scale of x is an argument of its own, because a new `Flat` takes as long as a small program does.


FACTOR, MOVED = 10.0, 1e-9
"""By how much a phase may change the scale, and divergences that say nothing about it."""
BISECTIONS = 52


@compile_by_size
def add_cut(
    flat: Flat,
    scale: Scalar,
    cuts: Cuts,
    pair: tuple[Array, Array],
    step: Scalar,
    at: Saddle,
    operator: Saddle,
    value: Scalar,
) -> tuple[Cuts, Array, Array]:
    """The cuts with a new survey, up to which step its proposal was good, and the size of its operator.

    That is the largest c <= step with Err(c) = pot(O.descend(c, g)) - pot(O) + c (<g, u> + psi(u)) <= 0, which is the
    weight of the survey. Err is convex. step: that of the proposal; 0 where the survey was not of one.
    """
    flat = flat.with_scale(scale)
    g, u, (omega, tau) = flat.vector(operator), flat.vector(at), pair
    height = jnp.vdot(g, u) + flat.psi(u)
    omega = tree.depend_on(omega, height)  # one LAPACK call at a time
    z, psi, here = flat.map_dual(omega, tau)

    def fits(c: Array) -> Array:
        error = flat.map_dual(omega - c * g, tau + c).potential - here + c * height
        return jnp.less_equal(error, 1e-15 * jnp.abs(here))

    def narrow(now: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        count, low, high = now
        # The whole step first, in the loop, so that it is compiled once.
        tried = jnp.where(count == 0, step, (low + high) / 2)
        good = fits(tried)
        return count + 1, jnp.where(good, tried, low), jnp.where(good, high, tried)

    start: tuple[Array, Array, Array] = jnp.asarray(0), jnp.zeros(()), jnp.asarray(step)
    top = jax.lax.while_loop(lambda now: (now[0] <= BISECTIONS) & (now[1] < now[2]), narrow, start)[1]
    cuts = cuts.with_room(cuts.heights - cuts.operators @ z - psi)
    (measured,) = flat.in_dual_metric(g[None])
    return cuts.add(u, g, jnp.asarray(value, jnp.float64), height, top), top, jnp.sqrt(jnp.vdot(measured, measured))


@compile_moderately
def reweigh_cuts(
    flat: Flat, scale: Scalar, known: KnownFloor, cuts: Cuts, bounds: Bounds, level: Scalar, center: Array
) -> tuple[Cuts, Bounds, Array, Array]:
    """Weights of the level problem, bounds that they make better, and scale and center of a phase that begins here.

    The scale is the geometric mean of what it was and of D_y / D_x, by the divergences of the surveys' weighted mean
    from the center, and moves by FACTOR at most. The new center is the best point, a little inside of the domain.
    """
    flat = flat.with_scale(scale)
    cuts = cuts.with_weights(solve_level_problem(flat, cuts, flat.dual(center), level))
    bounds = improve_bounds(flat, cuts, known, bounds, model=True)
    total = jnp.sum(cuts.weights)
    mean = cuts.weights / jnp.where(total > 0, total, 1.0) @ cuts.points
    x, y = flat.divergences(mean, center)
    moved = (total > 0) & (x > MOVED) & (y > MOVED)
    ratio = jnp.sqrt(jnp.where(moved, y / jnp.where(moved, x, 1.0), flat.scale) / flat.scale)
    return cuts, bounds, jnp.clip(ratio, 1 / FACTOR, FACTOR) * flat.scale, flat.interior(bounds.point)


@compile_by_size
def propose_point(
    flat: Flat, scale: Scalar, cuts: Cuts, center: Array, step: Scalar
) -> tuple[Array, Array, Saddle, Array, Saddle]:
    """The pair O(c), its point, the row of the survey nearest to it, and P(O(c).descend(step, g)) with that row's g."""
    flat = flat.with_scale(scale)
    omega, tau = pair_of(cuts, flat.dual(center))
    z = flat.map_dual(omega, tau).point
    row = find_nearest(flat, cuts, z)
    ahead = flat.map_dual(omega - step * cuts.operators[row], tau + step).point
    return omega, tau, flat.point(z), row, flat.point(ahead)


class FeDualSlide(Method[SlideServer]):
    """Dual extrapolation whose server remembers exact surveys and weighs them anew after each (docs/slide.md).

    A survey is one exchange that returns the mean operator g(u) and the value f(u) at a point u. A round is one
    exchange, a survey or local steps; there is no step size to choose.

        repeat                                                        # on the server alone
            c = argmin_{c >= 0} pot(O(c)) + sum c_i (e_i - level)     # O(c) = (omega_c - sum c_i g_i, sum c_i)
            better bounds of the optimal value from the surveys and their weights c
            if gap > drop * (gap when the phase began), and the phase is not too old: stop repeating
            a new phase: level = kappa * gap, omega_c = grad ell(best point)
        propose u: by the server, P(O(c).descend(T, g_i)) with the nearest survey i, or by `local_steps` of clients
        survey u; weigh it by the largest step <= T for which the potential pays; T grows or shrinks

    mode: "local" proposes by local steps (two exchanges a proposal), "survey" by the server alone (one); "auto" uses
        what takes more off log(gap) an exchange. With one local step all of them are "survey".
    remember: how many surveys. sigma: how far local steps are pulled back in total. kappa, drop: the level of
        a phase and the gap at which it ends, as shares of the gap with which it began.
    Proved for exact surveys of all clients, whatever noise local steps have: every gap, and a rate as long as surveys
    are forgotten only when they have no weight (docs/slide.md).
    """

    mode: str = choice("FeDualSlide: mode", "auto", "local", "survey")
    remember: int = eqx.field(static=True, default=20, converter=lambda value: whole_number("remember", value, 2))
    sigma: float = share("sigma", 0.5)
    kappa: float = share("kappa", 0.1)
    drop: float = share("drop", 0.3)
    outputs: ClassVar[tuple[str, ...]] = ("bounds",)
    needs_float64: ClassVar[str] = "the method works with exact operators"
    needs_everybody: ClassVar[bool] = True
    patience: ClassVar[int] = 40
    """Bounds may stand still until a phase ends by age, which is after 10, 20, 40 surveys."""

    def refusal(self, problem: AbstractProblem, clients: int, local_steps: Numbers) -> str:
        """Refused unless clients take equally many steps and certificates exist."""
        if np.min(local_steps) != np.max(local_steps):
            return f"FeDualSlide takes the same number of local_steps on all clients, got {short(local_steps)}"
        if reason := problem.why_uncertifiable():
            return f"FeDualSlide works with certificates, and there is none here: {reason}"
        return ""

    @property
    def rounds(self) -> PulledSteps:
        """What clients do when they are asked for a proposal."""
        return PulledSteps()

    def init(self, facts: Facts, z: Saddle) -> SlideServer:
        """Before the first exchange, a survey of the projection of z."""
        return first_server(self._flat(facts), self.remember, z, SURVEY if self._is_alone(facts) else STEPS)

    def ask(self, facts: Facts, server: SlideServer) -> Survey | LocalSteps:
        """A survey, or local steps that make a proposal from the pair of the weights.

        rho = 1 - (1 - sigma)^(1/K) and eta = rho T / sigma make all K steps together one of size T.
        """
        if int(server.want) != LOCAL:
            return Survey((server.at,))
        rho, flat = 1 - (1 - self.sigma) ** (1 / facts.local_steps), self._flat(facts)
        row, eta = int(server.row), rho * float(server.step) / self.sigma
        reference = flat.point(server.cuts.points[row]), flat.point(server.cuts.operators[row])
        return LocalSteps(Pull(Dual(flat.point(server.omega), server.tau), eta, rho, server.scale), reference)

    def tell(self, facts: Facts, server: SlideServer, answer: list[Surveyed] | Stepped) -> SlideServer:
        """After local steps the weighted mean of all half points is surveyed; after a survey `_tell_survey` goes on."""
        if isinstance(answer, Stepped):
            at = facts.flat.geometry.project(answer.mean)
            return server._replace(want=PROBE, at=at, local_rounds=int(server.local_rounds) + 1)
        (survey,) = answer
        return self._tell_survey(facts, server, survey)

    def point(self, server: SlideServer, geometry: Any) -> Saddle:
        """Where the next survey is."""
        return server.at

    def bounds(self, server: SlideServer) -> Bounds:
        """What its own surveys prove."""
        return server.bounds

    def exchanges_of(self, server: SlideServer, rounds: int) -> int:
        """All surveys, and all rounds of local steps."""
        return server.exchanges

    def _is_alone(self, facts: Facts) -> bool:
        """Whether the server makes all proposals itself."""
        return self.mode == "survey" or facts.local_steps == 1

    def _flat(self, facts: Facts) -> Flat:
        """The geometry, in the metric of the problem where clients, who do not know it, make no proposals."""
        return facts.scaled if self._is_alone(facts) else facts.flat

    def _tell_survey(self, facts: Facts, server: SlideServer, survey: Surveyed) -> SlideServer:
        """The cut of a survey, new weights, better bounds, and what is asked for next."""
        was, step_sizes, way, flat = int(server.want), server.step_sizes, int(server.way), self._flat(facts)
        pair, step = (server.omega, server.tau), _as_number(server.step if was == PROBE else 0.0)
        at, about = server.at, (survey.operator, survey.value)
        cuts, top, size = add_cut(flat, server.scale, server.cuts, pair, step, at, *about)
        server = server._replace(cuts=cuts, surveys=int(server.surveys) + 1)
        if was == FRESH:
            return self._propose(flat, server, float(step_sizes[way].fresh), ASKED[way])
        if was == PROBE:
            step_sizes = with_step_sizes(step_sizes, way, step_sizes[way].judge(float(server.step), float(top)))
        if was == START:
            unit = 1 / max(float(size), np.finfo(float).tiny)
            step_sizes = StepSizes(unit, unit, True, 0), StepSizes(unit, unit, True, 0)
        server = self._reweigh(flat, facts.known, server._replace(step_sizes=step_sizes), start=was == START)
        return self._choose_proposal(flat, server, facts.local_steps)

    def _reweigh(self, flat: Flat, known: KnownFloor, server: SlideServer, *, start: bool) -> SlideServer:
        """Weights and bounds; a new phase whenever the gap has dropped enough or the phase has lasted long enough."""
        phase, age, span = np.inf if start else float(server.phase), int(server.age), int(server.span)
        for _ in range(PHASES):
            level, held = _as_number(self.kappa * phase if np.isfinite(phase) else 0.0), (server.cuts, server.bounds)
            cuts, bounds, scale, center = reweigh_cuts(flat, server.scale, known, *held, level, server.center)
            server, gap = server._replace(cuts=cuts, bounds=bounds), bounds.gap
            success = gap <= self.drop * phase
            if not success and age < span:
                break
            server = server.begin_phase(center, float(scale), success=bool(success and np.isfinite(phase)))
            phase, age, span = gap, 0, span if success else 2 * span
        return server._replace(phase=phase, age=age + 1, span=span)

    def _choose_proposal(self, flat: Flat, server: SlideServer, local_steps: int) -> SlideServer:
        """The next proposal, from the pair of the weights: by the better way, or after a survey of the pair's point."""
        way, selector = int(server.way), server.selector
        if self.mode == "auto" and local_steps > 1:
            gap, ended = server.bounds.gap, int(server.age) == 1
            way, selector = selector.choose(way, server.exchanges, gap, self.drop, ended=ended)
        pace, want = server.step_sizes[way], ASKED[way]
        if pace.is_exhausted:
            pace, want = pace._replace(poor=-1), FRESH
        server = server._replace(way=way, selector=selector, step_sizes=with_step_sizes(server.step_sizes, way, pace))
        return self._propose(flat, server, float(pace.trial), want)

    def _propose(self, flat: Flat, server: SlideServer, step: float, want: int) -> SlideServer:
        """What is asked for next: a survey of the pair's point, local steps, or a survey of the server's own proposal.

        The operator of the survey nearest to the pair's point is the reference of the proposal.
        """
        omega, tau, z, row, ahead = propose_point(flat, server.scale, server.cuts, server.center, _as_number(step))
        server = server._replace(omega=omega, tau=tau, row=int(row), step=step, want=want)
        return server._replace(at={FRESH: z, PROBE: ahead, LOCAL: server.at}[want])


def _as_number(value: Scalar) -> NDArray[np.float64]:
    """The number as a float64 array: for another type, programs would be compiled again."""
    return np.asarray(value, np.float64)
