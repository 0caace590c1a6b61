"""Engines by name: each is a folder with a module `control` of the same few functions."""

from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from ..runtime.status import Code, Failure
from ..validation import one_of

ENGINES = ("local", "nvflare", "flower")
OUTSIDE = Failure(Code.OUTSIDE, "connected, but not in this run")
"""What is said of a site that takes part only if the run is sent again."""


@runtime_checkable
class Control(Protocol):
    """What the command line does with an engine. Folders are those of a deployment (`Layout`)."""

    POLL: float
    """Seconds between two looks at a run."""
    HERE: bool
    """Whether all of a run is on this machine, so that Ctrl-C in `deploy run` ends it."""

    KEYED: tuple[str, ...]
    """Files of the server that belong to its present keys, and go when these are renewed."""

    BESIDE: tuple[str, ...]
    """The parties that are no sites and make keys of their own as well."""

    def provision(
        self, folder: Path, sites: Sequence[str], *, host: str, port: int, serve: str, site: str, own_keys: bool = False
    ) -> None:
        """Keys, certificates and start scripts, each in its party's folder; with own_keys no private key.

        serve, site: what server and sites run, as "module:function"; serve(engine, folder) runs the round loop, and
        site(folder).work(request) answers for a site.
        """
        ...

    def make_public(self, own: Path, name: str) -> str:
        """At a party: the key by which others know it, made in the folder `own` unless it is there.

        Returns: its public half, or a request to sign it.
        """
        ...

    def admit(self, folder: Path, name: str, public: str) -> str:
        """Where keys are signed: take this of a party, in place of an earlier one; what is to be given to whom."""
        ...

    def up(self, folder: Path) -> list[str]:
        """Start server and sites on this machine; the sites that are connected, none where a run starts them."""
        ...

    def down(self, folder: Path) -> None:
        """End what `up` started."""
        ...

    def submit(self, folder: Path, sites: int) -> None:
        """Start the round loop, which goes on from its checkpoint; an earlier one must have ended.

        sites: how many must be there.
        """
        ...

    def state(self, folder: Path) -> tuple[str, bool]:
        """How the last run stands as far as the engine knows, and whether it has ended."""
        ...

    def absent(self, folder: Path, sites: Sequence[str]) -> dict[str, Failure]:
        """The sites that the engine knows to take no part in the live run, each with why, such as `OUTSIDE`.

        None where sites that come back take part by themselves.
        """
        ...

    def stop(self, folder: Path) -> None:
        """End the run; its checkpoint stays."""
        ...

    def fetch(self, folder: Path, out: Path) -> None:
        """Bring the run folder and the model of the last run, which must have ended, into a new folder.

        By the engine's own channel and with its rights; a RuntimeError in one sentence where it has none.
        """
        ...


def control_of(engine: str) -> Control:
    """The functions of an engine by its name."""
    module: Any = import_module(f"{__package__}.{one_of('engine', engine, ENGINES)}.control")
    control: Control = module
    return control
