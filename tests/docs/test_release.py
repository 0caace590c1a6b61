"""One version everywhere, a changelog that has it, and files for installing and for public machines that agree with each other."""

import re
import tomllib

import pytest
import yaml
from support.pages import ROOT

import fedualex as fx

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


@pytest.mark.parametrize(
    ("file", "pattern"),
    [("CITATION.cff", r"^version: (.*)$"), ("CHANGELOG.md", r"^## (\d.*)$")],
)
def test_a_file_has_the_version_of_the_package(file, pattern):
    assert re.search(pattern, (ROOT / file).read_text(), flags=re.MULTILINE)[1] == fx.__version__


def test_the_version_is_written_in_one_place_of_the_package():
    assert not re.search(r'^version = "', (ROOT / "pyproject.toml").read_text(), flags=re.MULTILINE)


def test_the_oldest_constraints_are_the_lowest_versions_that_are_allowed():
    """Of everything that users install but the engines, whose versions are pinned."""
    extras = {
        name: found for name, found in PROJECT["optional-dependencies"].items() if name not in ("flower", "nvflare")
    }
    wanted = [*PROJECT["dependencies"], *(one for found in extras.values() for one in found)]
    lowest = {re.match(r"[\w-]+", one)[0]: re.search(r">=([\d.]+)", one)[1] for one in wanted}
    lines = (ROOT / "constraints-oldest.txt").read_text().splitlines()
    pinned = dict(line.split("==") for line in lines if not line.startswith("#"))
    assert pinned.pop("jaxlib") == pinned["jax"]
    assert {name: release(version) for name, version in pinned.items()} == {
        name: release(version) for name, version in lowest.items()
    }


def release(version):
    """Without zeros at the end: 2.0 and 2.0.0 are one."""
    return re.sub(r"(\.0)+$", "", version)


def test_public_machines_run_targets_that_exist_on_the_pythons_that_are_declared():
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE))
    classifiers = re.findall(r"Python :: (3\.\d+)", "\n".join(PROJECT["classifiers"]))
    jobs = [job for file in WORKFLOWS for job in yaml.safe_load(file.read_text())["jobs"].values()]
    commands = [step["run"] for job in jobs for step in job["steps"] if "run" in step]
    assert {command.split()[0] for command in commands} == {"make"}
    assert {command.split()[1] for command in commands} <= targets
    assert {"lint", "test-fast", "docs", "test-all", "test-oldest"} <= {command.split()[1] for command in commands}
    (pythons,) = [job["strategy"]["matrix"]["python"] for job in jobs if "strategy" in job]
    assert pythons == classifiers
