"""deploy/kubernetes: valid for Kubernetes, hardened, and in agreement with the gateway's own limits."""

import importlib
import re
import shutil
import subprocess
import tomllib
from typing import Any

import pytest
from support.commands import missing
from support.places import PROJECT

yaml = pytest.importorskip("yaml", reason="needs PyYAML: run `make install`")

FOLDER = PROJECT / "deploy" / "kubernetes"
SETTINGS = tomllib.loads((FOLDER / "hookgate.toml").read_text())
LABELS = {"app.kubernetes.io/name": "hookgate"}


def manifests() -> list[dict[str, Any]]:
    """The documents of all files but the kustomization."""
    kustomization = yaml.safe_load((FOLDER / "kustomization.yaml").read_text())
    return [
        document
        for name in kustomization["resources"]
        for document in yaml.safe_load_all((FOLDER / name).read_text())
    ]


def only(kind: str) -> dict[str, Any]:
    [found] = [each for each in manifests() if each["kind"] == kind]
    return found


POD = only("Deployment")["spec"]["template"]
CONTAINER = POD["spec"]["containers"][0]


@pytest.mark.parametrize(
    "manifest", manifests(), ids=lambda each: f"{each['kind']} {each['metadata']['name']}"
)
def test_each_manifest_has_the_schema_of_kubernetes(manifest: dict[str, Any]) -> None:
    try:
        validator = importlib.import_module("kubernetes_validate")
    except ImportError:
        missing("needs the schemas of Kubernetes: pip install kubernetes-validate")
    validator.validate(manifest, "1.32", strict=True)


def test_kustomize_puts_it_together() -> None:
    if shutil.which("kubectl") is None:
        missing("needs kubectl")
    ran = subprocess.run(["kubectl", "kustomize", FOLDER], check=True, capture_output=True, text=True)
    documents = {each["kind"]: each for each in yaml.safe_load_all(ran.stdout)}
    assert documents.keys() == {each["kind"] for each in manifests()} | {"ConfigMap"}
    volumes = documents["Deployment"]["spec"]["template"]["spec"]["volumes"]
    config = documents["ConfigMap"]
    assert {"name": "config", "configMap": {"name": config["metadata"]["name"]}} in volumes
    assert config["data"].keys() == {"hookgate.toml", "settings.json"}


def test_a_pod_has_time_to_finish_its_calls() -> None:
    limits = SETTINGS["limits"]
    assert POD["spec"]["terminationGracePeriodSeconds"] > limits["drain_delay"] + limits["drain_timeout"]


def test_a_pod_runs_as_the_user_of_the_image_without_rights_on_a_read_only_root() -> None:
    pod, container = POD["spec"]["securityContext"], CONTAINER["securityContext"]
    assert (pod["runAsNonRoot"], pod["runAsUser"]) == (True, 10001)
    assert "USER 10001:10001" in (PROJECT / "Dockerfile").read_text()
    assert container["readOnlyRootFilesystem"] is True
    assert container["allowPrivilegeEscalation"] is False
    assert container["capabilities"] == {"drop": ["ALL"]}
    assert POD["spec"]["automountServiceAccountToken"] is False


def test_probes_ask_the_operators_listener() -> None:
    ports = {port["name"]: port["containerPort"] for port in CONTAINER["ports"]}
    assert SETTINGS["listen"]["address"].endswith(f":{ports['http']}")
    assert SETTINGS["admin"]["address"].endswith(f":{ports['admin']}")
    probes = {
        name: CONTAINER[name]["httpGet"] for name in ("startupProbe", "readinessProbe", "livenessProbe")
    }
    assert {probe["port"] for probe in probes.values()} == {"admin"}
    assert probes["livenessProbe"]["path"] == "/healthz"  # a gateway that finishes its calls is alive
    assert probes["readinessProbe"]["path"] == "/readyz"


def test_everything_selects_the_pods_of_the_deployment() -> None:
    assert POD["metadata"]["labels"] == LABELS
    for kind, place in (("PodDisruptionBudget", "selector"), ("NetworkPolicy", "podSelector")):
        assert only(kind)["spec"][place] == {"matchLabels": LABELS}
    services = [each for each in manifests() if each["kind"] == "Service"]
    assert all(each["spec"]["selector"] == LABELS for each in services)


def test_it_scales_by_a_metric_that_the_gateway_reports() -> None:
    [metric] = only("HorizontalPodAutoscaler")["spec"]["metrics"]
    assert f"`{metric['pods']['metric']['name']}`" in (PROJECT / "docs" / "metrics.md").read_text()


def test_secrets_are_references_to_one_secret_that_the_page_creates() -> None:
    page = (PROJECT / "docs" / "deploying.md").read_text()
    files = {*re.findall(r'"/run/secrets/([\w-]+)"', (FOLDER / "hookgate.toml").read_text())}
    assert all(f"--from-file={name}=" in page or f"/{name}" in page for name in files)
    assert not [each for each in manifests() if each["kind"] == "Secret"]
