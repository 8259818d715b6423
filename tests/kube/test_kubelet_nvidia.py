"""NVIDIA's driver and the kubelet's own code for drivers, without a GPU: simulated, and over a stand-in for NVML."""

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
from tests.kube.host import NODE, RESOURCES, Host, add_template, ask, real_plane, running, short_folder
from tests.nvml import library, machine
from tests.nvml.library import A100

ALLOT: Final = ("allotment.cli.main", "driver", "run", "nvidia")
SMALL: Final = "1g.5gb"
#: So many of them fit on an A100 with 40 GB.
PODS: Final = tuple(f"small-{number}" for number in range(7))


@pytest.fixture(scope="module")
def kube() -> Iterator[ApiServer]:
    with real_plane([to_tree(one) for one in CLASSES["nvidia"]]) as found:
        profile = f"device.attributes['{DRIVER}'].profile == '{SMALL}'"
        small = {"deviceClassName": "mig.nvidia.com", "selectors": [{"cel": {"expression": profile}}]}
        add_template(found, SMALL, small)
        yield found


Node = Callable[..., AbstractContextManager[Host]]


@pytest.fixture
def node(kube: ApiServer) -> Iterator[Node]:
    """Starts a node whose kubelet and driver run."""
    with short_folder() as folder:
        yield partial(running, kube, folder=folder)


def test_seven_pods_share_one_simulated_gpu_whatever_happens_to_the_driver(node: Node) -> None:
    with node((*ALLOT, "--simulate", "a100-40gb/dynamic-mig")) as host:
        for pod in PODS[:4]:
            host.start_pod(pod, SMALL)
        given = {pod: host.prepared(pod) for pod in PODS[:4]}
        host.stop("driver", signal.SIGKILL)
        host.start("driver")
        for pod in PODS[4:]:
            host.start_pod(pod, SMALL)
        given |= {pod: host.prepared(pod) for pod in PODS[4:]}

        assert len({device for devices in given.values() for device in devices}) == len(PODS)
        claims = ask(host.kube, "GET", f"{RESOURCES}/namespaces/default/resourceclaims")["items"]
        for claim in claims:
            (result,) = claim["status"]["allocation"]["devices"]["results"]
            (pod,) = (one["name"] for one in claim["status"]["reservedFor"])
            assert given[pod] == [f"k8s.{DRIVER}/claim={claim['metadata']['uid']}-{result['device']}"]
            assert result["device"].startswith("gpu-0-mig-1g5gb-19-")
            assert claim["status"]["devices"][0]["data"]["uuid"].startswith("MIG-")
        for one in host.slices(DRIVER):
            assert one["metadata"]["labels"] == {SIMULATED: "true"}

        # The eighth waits until one has ended, and its device is made anew.
        host.start_pod("eighth", SMALL)
        host.delete_pod(PODS[0])
        host.ended(PODS[0])
        (device,) = host.prepared("eighth")
        assert device.partition("-gpu-")[2] == given[PODS[0]][0].partition("-gpu-")[2]
        # Nothing of this would keep a container runtime from starting a container.
        for spec in host.specs():
            for edits in (spec["containerEdits"], *(one["containerEdits"] for one in spec["devices"])):
                assert set(edits) == {"env"}
        assert "SIMULATED" in (host.folder / "driver.err").read_text()
    assert host.specs() == []


def test_a_pod_with_a_whole_gpu_of_a_simulated_node(node: Node, kube: ApiServer) -> None:
    with node((*ALLOT, "--simulate", "8xa100-40gb")) as host:
        host.start_pod("train", "gpu.nvidia.com")
        (device,) = host.prepared("train")
        (spec,) = host.specs()
        assert device == f"{spec['kind']}={spec['devices'][0]['name']}"
        container = host.injected([device])
        assert set(container["process"]["env"]) == {
            "NVIDIA_VISIBLE_DEVICES=void", "ALLOTMENT_SIMULATED=gpu.nvidia.com 8xa100-40gb",
            f"ALLOTMENT_SIMULATED_{NODE.upper()}_GPU_0={NODE}/gpu-0",
        }  # fmt: skip
        assert "linux" not in container
        assert "hooks" not in container


