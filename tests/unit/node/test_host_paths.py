"""hostPath volumes are folders of a node, not of the machine."""

from __future__ import annotations

import asyncio
from pathlib import Path

from allotment.model.trees import Tree
from allotment.node import volumes
from tests.unit.node.world import world

SPEC: Tree = {"name": "main", "volumeMounts": [{"name": "data", "mountPath": "/data"}]}


def pod(uid: str, **source: str) -> Tree:
    volume = {"name": "data", "hostPath": {"path": "/tmp/e2e", **source}}
    return {"metadata": {"name": uid, "namespace": "shop", "uid": uid}, "spec": {"volumes": [volume]}}


def mounted(state: Path, pod: Tree, node: str = "n1") -> dict[str, Path]:
    async def scenario() -> dict[str, Path]:
        async with world() as on:
            place = {"metadata": {"name": node}}
            return await volumes.mounts(state, pod, SPEC, client=on.client, pod_ip="", node=place)

    return asyncio.run(scenario())


def test_pods_of_a_node_find_what_earlier_ones_left(tmp_path: Path) -> None:
    folder = mounted(tmp_path, pod("a", type="DirectoryOrCreate"))["/data"]
    (folder / "mark").touch()
    volumes.remove(tmp_path, "a")
    assert (mounted(tmp_path, pod("b"))["/data"] / "mark").exists()
    assert not (mounted(tmp_path, pod("c"), node="n2")["/data"] / "mark").exists()
    assert folder.is_relative_to(tmp_path)


def test_sockets_and_devices_of_the_node_are_not_mounted(tmp_path: Path) -> None:
    assert mounted(tmp_path, pod("a", type="Socket")) == {}
