"""Device metadata for programs: files in the driver's folder that CDI files mount."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest

from allotment.cdi.lookup import CdiDevices
from allotment.cdi.spec import ContainerEdits
from allotment.cdi.store import FolderStore
from allotment.drivers.driver import AllocatedClaim, AttributeValue, DeviceEvent, DevicePool, PreparedClaim, ReadyDevice
from allotment.drivers.host import DriverHost, FileStorage
from allotment.drivers.preparation.metadata import metadata_versions
from allotment.drivers.preparation.node_driver import NodeDriver
from allotment.kubelet_plugin.messages import ClaimRef
from allotment.model.features import Features
from allotment.model.resource import Device, DeviceAttribute
from allotment.model.trees import Tree
from tests.unit.cluster import idle
from tests.unit.cluster.memory import MemoryClient
from tests.unit.drivers.fake_driver import DRIVER, NODE, FakeDriver, memory_host, node_driver, put_claim

INSIDE = "/var/run/kubernetes.io/dra-device-attributes"


class MetadataDriver(FakeDriver):
    """GPUs with a model, and with a uuid after preparation."""

    async def discover(self) -> Sequence[DevicePool]:
        model = {"model": DeviceAttribute(string="A1"), "index": DeviceAttribute(int_=4)}
        return [DevicePool([[Device(name=name, attributes=model) for name in self.devices]])]

    async def prepare(self, claim: AllocatedClaim, plan: Tree) -> PreparedClaim:
        prepared = await super().prepare(claim, plan)
        return PreparedClaim(
            {
                key: ReadyDevice(ready.edits, ready.status_data, {"uuid": DeviceAttribute(string=f"U-{key[1]}")})
                for key, ready in prepared.devices.items()
            }
        )

    async def watch(self) -> AsyncIterator[DeviceEvent]:
        while True:
            yield await self.events.get()


class Node:
    """A driver with files on disk, and access to them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.client = MemoryClient()
        self.vendor = MetadataDriver()

    async def driver(self, *, metadata: Sequence[str] = ("v1alpha1",)) -> NodeDriver:
        plugin = self.folder / "plugin"
        storage, cdi = FileStorage(plugin / "checkpoint.json"), FolderStore(self.folder / "cdi")
        driver = node_driver(
            self.vendor, DriverHost(NODE, "boot-1", storage, cdi, plugin), self.client, metadata=metadata
        )
        await driver.recover()
        await driver.discover_pools()
        return driver

    def cdi(self) -> list[str]:
        return sorted(path.name for path in (self.folder / "cdi").glob("*"))

    def files(self) -> list[str]:
        root = self.folder / "plugin" / "dra-device-metadata"
        return sorted(str(path.relative_to(root)) for path in root.glob("**/*") if path.is_file())

    def edits(self, ids: Sequence[str]) -> ContainerEdits:
        return CdiDevices([FolderStore(self.folder / "cdi")]).edits(ids)


def objects_in(text: str) -> list[Tree]:
    """The objects of a JSON stream."""
    decoder, objects = json.JSONDecoder(), []
    while text:
        found, end = decoder.raw_decode(text)
        objects.append(found)
        text = text[end:].lstrip()
    return objects


async def prepared(driver: NodeDriver, ref: ClaimRef) -> list[tuple[str, tuple[str, ...]]]:
    answer = (await driver.prepare([ref]))[ref.uid]
    assert answer.error == ""
    return [(device.device, device.cdi_ids) for device in answer.devices]


def test_attributes_after_preparation_can_be_plain_values(tmp_path: Path) -> None:
    class Plain(MetadataDriver):
        async def prepare(self, claim: AllocatedClaim, plan: Tree) -> PreparedClaim:
            prepared = await super().prepare(claim, plan)
            values: dict[str, AttributeValue] = {"uuid": "U-1", "lanes": 16, "ecc": True}
            return PreparedClaim({key: ready._replace(attributes=values) for key, ready in prepared.devices.items()})

    async def scenario() -> None:
        node = Node(tmp_path)
        node.vendor = Plain()
        driver = await node.driver()
        answer = await prepared(driver, put_claim(node.client, "mine", "gpu-0"))
        (mount,) = node.edits(answer[0][1]).mounts
        attributes = json.loads(Path(mount.host_path).read_text())["requests"][0]["devices"][0]["attributes"]
        del attributes["model"], attributes["index"]  # those of the published device
        assert attributes == {"uuid": {"string": "U-1"}, "lanes": {"int": 16}, "ecc": {"bool": True}}

    idle.run(scenario())