# --- the driver's own way to its hardware -----------------------------------------------------------------------------


@pytest.fixture
def nvml(tmp_path: Path) -> Callable[[Path, bool], dict[str, str]]:
    """Installs NVML's stand-in, with one A100, under a folder; the variables that a process needs for it."""
    compiled = library.compiled(tmp_path)

    def install(folder: Path, mig: bool) -> dict[str, str]:
        host = machine.build(folder, compiled)
        host.gpu(A100, 7, "GPU-7", mig=mig)
        for instance in range(1, 17):
            host.capability(0, f"gi{instance}", 2 * instance + 1)
            host.capability(0, f"gi{instance}/ci0", 2 * instance + 2)
        return library.preset(folder, [(A100, 7, "GPU-7", mig)])

    return install


def test_a_gpu_found_by_nvml_comes_to_a_container_with_its_nodes_and_libraries(
    node: Node, nvml: Callable[[Path, bool], dict[str, str]], tmp_path: Path
) -> None:
    variables = nvml(tmp_path / "host", False)
    root = tmp_path / "host" / "driver"
    with node((*ALLOT, "--driver-root", str(root)), environment=variables) as host:
        host.start_pod("train", "gpu.nvidia.com")
        (device,) = host.prepared("train")
        assert device.endswith("-gpu-0")
        (published,) = host.slices(DRIVER)
        assert "labels" not in published["metadata"]
        (found,) = published["spec"]["devices"]
        assert found["attributes"]["productName"] == {"string": "NVIDIA A100-SXM4-40GB"}
        (spec,) = host.specs()
        assert [one["path"] for one in spec["devices"][0]["containerEdits"]["deviceNodes"]] == ["/dev/nvidia0"]
        mounts = {one["containerPath"]: one["hostPath"] for one in spec["containerEdits"]["mounts"]}
        cuda = f"usr/lib/x86_64-linux-gnu/libcuda.so.{machine.VERSION}"
        assert mounts[f"/{cuda}"] == str(root / cuda)


def test_mig_devices_made_by_nvml_outlive_a_driver_that_is_killed(
    node: Node, nvml: Callable[[Path, bool], dict[str, str]], tmp_path: Path
) -> None:
    variables = nvml(tmp_path / "host", True)
    # Not `allot driver run`: what the kernel tells of MIG is in /proc, and nobody can put anything there.
    with node(("tests.nvml.driven", str(tmp_path / "host"), "dynamic-mig"), environment=variables) as host:
        for pod in PODS[:4]:
            host.start_pod(pod, SMALL)
        given = {pod: host.prepared(pod) for pod in PODS[:4]}
        made = library.instances(variables)
        assert len(made) == 4
        host.stop("driver", signal.SIGKILL)
        host.start("driver")
        for pod in PODS[4:]:
            host.start_pod(pod, SMALL)
        given |= {pod: host.prepared(pod) for pod in PODS[4:]}
        assert made < library.instances(variables)
        assert len({device for devices in given.values() for device in devices}) == len(PODS)
        claims = ask(host.kube, "GET", f"{RESOURCES}/namespaces/default/resourceclaims")["items"]
        uuids = {claim["status"]["devices"][0]["data"]["uuid"] for claim in claims}
        assert uuids == library.instances(variables)
        for spec in host.specs():
            nodes = [one["path"] for one in spec["devices"][0]["containerEdits"]["deviceNodes"]]
            assert nodes[0] == "/dev/nvidia0"
            assert sum(path.startswith("/dev/nvidia-caps/nvidia-cap") for path in nodes) == 2
    assert library.instances(variables) == frozenset()
