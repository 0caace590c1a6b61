"""FeDualSlide: certified dual extrapolation with a memory of surveys, for clients that differ."""

from typing import Any, ClassVar

import equinox as eqx
import numpy as np

from ..bundle import Flat, Known
from ..geometry import Dual
from ..problems import AbstractProblem
from ..tree import Saddle, Tree
from ..validation import short, whole_number
from .base import choice
from .pace import Pace, with_pace
from .pulled import Pull, PulledSteps
from .slide_server import ASKED, FRESH, LOCAL, PHASES, PROBE, START, STEPS, SURVEY, SlideServer, first_server, share
from .slide_steps import absorbed, proposal, weighed


class FeDualSlide(PulledSteps):
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
    exchanging: ClassVar[bool] = True
    patience: ClassVar[int] = 40
    """Bounds may stand still until a phase ends by age, which is after 10, 20, 40 surveys."""

    def refusal(self, problem: AbstractProblem, clients: int, local_steps: Any) -> str:
        """Its clients take equally many steps, and its gaps need finite conjugates."""
        if np.min(local_steps) != np.max(local_steps):
            return f"FeDualSlide takes the same number of local_steps on all clients, got {short(local_steps)}"
        if reason := problem.why_uncertifiable():
            return f"FeDualSlide works with certificates, and there is none here: {reason}"
        return ""

    def point(self, server: Any, geometry: Any) -> Tree:
        """Where the next survey is; of a `Pull`, the point of its pair."""
        return server.at if isinstance(server, SlideServer) else super().point(server, geometry)

    def traffic(self, server: SlideServer, clients: int, itemsize: int) -> dict[str, int]:
        """Bytes up and down so far: surveys in float64, local steps in the precision of the rounds."""
        size, surveys, rounds = server.omega.size, clients * int(server.surveys), clients * int(server.local_rounds)
        up = surveys * (size + 1) * 8 + rounds * (size + 1) * itemsize
        return {"bytes_up": up, "bytes_down": surveys * size * 8 + rounds * (3 * size + 4) * itemsize}

    def opened(self, flat: Flat, z: Saddle, local_steps: int) -> SlideServer:
        """The server before its first exchange, a survey of the projection of z."""
        way = SURVEY if self.mode == "survey" or local_steps == 1 else STEPS
        return first_server(flat, self.remember, z, way)

    def pull(self, flat: Flat, server: SlideServer, local_steps: int) -> tuple[Pull, Tree] | None:
        """What local steps start from and the reference (w, g(w)) they are corrected by; None if a survey is next.

        rho = 1 - (1 - sigma)^(1/K) and eta = rho T / sigma make all K steps together one of size T.
        """
        if int(server.want) != LOCAL:
            return None
        rho = 1 - (1 - self.sigma) ** (1 / local_steps)
        row, eta = int(server.row), rho * float(server.step) / self.sigma
        reference = flat.point(server.cuts.points[row]), flat.point(server.cuts.operators[row])
        return Pull(Dual(flat.point(server.omega), server.tau), eta, rho, server.scale), reference

    def after_steps(self, flat: Flat, server: SlideServer, mean: Saddle) -> SlideServer:
        """After local steps: the weighted mean of all half points is what is surveyed next."""
        at = flat.geometry.project(mean)
        return server._replace(want=PROBE, at=at, local_rounds=int(server.local_rounds) + 1)

    def after_survey(
        self, flat: Flat, known: Known, server: SlideServer, operator: Saddle, value: Any, local_steps: int
    ) -> SlideServer:
        """After a survey: its cut, new weights, better bounds, and what is asked for next."""
        was, paces, way = int(server.want), server.paces, int(server.way)
        pair, step = (server.omega, server.tau), _number(server.step if was == PROBE else 0.0)
        cuts, top, size = absorbed(flat, server.scale, server.cuts, pair, step, server.at, operator, value)
        server = server._replace(cuts=cuts, surveys=int(server.surveys) + 1)
        if was == FRESH:
            return self._proposed(flat, server, float(paces[way].fresh), ASKED[way])
        if was == PROBE:
            paces = with_pace(paces, way, paces[way].judged(float(server.step), float(top)))
        if was == START:
            unit = 1 / max(float(size), np.finfo(float).tiny)
            paces = Pace(unit, unit, True, 0), Pace(unit, unit, True, 0)
        server = self._weighed(flat, known, server._replace(paces=paces), start=was == START)
        return self._next_proposal(flat, server, local_steps)

    def _weighed(self, flat: Flat, known: Known, server: SlideServer, *, start: bool) -> SlideServer:
        """Weights and bounds; a new phase whenever the gap has dropped enough or the phase has lasted long enough."""
        phase, age, span = np.inf if start else float(server.phase), int(server.age), int(server.span)
        for _ in range(PHASES):
            level, held = _number(self.kappa * phase if np.isfinite(phase) else 0.0), (server.cuts, server.bounds)
            cuts, bounds, scale, center = weighed(flat, server.scale, known, *held, level, server.center)
            server, gap = server._replace(cuts=cuts, bounds=bounds), bounds.gap
            success = gap <= self.drop * phase
            if not success and age < span:
                break
            server = server.in_new_phase(center, float(scale), success=bool(success and np.isfinite(phase)))
            phase, age, span = gap, 0, span if success else 2 * span
        return server._replace(phase=phase, age=age + 1, span=span)

    def _next_proposal(self, flat: Flat, server: SlideServer, local_steps: int) -> SlideServer:
        """From the pair of the weights: by the way that was better lately, or after a survey of the pair's point."""
        way, turns = int(server.way), server.turns
        if self.mode == "auto" and local_steps > 1:
            gap, ended = server.bounds.gap, int(server.age) == 1
            way, turns = turns.following(way, server.exchanges, gap, self.drop, ended=ended)
        pace, want = server.paces[way], ASKED[way]
        if pace.exhausted:
            pace, want = pace._replace(poor=-1), FRESH
        server = server._replace(way=way, turns=turns, paces=with_pace(server.paces, way, pace))
        return self._proposed(flat, server, float(pace.trial), want)

    def _proposed(self, flat: Flat, server: SlideServer, step: float, want: int) -> SlideServer:
        """What is asked for next: a survey of the pair's point, local steps, or a survey of the server's own proposal.

        The operator of the survey nearest to the pair's point is the reference of the proposal.
        """
        omega, tau, z, row, ahead = proposal(flat, server.scale, server.cuts, server.center, _number(step))
        server = server._replace(omega=omega, tau=tau, row=int(row), step=step, want=want)
        return server._replace(at={FRESH: z, PROBE: ahead, LOCAL: server.at}[want])


def _number(value: Any) -> Any:
    """As an array of one type, whatever it was: another one would be compiled for."""
    return np.asarray(value, np.float64)
