"""Allotment's driver framework with the kubelet's own code for drivers, with AMD's driver.

The driver is ``allot driver run amd``, on a folder with the kernel's files for eight MI300X.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from typing import Final

import pytest

from allotment.drivers.amd.simulated.sysfs_tree import write_tree
from allotment.fleet import hardware, parse_mode
from allotment.fleet.amd import DRIVER, gpus_of
from allotment.fleet.device_classes import CLASSES
from allotment.model.trees import to_tree
from bench.real_kube import ApiServer
from tests.kube.host import NODE, RESOURCES, Host, control_plane_with_node, request, running_host, short_folder

_ALLOT: Final = ("allotment.cli.main", "driver", "run", "amd")


@pytest.fixture(scope="module")
def kube() -> Iterator[ApiServer]:
    with control_plane_with_node([to_tree(item) for item in CLASSES["amd"]]) as found:
        yield found


@pytest.fixture
def host(kube: ApiServer) -> Iterator[Host]:
    """A node whose kubelet and driver run."""
    machine = hardware("mi300x-8x-oam")
    with short_folder() as folder:
        write_tree(gpus_of(machine, NODE, parse_mode("", machine)), folder / "root", machine.accelerator.gfx, 8)
        with running_host(kube, (*_ALLOT, "--driver-root", str(folder / "root")), folder) as found:
            yield found


def test_the_kubelet_registers_the_driver_and_injects_its_devices(host: Host) -> None:
    host.start_pod("train", DRIVER)
    (device,) = host.wait_prepared("train")
    (published,) = host.slices(DRIVER)
    assert len(published["spec"]["devices"]) == 8
    assert published["metadata"]["ownerReferences"][0]["name"] == NODE
    (spec,) = host.specs()
    assert device in [f"{spec['kind']}={device['name']}" for device in spec["devices"]]
    (claim,) = request(host.kube, "GET", f"{RESOURCES}/namespaces/default/resourceclaims")["items"]
    (result,) = claim["status"]["allocation"]["devices"]["results"]
    assert (result["driver"], result["pool"]) == (DRIVER, NODE)
    host.delete_pod("train")
    host.wait_unprepared("train")
    assert host.specs() == []


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL], ids=["ended", "killed"])
def test_a_restarted_driver_serves_again(host: Host, how: signal.Signals) -> None:
    host.start_pod("before", DRIVER)
    host.wait_prepared("before")
    (published,) = host.slices(DRIVER)
    assert host.stop("driver", how) == (0 if how == signal.SIGTERM else -signal.SIGKILL)
    host.start("driver")
    host.start_pod("after", DRIVER)
    host.wait_prepared("after")
    assert len(host.specs()) == 2
    (now,) = host.slices(DRIVER)
    assert now["metadata"]["resourceVersion"] == published["metadata"]["resourceVersion"]
    host.delete_pod("before")
    host.wait_unprepared("before")
    assert len(host.specs()) == 1


def test_a_restarted_kubelet_finds_prepared_claims_in_its_checkpoint(host: Host) -> None:
    host.start_pod("train", DRIVER)
    device = host.wait_prepared("train")
    host.stop("kubelet")
    host.start("kubelet")
    # The kubelet prepares all claims again and appends the answers to the entries of its checkpoint.
    assert set(host.wait_prepared("train", times=2)) == set(device)
    host.delete_pod("train")
    host.wait_unprepared("train")
    assert host.specs() == []


def test_claims_of_pods_deleted_while_the_kubelet_was_down_are_unprepared(host: Host) -> None:
    host.start_pod("train", DRIVER)
    host.wait_prepared("train")
    host.stop("kubelet")
    host.delete_pod("train")
    host.start("kubelet")
    host.wait_unprepared("train")
    assert host.specs() == []


def test_a_pod_starts_once_its_driver_runs_again(host: Host) -> None:
    host.start_pod("first", DRIVER)
    host.wait_prepared("first")
    host.stop("driver", signal.SIGTERM)
    host.start_pod("second", DRIVER)
    host.wait_for(lambda: any(DRIVER in event.get("error", "") for event in host.pod_events("second")))
    host.start("driver")
    assert host.wait_prepared("second")