def test_the_metadata_file_has_the_attributes_of_a_request_s_devices(tmp_path: Path) -> None:
    async def scenario() -> None:
        node = Node(tmp_path)
        driver = await node.driver()
        ref = put_claim(node.client, "mine", "big=gpu-0", "big=gpu-1", "small/spare=gpu-2", uid="7f0c")
        answer = await prepared(driver, ref)
        assert answer == [
            ("gpu-0", (f"k8s.{DRIVER}/claim=7f0c-gpu-0", f"{DRIVER}/metadata=7f0c_big")),
            ("gpu-1", (f"k8s.{DRIVER}/claim=7f0c-gpu-1",)),
            ("gpu-2", (f"k8s.{DRIVER}/claim=7f0c-gpu-2", f"{DRIVER}/metadata=7f0c_small")),
        ]
        assert node.cdi() == [
            f"{DRIVER}_metadata_7f0c_big.json", f"{DRIVER}_metadata_7f0c_small.json", f"k8s.{DRIVER}-claim_7f0c.json",
        ]  # fmt: skip
        (mount,) = node.edits(answer[0][1]).mounts
        assert mount.container_path == f"{INSIDE}/resourceclaims/mine/big/{DRIVER}-metadata.json"
        assert mount.options == ("ro", "bind")
        assert json.loads(Path(mount.host_path).read_text()) == {
            "apiVersion": "metadata.resource.k8s.io/v1alpha1",
            "kind": "DeviceMetadata",
            "metadata": {"name": "mine", "namespace": "shop", "uid": "7f0c", "generation": 1},
            "requests": [
                {
                    "name": "big",
                    "devices": [
                        {
                            "driver": DRIVER,
                            "pool": NODE,
                            "name": name,
                            "attributes": {"model": {"string": "A1"}, "index": {"int": 4}, "uuid": {"string": uuid}},
                        }
                        for name, uuid in (("gpu-0", "U-gpu-0"), ("gpu-1", "U-gpu-1"))
                    ],
                }
            ],
        }
        # The chosen subrequest is in the document; the path contains the request.
        (mount,) = node.edits(answer[2][1]).mounts
        assert mount.host_path.endswith("/dra-device-metadata/shop_mine/small/metadata.json")
        assert json.loads(Path(mount.host_path).read_text())["requests"][0]["name"] == "small/spare"
        cdi = json.loads((tmp_path / "cdi" / f"{DRIVER}_metadata_7f0c_big.json").read_text())
        assert (cdi["cdiVersion"], cdi["kind"]) == ("0.5.0", f"{DRIVER}/metadata")
        await driver.unprepare([ref])
        assert (node.cdi(), node.files()) == ([], [])

    idle.run(scenario())


def test_a_claim_from_a_template_is_named_as_in_the_pod(tmp_path: Path) -> None:
    async def scenario() -> None:
        node = Node(tmp_path)
        driver = await node.driver()
        ref = put_claim(node.client, "pod-1-gpus-x7k2p", "gpu-0", uid="7f0c")
        (tree,) = node.client.objects.values()
        tree["metadata"]["annotations"] = {"resource.kubernetes.io/pod-claim-name": "gpus"}
        ((_, ids),) = await prepared(driver, ref)
        (mount,) = node.edits(ids).mounts
        assert mount.container_path == f"{INSIDE}/resourceclaimtemplates/gpus/gpu/{DRIVER}-metadata.json"
        assert json.loads(Path(mount.host_path).read_text())["podClaimName"] == "gpus"

    idle.run(scenario())


@pytest.mark.parametrize("lost", ["cdi", "plugin/dra-device-metadata"])
def test_missing_files_are_rewritten_when_the_driver_starts(tmp_path: Path, lost: str) -> None:
    async def scenario() -> None:
        node = Node(tmp_path)
        ref = put_claim(node.client, "mine", "gpu-0", uid="7f0c")
        answer = await prepared(await node.driver(), ref)
        before = {path: path.read_bytes() for path in tmp_path.glob("**/*metadata*") if path.is_file()}
        assert len(before) == 2
        (tmp_path / lost).rename(tmp_path / "elsewhere")
        # Also by a driver without metadata: pods with the claim may still start.
        driver = await node.driver(metadata=())
        assert {path: path.read_bytes() for path in before} == before
        assert await prepared(driver, ref) == answer
        await driver.unprepare([ref])
        assert (node.cdi(), node.files()) == ([], [])

    idle.run(scenario())


