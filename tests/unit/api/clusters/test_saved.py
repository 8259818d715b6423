"""Snapshots of clusters, as text and as data."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from allotment.api.cluster import Cluster
from allotment.errors import InputError

APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
CLUSTER = """\
apiVersion: v1
kind: Node
metadata: {name: gpu-1, labels: {team: secret}}
---
apiVersion: allotment.dev/v1
kind: ServerFacts
metadata: {name: server}
version: v1.36.2
taken: "2026-01-02T03:04:05Z"
unread: {pods: jane may not list pods}
"""


def test_described_hardware_is_saved_as_a_cluster(tmp_path: Path) -> None:
    cluster = Cluster.fleet("t4-4x-pcie")
    for name in ("cluster.json", "cluster.yaml"):
        cluster.save(tmp_path / name)
        assert Cluster.snapshot(tmp_path / name).read().cluster == cluster.read().cluster
    assert json.loads((tmp_path / "cluster.json").read_text()) == cluster.to_dict()
    assert {item["kind"] for item in cluster.to_dict()["items"]} == {"Node", "DeviceClass", "ResourceSlice"}


def test_facts_about_the_server_are_last_and_in_the_heading(tmp_path: Path) -> None:
    file = tmp_path / "cluster.yaml"
    Cluster.snapshot(CLUSTER).save(file)
    heading = "# A snapshot of Kubernetes v1.36.2, 2026-01-02T03:04Z, written by allot snapshot."
    assert file.read_text().splitlines()[0] == heading
    assert Cluster.snapshot(file).to_dict() == Cluster.snapshot(CLUSTER).to_dict()
    assert Cluster.snapshot(CLUSTER).to_dict()["items"][-1]["kind"] == "ServerFacts"


def test_the_objects_of_a_snapshot_are_saved_as_written() -> None:
    pod = {
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "annotations": {APPLIED: "{}", "team": "ml"}},
        "spec": {"containers": [{"name": "c", "image": "i", "stdin": True}]},
    }  # fmt: skip
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a"}, "data": {"key": "YQ=="}}
    cluster = Cluster.snapshot(pod, secret)
    assert cluster.to_dict()["items"] == [{**pod, "metadata": {"name": "a", "annotations": {"team": "ml"}}}]
    cluster.to_dict()["items"][0]["spec"].clear()
    assert cluster.to_dict()["items"][0]["spec"] == pod["spec"]
    assert Cluster.snapshot(cluster.to_dict()).to_dict() == cluster.to_dict()


def test_pseudonyms_replace_names_and_users(tmp_path: Path) -> None:
    cluster = Cluster.snapshot(CLUSTER)
    cluster.save(tmp_path / "cluster.yaml", redact=True)
    text = (tmp_path / "cluster.yaml").read_text()
    assert "Names and values are pseudonyms." in text
    assert "secret" not in text
    assert "jane" not in text
    assert cluster.to_dict(redact=True)["items"][-1]["unread"] == {"pods": "access denied"}


def test_a_file_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is a directory"):
        Cluster().save(tmp_path)
    with pytest.raises(InputError, match="directory not found"):
        Cluster().save(tmp_path / "missing" / "cluster.yaml")
