"""The options of a deployment: those of every run, and what has to do with sites."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, no_type_check

from numpy.typing import NDArray

from ..runtime.options import (
    RunOptions,
    StoppingOptions,
    a_function,
    a_path,
    anything,
    one_word_of,
    option,
    optional,
    options,
)
from ..runtime.outputs import averages_of
from ..validation import of_type, positive, whole_number
from .privacy import Privacy
from .secure.layout import AUTO, OFF, ON

LONGEST = 1e9
"""Seconds that a clock can still wait for."""


def _privacy(name: str, value: Any) -> Privacy:
    return of_type(name, value, Privacy, "fx.deploy.Privacy(clip, noise) or None")


def _seconds(name: str, value: Any) -> float:
    if (seconds := float(positive(name, value))) > LONGEST:
        raise ValueError(f"{name} must be a number of seconds of at most {LONGEST:g}, got {value}")
    return seconds


def _positive(name: str, value: Any) -> float:
    return float(positive(name, value))


def _flag(name: str, value: Any) -> bool:
    return of_type(name, value, bool, "True or False")


@no_type_check
@options
class DeploymentOptions(RunOptions, StoppingOptions):
    """The options of `Task`, and the keys of [run] in the file of a deployment.

    The fields are the keywords of `fx.deploy.run`, where each of them is explained.
    """

    weights: Sequence[float] | NDArray[Any] | None = option(
        anything,
        "Weights of the sites in the objective, divided by their sum; all alike if None.",
        default=None,
        in_files=False,
    )
    ergodic: bool = option(
        _flag, "Whether sites send the K probes of a round, for the exact `ergodic` output.", default=False
    )
    min_replies: int | None = option(
        optional(whole_number),
        "With fewer valid replies a round fails and is done again; all of its cohort if None.",
        default=None,
        decides=False,
    )
    attempts: int = option(
        whole_number, "Failed rounds in a row after which the run ends as CLIENTS_LOST.", default=5, decides=False
    )
    timeout: float = option(
        _seconds,
        "Seconds in which a site must answer.",
        default=60.0,
        decides=False,
    )
    operator_bound: float | None = option(
        optional(_positive),
        "A site whose operator is longer than this, in the Euclidean norm, is not believed; no limit if None.",
        default=None,
        decides=False,
    )
    secure_sums: str = option(
        one_word_of(AUTO, ON, OFF),
        "Whether the server sees sums over sites only: 'on', 'off', or 'auto': with three or more that have keys.",
        default=AUTO,
        decides=False,
    )
    privacy: Privacy | None = option(
        optional(_privacy),
        "Clipping and noise at the sites; then nothing but the noisy increment leaves them.",
        default=None,
        in_files=False,
    )

    @property
    def averages(self) -> tuple[str, ...]:
        """The outputs whose sums sites send parts of."""
        return () if self.privacy is not None else averages_of(self.ergodic)

    def check_together(self) -> None:
        """Refuse options that do not go together."""
        if self.output == "ergodic" and not self.ergodic:
            raise ValueError("output='ergodic' needs ergodic=True: sites then send the probes of all K local steps")
        if self.privacy is None:
            return
        for name, value, accepted in (("tol", self.tol, None), ("ergodic", self.ergodic, False)):
            if value != accepted:
                raise ValueError(f"privacy: {name} needs what sites do not send then, got {value}")
        if self.output not in (None, "last"):
            raise ValueError(f"privacy: output must be 'last', got {self.output!r}")


@no_type_check
@options
class RehearsalOptions(DeploymentOptions):
    """The options of `fx.deploy.run`."""

    sites: int | None = option(
        optional(whole_number), "How many, where the problem has no data of clients; else theirs.", default=None
    )
    callback: Callable[[dict[str, Any]], object] | None = option(
        optional(a_function), "Is given a copy of every record; the run ends if it returns True.", default=None
    )
    checkpoint: Path | str | None = option(
        optional(a_path), "A file that is written at every round, and from which the run is resumed.", default=None
    )