def test_leftover_files_are_deleted_and_those_of_other_drivers_stay(tmp_path: Path) -> None:
    async def scenario() -> None:
        node = Node(tmp_path)
        ref = put_claim(node.client, "mine", "gpu-0", uid="7f0c")
        driver = await node.driver()
        await prepared(driver, ref)
        (tmp_path / "cdi" / f"{DRIVER}_metadata_dead_gpu.json").write_text("{}")
        (tmp_path / "cdi" / "gpu.other_metadata_dead_gpu.json").write_text("{}")
        orphan = tmp_path / "plugin/dra-device-metadata/shop_dead/gpu"
        orphan.mkdir(parents=True)
        (orphan / "metadata.json").write_text('{"metadata": {"uid": "dead"}}')
        (orphan.parent.parent / "shop_torn").mkdir()
        await node.driver()
        assert node.files() == ["shop_mine/gpu/metadata.json"]
        assert node.cdi() == [
            "gpu.other_metadata_dead_gpu.json", f"{DRIVER}_metadata_7f0c_gpu.json", f"k8s.{DRIVER}-claim_7f0c.json",
        ]  # fmt: skip

    idle.run(scenario())


def test_unpreparing_an_old_claim_keeps_the_files_of_a_new_one_with_the_same_name(tmp_path: Path) -> None:
    async def scenario() -> None:
        node = Node(tmp_path)
        driver = await node.driver()
        old = put_claim(node.client, "mine", "gpu-0", uid="01d")
        await prepared(driver, old)
        new = put_claim(node.client, "mine", "gpu-1", uid="2e3")
        ((_, ids),) = await prepared(driver, new)
        await driver.unprepare([old])
        (mount,) = node.edits(ids).mounts
        assert json.loads(Path(mount.host_path).read_text())["metadata"]["uid"] == "2e3"

    idle.run(scenario())


def test_a_failure_leaves_no_files(tmp_path: Path) -> None:
    async def scenario() -> None:
        node = Node(tmp_path)
        driver = await node.driver()
        ref = put_claim(node.client, "mine", "gpu-0", uid="7f0c")
        (tmp_path / "plugin").mkdir(exist_ok=True)
        (tmp_path / "plugin" / "dra-device-metadata").write_text("in the way")
        assert "in the way" not in (answer := (await driver.prepare([ref]))[ref.uid].error)
        assert answer
        assert node.cdi() == []
        assert node.vendor.in_use == {}

    idle.run(scenario())


def test_a_file_has_the_metadata_in_each_version_newest_first(tmp_path: Path) -> None:
    async def scenario() -> None:
        node = Node(tmp_path)
        driver = await node.driver(metadata=metadata_versions(Features("1.37")))
        ref = put_claim(node.client, "mine", "gpu-0", uid="7f0c")
        ((_, ids),) = await prepared(driver, ref)
        (mount,) = node.edits(ids).mounts
        first, second = objects_in(Path(mount.host_path).read_text())
        assert first["apiVersion"] == "metadata.resource.k8s.io/v1beta1"
        assert second == {**first, "apiVersion": "metadata.resource.k8s.io/v1alpha1"}
        assert first["requests"][0]["devices"][0]["attributes"]["model"] == {"string": "A1"}
        # The owner of the folder is known from the file.
        await driver.unprepare([ref])
        assert (node.cdi(), node.files()) == ([], [])

    idle.run(scenario())


def test_drivers_write_the_versions_of_their_release() -> None:
    assert {release: metadata_versions(Features(release)) for release in ("1.34", "1.36", "1.37")} == {
        "1.34": ("v1alpha1",), "1.36": ("v1alpha1",), "1.37": ("v1beta1", "v1alpha1"),
    }  # fmt: skip


def test_metadata_is_optional(tmp_path: Path) -> None:
    async def scenario() -> None:
        node = Node(tmp_path)
        driver = await node.driver(metadata=())
        ref = put_claim(node.client, "mine", "gpu-0", uid="7f0c")
        assert await prepared(driver, ref) == [("gpu-0", (f"k8s.{DRIVER}/claim=7f0c-gpu-0",))]
        assert (node.cdi(), node.files()) == ([f"k8s.{DRIVER}-claim_7f0c.json"], [])

    idle.run(scenario())


def test_metadata_requires_a_folder() -> None:
    with pytest.raises(ValueError, match="a host with a metadata directory"):
        node_driver(FakeDriver(), memory_host(), MemoryClient(), metadata=("v1alpha1",))
