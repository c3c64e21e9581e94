"""deploy/kubernetes renders to manifests that Kubernetes and KEDA know, which hold together with the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import kubernetes_validate
import pytest

from memforest_core.settings import Settings
from memforest_core.work.messages import Queue
from memforest_workers.worker import STOP_DEADLINE_S
from tests.harness.kustomize import Manifest, containers, rendered, waiting_query
from tests.unit.deploy.builders import ROOT
from tests.unit.deploy.test_compose import KNOWN, PREFIX, parsed, variables

OVERLAYS = ROOT / "deploy/kubernetes/overlays"
KEDA = json.loads((Path(__file__).parent / "keda.schema.json").read_text())
VERSIONS = ("1.31", "1.37")
"""The oldest and the newest Kubernetes that the manifests are for."""
QUEUES = {queue.value for queue in Queue}
PARTS = {*QUEUES, "api", "flower"}

ALL = [(name, each) for name in ("small", "production") for each in rendered(OVERLAYS / name)]
WORKLOADS = [(name, each) for name, each in ALL if containers(each)]


def of(overlay: str, kind: str) -> dict[str, Manifest]:
    """The manifests of a kind, by name without the prefix."""
    found = [each for name, each in ALL if name == overlay and each["kind"] == kind]
    return {each["metadata"]["name"].removeprefix("memforest-"): each for each in found}


def ids(cases: list[tuple[str, Manifest]]) -> list[str]:
    return [f"{name}-{each['kind']}-{each['metadata']['name']}" for name, each in cases]


@pytest.mark.parametrize(("overlay", "manifest"), ALL, ids=ids(ALL))
def test_a_manifest_fits_its_schema(overlay: str, manifest: Manifest) -> None:
    """Given a rendered manifest, then Kubernetes' own schema has no objection, nor an unknown field; KEDA's neither."""
    if manifest["apiVersion"].startswith("keda.sh/"):
        jsonschema.validate(manifest, KEDA)
        return
    for version in VERSIONS:
        kubernetes_validate.validate(manifest, version, strict=True)


@pytest.mark.parametrize(("overlay", "manifest"), WORKLOADS, ids=ids(WORKLOADS))
def test_a_pod_has_no_rights(overlay: str, manifest: Manifest) -> None:
    """Given a pod, then it is not root, writes to /tmp only, has no token, and says what it needs and may take."""
    pod = manifest["spec"]["template"]["spec"]
    assert pod["automountServiceAccountToken"] is False
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["runAsUser"] == 10001
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    for container in containers(manifest):
        assert container["securityContext"]["readOnlyRootFilesystem"] is True
        assert container["securityContext"]["allowPrivilegeEscalation"] is False
        assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
        assert set(container["resources"]) == {"requests", "limits"}
        assert [mount["mountPath"] for mount in container["volumeMounts"]] == ["/tmp"]
        assert not container["image"].endswith(":latest") and ":" in container["image"]


@pytest.mark.parametrize(("overlay", "manifest"), WORKLOADS, ids=ids(WORKLOADS))
def test_a_command_and_its_settings_exist(overlay: str, manifest: Manifest) -> None:
    """Given a container, then the CLI knows its command with all options, and its variables set fields."""
    (container,) = containers(manifest)
    program, *arguments = container["args"]
    assert program == "memforest"
    assert (arguments[0] == "serve" and "serve" not in KNOWN) or isinstance(parsed(arguments), dict)
    named = {each["name"] for each in container["env"]} | set(of(overlay, "ConfigMap")["memforest"]["data"])
    assert {name for name in named if name.startswith(PREFIX)} <= set(variables(Settings))


@pytest.mark.parametrize("overlay", ["small", "production"])
def test_selectors_find_their_pods(overlay: str) -> None:
    """Given a Deployment, a Service, a budget or a policy, then what it selects are the labels of its pods."""
    labels = [each["spec"]["template"]["metadata"]["labels"] for each in of(overlay, "Deployment").values()]
    labels += [each["spec"]["template"]["metadata"]["labels"] for each in of(overlay, "Job").values()]
    selectors: list[dict[str, Any]] = [
        each["spec"]["selector"]["matchLabels"]
        for kind in ("Deployment", "PodDisruptionBudget")
        for each in of(overlay, kind).values()
    ]
    selectors += [each["spec"]["selector"] for each in of(overlay, "Service").values()]
    selectors += [each["spec"]["podSelector"]["matchLabels"] for each in of(overlay, "NetworkPolicy").values()]
    for selector in selectors:
        assert any(selector.items() <= found.items() for found in labels), selector
    for name, service in of(overlay, "Service").items():
        (container,) = containers(of(overlay, "Deployment")[name])
        ports = {port["name"] for port in container["ports"]}
        assert {port["targetPort"] for port in service["spec"]["ports"]} <= ports


@pytest.mark.parametrize("overlay", ["small", "production"])
def test_probes_and_stops_fit_the_programs(overlay: str) -> None:
    deployments = of(overlay, "Deployment")
    for queue in QUEUES:
        (container,) = containers(deployments[queue])
        assert container["livenessProbe"]["httpGet"] == {"path": "/healthz", "port": "metrics"}
        assert deployments[queue]["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] >= STOP_DEADLINE_S + 10
    (api,) = containers(deployments["api"])
    assert api["readinessProbe"]["httpGet"]["path"] == "/ready"
    assert api["livenessProbe"]["httpGet"]["path"] == "/health"


def test_only_those_who_need_a_secret_have_it() -> None:
    holders = {
        "migration-url": {"migrate"},
        "llm-api-key": {"api", "extract", "refresh"},
        "flower-basic-auth": {"flower"},
        "database-url": PARTS - {"flower"} | {"migrate"},
    }
    for overlay in ("small", "production"):
        found: dict[str, set[str]] = {}
        for name, manifest in (of(overlay, "Deployment") | of(overlay, "Job")).items():
            for variable in containers(manifest)[0]["env"]:
                found.setdefault(variable["valueFrom"]["secretKeyRef"]["key"], set()).add(name)
        assert {key: found[key] for key in holders} == holders


@pytest.mark.parametrize("queue", Queue)
def test_workers_are_scaled_by_what_metrics_shows(queue: Queue) -> None:
    """Given a queue, then its autoscaler runs the query behind memforest_queue_waiting_seconds, for a Deployment that
    leaves the number of replicas to it."""
    scaled = of("production", "ScaledObject")[queue.value]
    (trigger,) = scaled["spec"]["triggers"]
    assert " ".join(trigger["metadata"]["query"].split()) == waiting_query(queue)
    target = of("production", "Deployment")[queue.value]
    assert scaled["spec"]["scaleTargetRef"] == {"name": target["metadata"]["name"]}
    assert "replicas" not in target["spec"]
    assert scaled["spec"]["minReplicaCount"] >= 2
    assert trigger["authenticationRef"]["name"] in {
        each["metadata"]["name"] for _, each in ALL if each["kind"] == "TriggerAuthentication"
    }
