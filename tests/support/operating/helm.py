"""The Helm chart, as Helm renders it. `make helm-program` fetches Helm; without it, tests skip."""

import functools
import json
import subprocess
from pathlib import Path
from typing import Any

import yaml
from support.places import PROJECT
from support.programs.commands import missing

HELM = PROJECT / "build" / "helm" / "helm"
CHART = PROJECT / "deploy" / "helm" / "hookgate"
RELEASE = "hookgate"

Json = dict[str, Any]


def program() -> Path:
    """Helm itself. Skips the test where it has not been fetched."""
    if not HELM.is_file():
        missing("needs Helm: run `make helm-program`")
    return HELM


def helm(*words: str, values: Json | None = None) -> subprocess.CompletedProcess[str]:
    """Run a command of Helm about the chart, with values in place of some defaults."""
    command = [str(program()), *words, str(CHART), "--values", "-"]
    given = yaml.safe_dump(values or {})
    return subprocess.run(command, input=given, capture_output=True, text=True, check=False, timeout=60)


def manifests(values: Json | None = None, release: str = RELEASE) -> list[Json]:
    """What a release consists of."""
    return [*json.loads(_rendered(json.dumps(values), release))]


@functools.cache
def _rendered(values: str, release: str) -> str:
    ran = helm("template", release, "--namespace", "gate", values=json.loads(values))
    assert ran.returncode == 0, ran.stderr
    return json.dumps([document for document in yaml.safe_load_all(ran.stdout) if document])


def only(kind: str, values: Json | None = None, name: str = RELEASE) -> Json:
    """The one object of a kind with a name."""
    [found] = [each for each in manifests(values) if (each["kind"], each["metadata"]["name"]) == (kind, name)]
    return found


def pod(values: Json | None = None) -> Json:
    """The template of the pods."""
    template = only("Deployment", values)["spec"]["template"]
    assert isinstance(template, dict)
    return template


def container(values: Json | None = None) -> Json:
    """The only container of a pod."""
    [found] = pod(values)["spec"]["containers"]
    assert isinstance(found, dict)
    return found


def hookgate_toml(values: Json | None = None) -> str:
    """The configuration of the gateways."""
    return str(only("ConfigMap", values, f"{RELEASE}-config")["data"]["hookgate.toml"])
