"""NVIDIA's driver with the kubelet's own code for drivers, without a GPU: simulated, and over a stub of NVML."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Final

import pytest

from allotment.drivers.publishing.publisher import SIMULATED
from allotment.fleet.device_classes import CLASSES
from allotment.fleet.nvidia import DRIVER
from allotment.model.trees import to_tree
from bench.real_kube import ApiServer
from tests.kube.host import (
    NODE,
    RESOURCES,
    Host,
    add_template,
    control_plane_with_node,
    request,
    running_host,
    short_folder,
)
from tests.nvml import library, machine
from tests.nvml.library import A100

ALLOT: Final = ("allotment.cli.main", "driver", "run", "nvidia")
SMALL: Final = "1g.5gb"
#: The number of such devices that fit on an A100 with 40 GB.
PODS: Final = tuple(f"small-{number}" for number in range(7))


@pytest.fixture(scope="module")
def kube() -> Iterator[ApiServer]:
    with control_plane_with_node([to_tree(item) for item in CLASSES["nvidia"]]) as found:
        profile = f"device.attributes['{DRIVER}'].profile == '{SMALL}'"
        small = {"deviceClassName": "mig.nvidia.com", "selectors": [{"cel": {"expression": profile}}]}
        add_template(found, SMALL, small)
        yield found


Node = Callable[..., AbstractContextManager[Host]]


@pytest.fixture
def node(kube: ApiServer) -> Iterator[Node]:
    """Starts a node with kubelet and driver."""
    with short_folder() as folder:
        yield partial(running_host, kube, folder=folder)


def test_seven_pods_share_one_simulated_gpu_across_driver_restarts(node: Node) -> None:
    with node((*ALLOT, "--simulate", "a100-40gb/dynamic-mig")) as host:
        for pod in PODS[:4]:
            host.start_pod(pod, SMALL)
        given = {pod: host.wait_prepared(pod) for pod in PODS[:4]}
        host.stop("driver", signal.SIGKILL)
        host.start("driver")
        for pod in PODS[4:]:
            host.start_pod(pod, SMALL)
        given |= {pod: host.wait_prepared(pod) for pod in PODS[4:]}

        assert len({device for devices in given.values() for device in devices}) == len(PODS)
        claims = request(host.kube, "GET", f"{RESOURCES}/namespaces/default/resourceclaims")["items"]
        for claim in claims:
            (result,) = claim["status"]["allocation"]["devices"]["results"]
            (pod,) = (item["name"] for item in claim["status"]["reservedFor"])
            assert given[pod] == [f"k8s.{DRIVER}/claim={claim['metadata']['uid']}-{result['device']}"]
            assert result["device"].startswith("gpu-0-mig-1g5gb-19-")
            assert claim["status"]["devices"][0]["data"]["uuid"].startswith("MIG-")
        for slice_ in host.slices(DRIVER):
            assert slice_["metadata"]["labels"] == {SIMULATED: "true"}

        # The eighth waits until one has ended and its device has been created again.
        host.start_pod("eighth", SMALL)
        host.delete_pod(PODS[0])
        host.wait_unprepared(PODS[0])
        (device,) = host.wait_prepared("eighth")
        assert device.partition("-gpu-")[2] == given[PODS[0]][0].partition("-gpu-")[2]
        # Nothing in these edits would keep a container runtime from starting a container.
        for spec in host.specs():
            for edits in (spec["containerEdits"], *(device["containerEdits"] for device in spec["devices"])):
                assert set(edits) == {"env"}
        assert "SIMULATED" in (host.folder / "driver.err").read_text()
    assert host.specs() == []


def test_a_pod_with_a_whole_gpu_of_a_simulated_node(node: Node, kube: ApiServer) -> None:
    with node((*ALLOT, "--simulate", "8xa100-40gb")) as host:
        host.start_pod("train", "gpu.nvidia.com")
        (device,) = host.wait_prepared("train")
        (spec,) = host.specs()
        assert device == f"{spec['kind']}={spec['devices'][0]['name']}"
        container = host.inject([device])
        assert set(container["process"]["env"]) == {
            "NVIDIA_VISIBLE_DEVICES=void", "ALLOTMENT_SIMULATED=gpu.nvidia.com 8xa100-40gb",
            f"ALLOTMENT_SIMULATED_{NODE.upper()}_GPU_0={NODE}/gpu-0",
        }  # fmt: skip
        assert "linux" not in container
        assert "hooks" not in container


# --- the driver over NVML ---------------------------------------------------------------------------------------------


@pytest.fixture
def nvml(tmp_path: Path) -> Callable[[Path, bool], dict[str, str]]:
    """Installs the NVML stub with one A100 under a folder; returns the environment variables for it."""
    compiled = library.compiled(tmp_path)

    def install(folder: Path, mig: bool) -> dict[str, str]:
        host = machine.build(folder, compiled)
        host.gpu(A100, 7, "GPU-7", mig=mig)
        for instance in range(1, 17):
            host.capability(0, f"gi{instance}", 2 * instance + 1)
            host.capability(0, f"gi{instance}/ci0", 2 * instance + 2)
        return library.preset(folder, [(A100, 7, "GPU-7", mig)])

    return install


def test_a_gpu_found_by_nvml_is_injected_with_its_device_nodes_and_libraries(
    node: Node, nvml: Callable[[Path, bool], dict[str, str]], tmp_path: Path
) -> None:
    variables = nvml(tmp_path / "host", False)
    root = tmp_path / "host" / "driver"
    with node((*ALLOT, "--driver-root", str(root)), environment=variables) as host:
        host.start_pod("train", "gpu.nvidia.com")
        (device,) = host.wait_prepared("train")
        assert device.endswith("-gpu-0")
        (published,) = host.slices(DRIVER)
        assert "labels" not in published["metadata"]
        (found,) = published["spec"]["devices"]
        assert found["attributes"]["productName"] == {"string": "NVIDIA A100-SXM4-40GB"}
        (spec,) = host.specs()
        assert [node["path"] for node in spec["devices"][0]["containerEdits"]["deviceNodes"]] == ["/dev/nvidia0"]
        mounts = {mount["containerPath"]: mount["hostPath"] for mount in spec["containerEdits"]["mounts"]}
        cuda = f"usr/lib/x86_64-linux-gnu/libcuda.so.{machine.VERSION}"
        assert mounts[f"/{cuda}"] == str(root / cuda)


def test_mig_devices_created_by_nvml_survive_a_killed_driver(
    node: Node, nvml: Callable[[Path, bool], dict[str, str]], tmp_path: Path
) -> None:
    variables = nvml(tmp_path / "host", True)
    # Not `allot driver run`: the kernel describes MIG in /proc, where a test cannot add files.
    with node(("tests.nvml.driver_program", str(tmp_path / "host"), "dynamic-mig"), environment=variables) as host:
        for pod in PODS[:4]:
            host.start_pod(pod, SMALL)
        given = {pod: host.wait_prepared(pod) for pod in PODS[:4]}
        created = library.instances(variables)
        assert len(created) == 4
        host.stop("driver", signal.SIGKILL)
        host.start("driver")
        for pod in PODS[4:]:
            host.start_pod(pod, SMALL)
        given |= {pod: host.wait_prepared(pod) for pod in PODS[4:]}
        assert created < library.instances(variables)
        assert len({device for devices in given.values() for device in devices}) == len(PODS)
        claims = request(host.kube, "GET", f"{RESOURCES}/namespaces/default/resourceclaims")["items"]
        uuids = {claim["status"]["devices"][0]["data"]["uuid"] for claim in claims}
        assert uuids == library.instances(variables)
        for spec in host.specs():
            nodes = [node["path"] for node in spec["devices"][0]["containerEdits"]["deviceNodes"]]
            assert nodes[0] == "/dev/nvidia0"
            assert sum(path.startswith("/dev/nvidia-caps/nvidia-cap") for path in nodes) == 2
    assert library.instances(variables) == frozenset()
