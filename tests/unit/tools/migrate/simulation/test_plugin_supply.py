"""Resources that device plugins allocate: counts, partitions created for each pod, and fractions of each GPU."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allotment.fleet import accelerators
from allotment.tools.migrate.plugin_requests import PluginRequest, Usage
from allotment.tools.migrate.simulation.device_kind import DeviceCount, DeviceKind, same_devices
from allotment.tools.migrate.simulation.plugin_supply import CountedSupply, DynamicMigSupply, FractionSupply

GPU, MIG = "nvidia.com/gpu", "nvidia.com/mig-1g.5gb"
A100 = accelerators()["nvidia-a100-sxm4-40gb"]
WHOLE = DeviceKind(product=A100.product)


def request(resource: str, count: int = 1, *, memory_mib: int = 0, memory_percent: int = 0) -> PluginRequest:
    usage: Usage = "fraction" if memory_mib or memory_percent else "piece" if "mig-" in resource else "whole"
    return PluginRequest(
        vendor="nvidia", usage=usage, resource=resource, count=count, profile=resource.partition("mig-")[2],
        memory_mib=memory_mib, memory_percent=memory_percent,
    )  # fmt: skip


def test_requests_are_served_together_or_not_at_all() -> None:
    supply = CountedSupply({GPU: (2, WHOLE), MIG: (1, DeviceKind(product=A100.product, profile="1g.5gb"))})
    assert supply.take([request(GPU, 2), request(MIG, 2)]) is None
    assert supply.lacks([request(GPU, 2), request(MIG, 2)]) == f"{MIG} (2 requested, 1 left)"
    assert supply.take([request(GPU, 2), request(MIG)]) is not None
    assert supply.take([request(GPU)]) is None


def test_a_gpu_is_partitioned_or_whole() -> None:
    supply = DynamicMigSupply(A100, 1, WHOLE)
    assert supply.take([request(MIG, 7)]) is not None
    assert supply.take([request(MIG)]) is None
    assert supply.take([request(GPU)]) is None
    other = DynamicMigSupply(A100, 1, WHOLE)
    assert other.take([request("nvidia.com/mig-3g.20gb", 2)]) is not None
    assert other.take([request(MIG)]) is None


@pytest.mark.parametrize(("memory", "pods"), [(5000, 3), (15360, 1), (7680, 2), (1000, 10)])
def test_shares_of_a_gpu_by_amount(memory: int, pods: int) -> None:
    supply = FractionSupply(1, 15360, "Tesla T4")
    wants = [request(GPU, memory_mib=memory)]
    assert [supply.take(wants) is not None for _ in range(pods + 1)] == [True] * pods + [False]


def test_several_fractions_come_from_several_gpus() -> None:
    assert FractionSupply(1, 15360, "Tesla T4").take([request(GPU, 2, memory_mib=100)]) is None
    assert FractionSupply(2, 15360, "Tesla T4").take([request(GPU, 2, memory_percent=50)]) is not None


@given(counts=st.lists(st.integers(1, 5), max_size=12), available=st.integers(0, 20))
def test_no_more_than_the_remaining_count_is_served(counts: list[int], available: int) -> None:
    supply = CountedSupply({GPU: (available, WHOLE)})
    allocated = [devices for count in counts if (devices := supply.take([request(GPU, count)])) is not None]
    assert sum(device.count for devices in allocated for device in devices) <= available


def test_equal_kinds_of_device() -> None:
    piece = DeviceKind(product="Tesla T4", profile="1g.5gb")
    share = DeviceKind(product="Tesla T4", shared=True)
    t4 = DeviceKind(product="Tesla T4")
    assert same_devices([DeviceCount(kind=share, count=2)], [DeviceCount(kind=share, count=1)])
    assert not same_devices([DeviceCount(kind=t4, count=2)], [DeviceCount(kind=t4, count=1)])
    assert not same_devices([DeviceCount(kind=t4, count=1)], [DeviceCount(kind=share, count=1)])
    assert not same_devices([DeviceCount(kind=t4, count=1)], [DeviceCount(kind=piece, count=1)])
    unknown = DeviceKind()  # the model before the migration is unknown
    assert same_devices([DeviceCount(kind=unknown, count=1)], [DeviceCount(kind=t4, count=1)])
    assert str(DeviceCount(kind=DeviceKind(product="NVIDIA A100-SXM4-40GB", profile="1g.5gb"), count=2)) == (
        "2 1g.5gb of A100-SXM4-40GB"
    )
