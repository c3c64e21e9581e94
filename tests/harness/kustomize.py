"""Renders our overlays as kustomize does, as far as they use it: resources, namespace, images, strategic merges.

Anything else in a kustomization is refused. A list of objects with names is merged by name, any other is
replaced; null removes a field.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from memforest_core.observe.records import KINDS
from memforest_core.work.messages import Queue

Manifest = dict[str, Any]

KNOWN = {"apiVersion", "kind", "namespace", "resources", "images", "patches"}
WITHOUT_NAMESPACE = {"Namespace", "ClusterRole", "ClusterRoleBinding"}


def rendered(directory: Path) -> list[Manifest]:
    """The manifests of a kustomization, in the order of its resources."""
    given = yaml.safe_load((directory / "kustomization.yaml").read_text())
    assert set(given) <= KNOWN, set(given) - KNOWN
    found: list[Manifest] = []
    for resource in given["resources"]:
        place = directory / resource
        found += rendered(place) if place.is_dir() else documents(place)
    for patch in given.get("patches", []):
        assert set(patch) == {"path"}, "only strategic merges from files"
        for change in documents(directory / patch["path"]):
            (target,) = [each for each in found if identity(each) == identity(change)]
            target.update(merged(target, change))
    for image in given.get("images", []):
        for container in (c for each in found for c in containers(each)):
            if container["image"] == image["name"]:
                container["image"] = f"{image['newName']}:{image['newTag']}"
    if "namespace" in given:
        for each in found:
            if each["kind"] not in WITHOUT_NAMESPACE:
                each["metadata"]["namespace"] = given["namespace"]
    return found


def documents(path: Path) -> list[Manifest]:
    """The documents of a file; one that is only comments is none."""
    return [each for each in yaml.safe_load_all(path.read_text()) if each is not None]


def identity(manifest: Manifest) -> tuple[str, str, str]:
    return manifest["apiVersion"], manifest["kind"], manifest["metadata"]["name"]


def containers(manifest: Manifest) -> list[Manifest]:
    """The containers of a workload."""
    pod = manifest.get("spec", {}).get("template", {}).get("spec", {})
    return [*pod.get("initContainers", []), *pod.get("containers", [])]


def merged(base: Any, change: Any) -> Any:
    if isinstance(base, dict) and isinstance(change, dict):
        both = {key: merged(base[key], value) if key in base else value for key, value in change.items()}
        return {key: value for key, value in (base | both).items() if value is not None}
    if named(base) and named(change):
        changes = {each["name"]: each for each in change}
        whole = [merged(each, changes.pop(each["name"], {})) for each in base]
        return whole + list(changes.values())
    return change


def named(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(each, dict) and "name" in each for each in value)


def waiting_query(queue: Queue) -> str:
    """The query of an autoscaler: seconds that the oldest row has waited for a queue's workers."""
    kinds = ", ".join(f"'{kind}'" for kind in KINDS[queue])
    return f"SELECT coalesce(max(oldest_s), 0) FROM memforest.backlog() WHERE state = 'ready' AND kind IN ({kinds})"
