"""Our driver framework and the kubelet's own code for drivers, with AMD's driver.

The driver is ``allot driver run amd`` as a user starts it, on a folder with what the kernel shows of eight MI300X.
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
from tests.kube.host import NODE, RESOURCES, Host, ask, real_plane, running, short_folder

_ALLOT: Final = ("allotment.cli.main", "driver", "run", "amd")


@pytest.fixture(scope="module")
def kube() -> Iterator[ApiServer]:
    with real_plane([to_tree(one) for one in CLASSES["amd"]]) as found:
        yield found


@pytest.fixture
def host(kube: ApiServer) -> Iterator[Host]:
    """A node whose kubelet and driver run."""
    machine = hardware("mi300x-8x-oam")
    with short_folder() as folder:
        write_tree(gpus_of(machine, NODE, parse_mode("", machine)), folder / "root", machine.accelerator.gfx, 8)
        with running(kube, (*_ALLOT, "--driver-root", str(folder / "root")), folder) as found:
            yield found


def test_the_kubelet_registers_the_driver_and_gives_its_devices_to_containers(host: Host) -> None:
    host.start_pod("train", DRIVER)
    (device,) = host.prepared("train")
    (published,) = host.slices(DRIVER)
    assert len(published["spec"]["devices"]) == 8
    assert published["metadata"]["ownerReferences"][0]["name"] == NODE
    (spec,) = host.specs()
    assert device in [f"{spec['kind']}={one['name']}" for one in spec["devices"]]
    (claim,) = ask(host.kube, "GET", f"{RESOURCES}/namespaces/default/resourceclaims")["items"]
    (result,) = claim["status"]["allocation"]["devices"]["results"]
    assert (result["driver"], result["pool"]) == (DRIVER, NODE)
    host.delete_pod("train")
    host.ended("train")
    assert host.specs() == []


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL], ids=["ended", "killed"])
def test_a_driver_that_went_and_came_back_serves_again(host: Host, how: signal.Signals) -> None:
    host.start_pod("before", DRIVER)
    host.prepared("before")
    (published,) = host.slices(DRIVER)
    assert host.stop("driver", how) == (0 if how == signal.SIGTERM else -signal.SIGKILL)
    host.start("driver")
    host.start_pod("after", DRIVER)
    host.prepared("after")
    assert len(host.specs()) == 2
    (now,) = host.slices(DRIVER)
    assert now["metadata"]["resourceVersion"] == published["metadata"]["resourceVersion"]
    host.delete_pod("before")
    host.ended("before")
    assert len(host.specs()) == 1


def test_a_kubelet_that_was_killed_finds_what_is_prepared_in_its_checkpoint(host: Host) -> None:
    host.start_pod("train", DRIVER)
    device = host.prepared("train")
    host.stop("kubelet")
    host.start("kubelet")
    # It asks for all claims again, and lists what it is answered behind what its checkpoint has.
    assert set(host.prepared("train", times=2)) == set(device)
    host.delete_pod("train")
    host.ended("train")
    assert host.specs() == []


def test_what_ended_while_the_kubelet_was_away_is_given_back(host: Host) -> None:
    host.start_pod("train", DRIVER)
    host.prepared("train")
    host.stop("kubelet")
    host.delete_pod("train")
    host.start("kubelet")
    host.ended("train")
    assert host.specs() == []


def test_a_pod_whose_driver_is_away_waits_and_starts_when_it_is_back(host: Host) -> None:
    host.start_pod("first", DRIVER)
    host.prepared("first")
    host.stop("driver", signal.SIGTERM)
    host.start_pod("second", DRIVER)
    host.until(lambda: any(DRIVER in one.get("error", "") for one in host.told("second")))
    host.start("driver")
    assert host.prepared("second")
