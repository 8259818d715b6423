"""The normal form of objects: printed fields, their order, and empty values."""

from __future__ import annotations

import gzip
import json
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from allotment.model.fields import TypeShape, shape_of
from allotment.model.normal_form import normalize
from allotment.model.trees import Tree

FILES = (
    "22-patch", "23-server-side-apply", "20-crud-configmap", "25-tables", "26-pods", "28-protobuf-requests",
    "00-fixtures",
)  # fmt: skip


def shape(api_version: str, kind: str) -> TypeShape:
    found = shape_of(api_version, kind)
    assert found is not None
    return found


def objects(path: Path) -> Iterator[Tree]:
    """Yield every object in recorded responses of the real server."""
    with gzip.open(path, "rt") as lines:
        for line in lines:
            body = json.loads(line)["response"].get("body")
            if not isinstance(body, dict) or "kind" not in body or body["kind"] == "Status":
                continue
            kind = body["kind"].removesuffix("List")
            items = body.get("items") if kind != body["kind"] else [body]
            for item in items or []:
                tree = {"kind": kind, "apiVersion": body["apiVersion"], **item}
                if shape_of(tree["apiVersion"], tree["kind"]):
                    yield tree


def shuffled(tree: Any, rng: random.Random) -> Any:
    if isinstance(tree, dict):
        names = list(tree)
        rng.shuffle(names)
        return {name: shuffled(tree[name], rng) for name in names}
    return [shuffled(item, rng) for item in tree] if isinstance(tree, list) else tree


@pytest.mark.parametrize("name", FILES)
def test_recorded_objects_are_normal(shared: Callable[[str], Path], name: str) -> None:
    rng = random.Random(1)
    count = 0
    for tree in objects(shared(f"vectors/apiserver/{name}.jsonl.gz")):
        entries = tree["metadata"].pop("managedFields", None)
        known = shape(tree["apiVersion"], tree["kind"])
        assert normalize(tree, known) is tree
        assert json.dumps(normalize(shuffled(tree, rng), known)) == json.dumps(tree)
        count += entries is not None
    assert count


def test_unset_fields_are_omitted() -> None:
    tree: Tree = {
        "status": None,
        "metadata": {},
        "spec": {"nodeName": "", "hostNetwork": False, "containers": [{"name": "c"}]},
    }
    assert normalize(tree, shape("v1", "Pod")) == {
        "metadata": {},
        "spec": {"containers": [{"name": "c", "resources": {}}]},
        "status": {},
    }


def test_pointers_keep_empty_values() -> None:
    tree: Tree = {
        "metadata": {},
        "spec": {"replicas": 0, "paused": False, "selector": None, "template": {}},
        "status": {},
    }
    spec = normalize(tree, shape("apps/v1", "Deployment"))["spec"]
    assert spec == {
        "replicas": 0,
        "selector": None,
        "template": {"metadata": {}, "spec": {"containers": None}},
        "strategy": {},
    }


def test_unset_times_of_conditions_are_null() -> None:
    tree = {"metadata": {}, "spec": {"containers": []}, "status": {"conditions": [{"status": "True", "type": "Ready"}]}}
    result = normalize(tree, shape("v1", "Pod"))
    assert result["spec"] == {"containers": None}
    assert list(result["status"]["conditions"][0].items()) == [
        ("type", "Ready"),
        ("status", "True"),
        ("lastProbeTime", None),
        ("lastTransitionTime", None),
    ]


def test_quantities_and_base64_are_canonical() -> None:
    tree: Tree = {"metadata": {}, "data": {"b": "Yg\n==", "a": "YQ=="}, "stringData": {}}
    assert list(normalize(tree, shape("v1", "Secret"))["data"].items()) == [("a", "YQ=="), ("b", "Yg==")]
    limits = {"memory": "1024Mi", "cpu": 2}
    pod = {"metadata": {}, "spec": {"containers": [{"name": "c", "resources": {"limits": limits}}]}, "status": {}}
    container = normalize(pod, shape("v1", "Pod"))["spec"]["containers"][0]
    assert list(container["resources"]["limits"].items()) == [("cpu", "2"), ("memory", "1Gi")]


def test_normal_parts_are_returned_unchanged() -> None:
    container = {"name": "c", "resources": {}}
    tree = {"metadata": {"name": "p"}, "spec": {"nodeName": "", "containers": [container]}, "status": {}}
    result = normalize(tree, shape("v1", "Pod"))
    assert result["spec"]["containers"][0] is container
    assert result["metadata"] is tree["metadata"]
    assert normalize(result, shape("v1", "Pod")) is result


def test_parts_of_the_previous_object_are_reused() -> None:
    pod = shape("v1", "Pod")
    known = normalize({"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "a"}, "spec": {"containers": []}}, pod)
    changed = {"status": {"phase": "Running", "reason": ""}, "metadata": {**known["metadata"], "labels": {}}, **known}
    made = normalize({**changed, "metadata": {"labels": {}, "name": "a"}}, pod, known)
    assert made == normalize({**changed, "metadata": {"labels": {}, "name": "a"}}, pod)
    assert made["spec"] is known["spec"]
    assert normalize(known, pod, known) is known
