"""The two classes that a job names: NVFlare makes them from the installed package, no code travels."""

from collections.abc import Callable
from pathlib import Path

from nvflare.collab import collab

from ..entry import read_entry
from ..logs import write_log
from ..messages import CarriedEngine, answering
from ..results import RESULT, copy_result
from .carrier import Collab


class ServerRole:
    """Runs the round loop that the server's own settings name."""

    @collab.main
    def run(self) -> None:
        """The whole job; an exception fails it. Its submitter can download what it leaves in the job's own folder."""
        folder, own = _folder(), Path(collab.workspace.get_run_dir(collab.fl_ctx.get_job_id()))
        write_log(folder)
        read_entry(folder)(CarriedEngine(Collab()), folder)
        copy_result(folder, own / RESULT)


class SiteRole:
    """Answers requests with what the site's own settings name."""

    def __init__(self) -> None:
        self._answer: Callable[[bytes], bytes] | None = None

    @collab.init
    def load(self) -> None:
        """Load the site before the first round."""
        folder = _folder()
        write_log(folder)
        self._answer = answering(lambda: read_entry(folder)(folder))

    @collab.publish
    def work(self, message: bytes) -> bytes:
        """The answer to one request."""
        assert self._answer is not None
        return self._answer(message)


def _folder() -> Path:
    return Path(collab.workspace.get_root_dir()).resolve().parent
