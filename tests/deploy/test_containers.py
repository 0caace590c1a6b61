"""The Containerfile and the compose file, looked at without an engine: none runs here, so that no image was built."""

import re
import tomllib
from pathlib import Path

import pytest
import yaml
from click import Group

import fedualex
from fedualex.cli.deploy import deploy

ROOT = Path(__file__).parents[2]
CONTAINERS = ROOT / "containers"
COMPOSE = yaml.safe_load((CONTAINERS / "compose.yaml").read_text())
SERVICES = COMPOSE["services"]


def instructions():
    """(name, arguments) of each instruction of the Containerfile, continued lines joined."""
    text = re.sub(r"(?m)^\s*#.*\n", "", (CONTAINERS / "Containerfile").read_text())
    lines = re.sub(r"\\\n\s*", " ", text).splitlines()
    return [tuple(line.split(maxsplit=1)) for line in lines if line.strip()]


def arguments(name):
    return [words for word, words in instructions() if word == name]


def test_the_image_is_of_a_named_version_without_a_tool_that_hides_what_it_fetches():
    [base] = arguments("FROM")
    assert re.fullmatch(r"\S+:\d+\.\d+\.\d+-slim-\w+", base), "a version, and no 'latest'"
    assert not arguments("ADD")
    assert not re.search(r"curl|wget|sudo|apt-get upgrade", " ".join(arguments("RUN")))
    assert [name for name, _ in instructions()].index("USER") > [name for name, _ in instructions()].index("RUN")
    [user] = arguments("USER")
    assert user not in ("root", "0")
    for pieces in arguments("COPY"):
        assert ".." not in pieces
        for source in pieces.split()[:-1]:
            assert (ROOT / source).exists(), source
    for words in (*arguments("CMD"), *arguments("HEALTHCHECK")):
        assert "[" in words, "as a list, so that signals reach the program and not a shell"


def test_what_is_installed_are_extras_that_exist():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    [engine] = [words.partition("=")[2] for words in arguments("ARG") if words.startswith("ENGINE")]
    assert {engine, "secure"} <= extras.keys()


def commands():
    found = [service[key] for service in SERVICES.values() for key in ("command",) if key in service]
    found += [service["healthcheck"]["test"][1:] for service in SERVICES.values() if "healthcheck" in service]
    health = re.search(r"CMD (\[.*\])", arguments("HEALTHCHECK")[0])
    return [*found, yaml.safe_load(health[1])]


@pytest.mark.parametrize("words", commands(), ids=" ".join)
def test_commands_of_containers_exist_with_their_options(words):
    assert words[:2] == ["fedualex", "deploy"]
    assert isinstance(deploy, Group)
    known = {option for parameter in deploy.commands[words[2]].params for option in parameter.opts}
    assert {word for word in words[3:] if word.startswith("--")} <= known


@pytest.mark.parametrize("name", SERVICES)
def test_a_service_has_no_rights_that_it_does_not_need(name):
    service = SERVICES[name]
    assert service["read_only"] is True
    assert service["user"].split(":")[0] not in ("0", "root")
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert not {"privileged", "network_mode", "pid", "devices"} & service.keys()
    assert service["image"] == f"fedualex:{fedualex.__version__}"
    assert service["restart"] in ("unless-stopped", "on-failure")
    [volume] = service["volumes"]
    assert re.match(r"\$\{(STUDY|SITE):\?[^}]+\}", volume), "a folder that must be named"


def test_a_site_opens_no_port_and_sees_no_folder_of_another_party():
    assert "ports" not in SERVICES["site"]
    assert not any("STUDY" in volume for volume in SERVICES["site"]["volumes"])
    assert all("SITE" not in volume for name in ("server", "run") for volume in SERVICES[name]["volumes"])
