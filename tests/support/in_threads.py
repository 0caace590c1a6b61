"""The local engine with its sites in threads of the tests' process: what the command line does, without new processes."""

from pathlib import Path

import pytest

from fedualex.deploy import engines, thread_engine
from fedualex.deploy.consortium import deployment
from fedualex.deploy.local import control
from fedualex.deploy.party import Layout


def run_in_threads(root: Path, stop_after: int | None = None):
    """Server and sites in this process, each from its own folder; the engine is stopped in a round, if one is given."""
    layout = Layout(root)
    sites = deployment.settings_of(layout.server)["sites"]
    works = {name: deployment.load_site(layout.site(name)).work for name in sites}
    engine = thread_engine({name: lambda request, work=work: watched(request, work) for name, work in works.items()})

    def watched(request, work):
        if request.task == "round" and request.round == stop_after:
            engine.carrier.stop()
        return work(request)

    return deployment.serve(engine, layout.server)


class ThreadControl:
    """The functions of an engine whose runs are over when `submit` returns; like an engine, it knows of a failed run
    only that it failed."""

    POLL, HERE, KEYED = 0.0, True, ()
    provision, up, fetch = map(staticmethod, (control.provision, control.up, control.fetch))

    def __init__(self) -> None:
        self.said: dict[Path, str] = {}

    def submit(self, folder: Path, sites: int) -> None:
        self.said[folder] = "finished"
        try:
            run_in_threads(folder)
        except Exception:
            self.said[folder] = "failed"

    def state(self, folder: Path) -> tuple[str, bool]:
        return self.said.get(folder, "none"), True

    def absent(self, folder: Path, sites) -> dict[str, str]:
        return {}

    def stop(self, folder: Path) -> None: ...

    def down(self, folder: Path) -> None: ...


@pytest.fixture(scope="module", autouse=True)
def threads():
    """In a module that imports this fixture, `fedualex deploy` has the local engine in threads."""
    found, of = ThreadControl(), engines.control_of
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(engines, "control_of", lambda name: found if name == "local" else of(name))
        yield found
