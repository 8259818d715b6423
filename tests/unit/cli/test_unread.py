"""Answers from a snapshot say which resources the cluster does not serve, or did not show to the user."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from allotment.fleet import cluster_of, parse_fleet
from allotment.model.serialization import to_yaml
from allotment.model.server_facts import API_VERSION, KIND
from allotment.model.trees import Tree, to_tree
from tests.unit.cli.conftest import Allot

POD = """\
apiVersion: v1
kind: Pod
metadata: {name: p, namespace: default}
spec:
  containers: [{name: c, image: i, resources: {claims: [{name: gpu}]}}]
  resourceClaims: [{name: gpu, resourceClaimTemplateName: t}]
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: t, namespace: default}
spec: {spec: {devices: {requests: [{name: r, exactly: {deviceClassName: gpu.nvidia.com}}]}}}
"""
FORBIDDEN = ({"devicetaintrules": ["v1"]}, {"devicetaintrules": "forbidden"})
NOT_SERVED: tuple[Tree, Tree] = ({}, {})
CASES = [
    (FORBIDDEN, "forbidden", "not readable and therefore ignored: devicetaintrules (forbidden)"),
    (NOT_SERVED, "not served", "the cluster does not serve devicetaintrules: none are considered"),
]


def snapshot(folder: Path, served: Tree, unread: Tree) -> str:
    """A snapshot of one machine with a GPU, and the facts about its server."""
    fleet = cluster_of(parse_fleet(["t4"]))
    trees = [
        *(to_tree(node, "v1", "Node") for node in fleet.nodes),
        *(to_tree(slice_, "resource.k8s.io/v1", "ResourceSlice") for slice_ in fleet.slices),
        *(to_tree(class_, "resource.k8s.io/v1", "DeviceClass") for class_ in fleet.classes),
        {
            "apiVersion": API_VERSION, "kind": KIND, "metadata": {"name": "server"}, "version": "v1.37.2",
            "served": {"resourceclaims": ["v1"], **served}, "unread": unread,
        },
    ]  # fmt: skip
    file = folder / "snapshot.yaml"
    file.write_text(to_yaml(trees))
    return str(file)


@pytest.mark.parametrize(("facts", "why", "note"), CASES, ids=["forbidden", "not served"])
def test_an_answer_without_taint_rules_says_so(
    allot: Allot, tmp_path: Path, facts: tuple[Tree, Tree], why: str, note: str
) -> None:
    cluster, pod = snapshot(tmp_path, *facts), tmp_path / "pod.yaml"
    pod.write_text(POD)
    words: tuple[str, ...]
    for words in (("free",), ("explain", "-f", str(pod)), ("metrics",)):
        ran = allot(*words, "--cluster", cluster)
        assert note in " ".join((ran.out + ran.err).split()), words
    for words in (("free",), ("explain", "-f", str(pod)), ("check", str(pod))):
        data = json.loads(allot(*words, "--cluster", cluster, "-o", "json").out)
        assert data["unread"] == {"devicetaintrules": why}, words
    metric = f'allotment_unread_resources{{reason="{why.replace(" ", "-")}",resource="devicetaintrules"}} 1.0'
    assert metric in allot("metrics", "--cluster", cluster).out


def test_an_answer_that_lacks_nothing_does_not_mention_it(allot: Allot, tmp_path: Path) -> None:
    cluster = snapshot(tmp_path, {"devicetaintrules": ["v1"]}, {})
    assert "unread" not in json.loads(allot("free", "--cluster", cluster, "-o", "json").out)
    assert "unread" not in json.loads(allot("check", "--cluster", cluster, "-o", "json", str(tmp_path)).out)
    assert "unread" not in allot("metrics", "--cluster", cluster).out
