"""The same tables on every engine, with and without masks: real processes, one model. And sites that come and go.

Whatever a test starts is ended by its process id, even when the test fails.
"""

import numpy as np
import pytest
from support.command_line import cli
from support.consortium import deployment, run_in_threads, write_tables
from support.deployments import EXACT, free_port
from support.patients import HOSPITALS

from fedualex import models
from fedualex.deploy import engines, processes
from fedualex.deploy.party import Layout
from fedualex.deploy.policy import POLICY

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3000)]
FEW = {"tol": 0.1}
"""13 exchanges: with Flower each starts a process at every site."""


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("engines")
    write_tables(folder)
    return folder


def allow_few_rows(root):
    """The tables are small, and a refusal of second derivatives or of measures would be a complaint."""
    for name in HOSPITALS:
        with (root / "sites" / name / POLICY).open("a") as policy:
            policy.write("rows_per_parameter = 1\nleast_held_out = 5\n")


@pytest.fixture(scope="module")
def in_threads(place):
    """The model of a deployment in this process, with or without masks."""
    found = {}

    def model(secure_sums):
        if secure_sums not in found:
            root = deployment(place, secure_sums, f"threads-{secure_sums}", **FEW)
            allow_few_rows(root)
            run_in_threads(root)
            found[secure_sums] = models.load(root / "server")
        return found[secure_sums]

    return model


def join(root, *names, options=()):
    """Each party makes its own keys, and the authority signs them; nobody else ever has them."""
    for name in names:
        home = Layout(root).party(name)
        cli("deploy", "join", home, *options)
        done = cli("deploy", "admit", root, home / f"join-{name}.json")
        assert done.exit_code == 0, done.output


def renew_one(root, name):
    """A site has new keys and is started again while all others go on."""
    from fedualex.deploy.nvflare import control

    others = {other: processes.members(root, other)[0].pid for other in ("server", *HOSPITALS) if other != name}
    join(root, name, options=("--renew",))
    processes.down(root, name)
    control.start(root, name)
    return others


@pytest.mark.parametrize(
    ("secure_sums", "own_keys"), [("off", False), ("on", False), ("on", True)], ids=["plain", "masked", "own keys"]
)
@pytest.mark.parametrize("engine", engines.ENGINES)
def test_every_engine_ends_in_the_same_model(place, in_threads, engine, secure_sums, own_keys):
    expected = in_threads(secure_sums)
    server = {"engine": engine, "port": free_port(), "own_keys": own_keys}
    root = deployment(place, secure_sums, f"{engine}-{secure_sums}-{own_keys}", server, **FEW)
    try:
        if own_keys:
            assert not list((root / "sites").rglob("*.key"))
            join(root, *engines.control_of(engine).BESIDE, *HOSPITALS)
        allow_few_rows(root)
        assert cli("deploy", "up", root).exit_code == 0
        others = renew_one(root, "west") if own_keys and engine == "nvflare" else {}
        ran = cli("deploy", "run", root)
        assert ran.exit_code == 0, ran.output
        assert "Certified: no model" in ran.output
        assert {other: processes.members(root, other)[0].pid for other in others} == others
    finally:
        engines.control_of(engine).down(root)
    for home in (root / "server", *(root / "sites" / name for name in HOSPITALS)):
        model = models.load(home)
        np.testing.assert_allclose(model.weights, expected.weights, rtol=0, atol=EXACT)
        assert model.certificate["gap"] == pytest.approx(expected.certificate["gap"], abs=EXACT)
