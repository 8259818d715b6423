"""Clusters as snapshots, hardware, running clusters, and only a release."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

import allotment
from allotment.api.cluster import Cluster
from allotment.cluster.errors import Unreachable
from allotment.cluster.inspection.snapshot import DEVICES
from allotment.errors import InputError, InvalidManifests
from allotment.fleet import FleetError
from allotment.model.core import Node, Pod
from allotment.model.resource import ResourceSlice

POD = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web"}, "spec": {"containers": [{"name": "a"}]}}


@pytest.fixture(scope="module")
def lab() -> Iterator[allotment.Lab]:
    with allotment.Lab(fleet="t4", speed=50) as lab:
        yield lab


def kinds(cluster: Cluster) -> set[str]:
    return {type(value).__name__ for value in cluster.read().cluster}


def test_without_objects_a_cluster_is_a_release() -> None:
    cluster = Cluster(kube="1.35", gates={"DRAPartitionableDevices": True})
    assert cluster.read().cluster == ()
    assert cluster.features.kube == "1.35"
    assert cluster.features.enabled("DRAPartitionableDevices")


def test_hardware_has_nodes_slices_and_classes() -> None:
    cluster = Cluster.fleet("t4:2")
    assert kinds(cluster) == {"Node", "ResourceSlice", "DeviceClass"}
    assert len(cluster.read().of(Node)) == 2
    assert (cluster.origin.place, cluster.origin.options) == ("hardware", ("--fleet", "t4:2"))
    with pytest.raises(FleetError, match="t44"):
        Cluster.fleet("t44")


def test_a_snapshot_is_read_once(tmp_path: Path) -> None:
    file = tmp_path / "snapshot.json"
    file.write_text(json.dumps(POD))
    cluster = Cluster.snapshot(file)
    file.unlink()
    assert [pod.metadata.name for pod in cluster.read().of(Pod)] == ["web"]
    assert (cluster.origin.place, cluster.origin.options) == ("snapshot", ("--cluster", str(file)))
    assert cluster.origin.is_repeatable
    assert not Cluster.snapshot(POD).origin.is_repeatable


def test_a_snapshot_can_be_read_again_from_its_data() -> None:
    hardware = Cluster.fleet("dgx-a100-40gb:2")
    assert len(Cluster.snapshot(hardware.to_dict()).read().cluster) == len(hardware.read().cluster)


def test_a_snapshot_reports_all_problems() -> None:
    with pytest.raises(InvalidManifests) as raised:
        Cluster.snapshot("kind: Pod\nmetadata: {name: [}\n---\napiVersion: v1\nkind: Pod\nspec: 3\n")
    assert len(raised.value.problems) == 2


def test_a_running_cluster_is_read_again(lab: allotment.Lab) -> None:
    cluster = Cluster.lab(lab)
    assert [value.metadata.name for value in cluster.read(DEVICES).of(Node)] == ["t4-1"]
    assert cluster.read(DEVICES).of(ResourceSlice)
    lab.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "later"}})
    assert "later" in {value.metadata.name for value in cluster.read().cluster}
    assert cluster.origin.place == "cluster"
    assert cluster.origin.options == cluster.origin.connection == ("--kubeconfig", str(lab.kubeconfig))
    assert Cluster.lab(lab, kube="1.35").features.kube == "1.35"


def test_a_running_cluster_is_read_inside_of_an_event_loop(lab: allotment.Lab) -> None:
    async def cell() -> int:
        return len(Cluster.lab(lab).read(DEVICES).of(Node))

    assert asyncio.run(cell()) == 1


def test_an_unknown_context_and_a_missing_kubeconfig_are_reported(lab: allotment.Lab, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="production"):
        Cluster.live("production", kubeconfig=lab.kubeconfig)
    with pytest.raises(InputError, match="no kubeconfig found"):
        Cluster.live(kubeconfig=tmp_path / "none")


def test_a_stopped_cluster_does_not_answer(tmp_path: Path) -> None:
    context = {"name": "c", "context": {"cluster": "c"}}
    cluster = {"name": "c", "cluster": {"server": "https://127.0.0.1:9"}}
    file = tmp_path / "config"
    file.write_text(json.dumps({"current-context": "c", "contexts": [context], "clusters": [cluster]}))
    with pytest.raises(Unreachable):
        Cluster.live(kubeconfig=file, prefer_lab=False).read(DEVICES)
