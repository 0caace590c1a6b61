"""What the command line does with an engine: kits, trial processes, runs. One table, one way to ask."""

from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from ..validation import one_of


@runtime_checkable
class Control(Protocol):
    """An engine from outside. Folders are those of a deployment."""

    poll: float
    """Seconds between two looks at a run."""

    def provision(self, folder: Path, sites: list[str], host: str, port: int, serve: str, site: str) -> None:
        """Keys, certificates and start scripts, each in its party's folder."""
        ...

    def up(self, folder: Path) -> None:
        """Start server and sites on this machine, and return when they are connected."""
        ...

    def down(self, folder: Path) -> None:
        """End what `up` started."""
        ...

    def submit(self, folder: Path, sites: int) -> None:
        """Start the round loop, which goes on from its checkpoint; what is left of an earlier one is ended."""
        ...

    def state(self, folder: Path) -> tuple[str, bool]:
        """How the last run stands as far as the engine knows, and whether it has ended."""
        ...

    def stop(self, folder: Path) -> None:
        """End the run."""
        ...


class NVFlareControl:
    """Jobs of NVIDIA FLARE."""

    poll = 1.0

    def provision(self, folder: Path, sites: list[str], host: str, port: int, serve: str, site: str) -> None:
        """mTLS kits by NVFlare's own provisioner."""
        from .nvflare.provision import provision

        provision(folder, sites, server_host=host, port=port, server=serve, site=site)

    def up(self, folder: Path) -> None:
        """One process for each party."""
        from .nvflare import trial

        trial.up(folder)

    def down(self, folder: Path) -> None:
        """By process id."""
        from . import processes

        processes.down(folder)

    def submit(self, folder: Path, sites: int) -> None:
        """A job that starts when so many sites are there."""
        from .nvflare import job

        job.resubmit(folder, sites)

    def state(self, folder: Path) -> tuple[str, bool]:
        """NVFlare's word, corrected where a job has no process."""
        from .nvflare import job

        found = job.state(folder)
        return found, found in job.ENDED

    def stop(self, folder: Path) -> None:
        """Abort the job; the loop sees it and keeps its checkpoint."""
        from .nvflare import job

        job.abort(folder)


class FlowerControl:
    """Runs of a Flower SuperLink."""

    poll = 10.0  # each look is a program of Flower's that keeps a core busy for a second

    def provision(self, folder: Path, sites: list[str], host: str, port: int, serve: str, site: str) -> None:
        """An own authority, and a key for each SuperNode."""
        from .flower.provision import provision

        provision(folder, sites, host=host, port=port, serve=serve, site=site)

    def up(self, folder: Path) -> None:
        """SuperLink and SuperNodes."""
        from .flower import trial

        trial.up(folder)

    def down(self, folder: Path) -> None:
        """By process id."""
        from .flower import trial

        trial.down(folder)

    def submit(self, folder: Path, sites: int) -> None:
        """A run of the installed app; Flower takes whoever is connected."""
        from .flower import runs

        if runs.state(folder).phase in ("pending", "running"):
            runs.stop(folder)
        runs.submit(folder)

    def state(self, folder: Path) -> tuple[str, bool]:
        """Our process's own word, checked against Flower's."""
        from .flower import runs

        found = runs.state(folder)
        return found.phase, found.ended or found.phase == "none"

    def stop(self, folder: Path) -> None:
        """Ask the loop to end, then Flower."""
        from .flower import runs

        runs.stop(folder)


CONTROLS: dict[str, Any] = {"nvflare": NVFlareControl, "flower": FlowerControl}


def control_of(engine: str) -> Control:
    """The control of an engine by its name."""
    control: Control = CONTROLS[one_of("engine", engine, tuple(CONTROLS))]()
    return control
