"""What device plugins hand out: numbers, pieces cut as pods come, amounts of each GPU."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allotment.fleet import accelerators
from allotment.tools.migrate.plugin_requests import Ask, Sort
from allotment.tools.migrate.simulation.device_kind import DeviceKind, Got, alike
from allotment.tools.migrate.simulation.plugin_supply import Counted, Cut, Fractions

GPU, MIG = "nvidia.com/gpu", "nvidia.com/mig-1g.5gb"
A100 = accelerators()["nvidia-a100-sxm4-40gb"]
WHOLE = DeviceKind(product=A100.product)


def ask(resource: str, count: int = 1, *, memory_mib: int = 0, memory_percent: int = 0) -> Ask:
    sort: Sort = "fraction" if memory_mib or memory_percent else "piece" if "mig-" in resource else "whole"
    return Ask(
        vendor="nvidia", sort=sort, resource=resource, count=count, profile=resource.partition("mig-")[2],
        memory_mib=memory_mib, memory_percent=memory_percent,
    )  # fmt: skip


def test_all_of_it_or_nothing() -> None:
    supply = Counted({GPU: (2, WHOLE), MIG: (1, DeviceKind(product=A100.product, profile="1g.5gb"))})
    assert supply.take([ask(GPU, 2), ask(MIG, 2)]) is None
    assert supply.lacks([ask(GPU, 2), ask(MIG, 2)]) == f"{MIG} (2 wanted, 1 left)"
    assert supply.take([ask(GPU, 2), ask(MIG)]) is not None
    assert supply.take([ask(GPU)]) is None


def test_a_gpu_is_cut_or_whole() -> None:
    supply = Cut(A100, 1, WHOLE)
    assert supply.take([ask(MIG, 7)]) is not None
    assert supply.take([ask(MIG)]) is None
    assert supply.take([ask(GPU)]) is None
    other = Cut(A100, 1, WHOLE)
    assert other.take([ask("nvidia.com/mig-3g.20gb", 2)]) is not None
    assert other.take([ask(MIG)]) is None


@pytest.mark.parametrize(("memory", "pods"), [(5000, 3), (15360, 1), (7680, 2), (1000, 10)])
def test_amounts_of_a_gpu(memory: int, pods: int) -> None:
    supply = Fractions(1, 15360, "Tesla T4")
    wants = [ask(GPU, memory_mib=memory)]
    assert [supply.take(wants) is not None for _ in range(pods + 1)] == [True] * pods + [False]


def test_several_parts_are_of_several_gpus() -> None:
    assert Fractions(1, 15360, "Tesla T4").take([ask(GPU, 2, memory_mib=100)]) is None
    assert Fractions(2, 15360, "Tesla T4").take([ask(GPU, 2, memory_percent=50)]) is not None


@given(counts=st.lists(st.integers(1, 5), max_size=12), there=st.integers(0, 20))
def test_no_more_is_given_than_there_is(counts: list[int], there: int) -> None:
    supply = Counted({GPU: (there, WHOLE)})
    given_out = [got for count in counts if (got := supply.take([ask(GPU, count)])) is not None]
    assert sum(one.count for got in given_out for one in got) <= there


def test_kinds_that_are_alike() -> None:
    piece = DeviceKind(product="Tesla T4", profile="1g.5gb")
    share = DeviceKind(product="Tesla T4", shared=True)
    t4 = DeviceKind(product="Tesla T4")
    assert alike([Got(kind=share, count=2)], [Got(kind=share, count=1)])
    assert not alike([Got(kind=t4, count=2)], [Got(kind=t4, count=1)])
    assert not alike([Got(kind=t4, count=1)], [Got(kind=share, count=1)])
    assert not alike([Got(kind=t4, count=1)], [Got(kind=piece, count=1)])
    assert alike([Got(kind=DeviceKind(), count=1)], [Got(kind=t4, count=1)])  # nobody told the model before
    assert str(Got(kind=DeviceKind(product="NVIDIA A100-SXM4-40GB", profile="1g.5gb"), count=2)) == (
        "2 1g.5gb of A100-SXM4-40GB"
    )
