"""Allocatable resources by the published rules of cloud providers."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allotment.fleet.catalog import catalog, merged, read_catalog, template_of
from allotment.fleet.catalog.allocatable import Disk, disk_of, estimated_capacity
from allotment.fleet.catalog.csv_format import to_csv

SIZES = st.decimals(1, 400, places=0)


@pytest.mark.parametrize(
    ("provider", "cpus", "gib", "milli"),
    [
        # GKE: 60 + 10 + 2 × 5 + 2.5 for each core above four
        ("gcp", 1, 4, 940),
        ("gcp", 2, 8, 1930),
        ("gcp", 4, 16, 3920),
        ("gcp", 8, 32, 7910),
        # AKS: its table by number of cores
        ("azure", 1, 4, 940),
        ("azure", 2, 8, 1900),
        ("azure", 4, 16, 3860),
        ("azure", 8, 32, 7820),
        ("azure", 16, 64, 15740),
        ("azure", 64, 256, 63260),
        # unknown: as GKE
        ("lambda", 8, 32, 7910),
    ],
)
def test_reserved_cpu(provider: str, cpus: int, gib: int, milli: int) -> None:
    assert estimated_capacity(provider, Decimal(cpus), Decimal(gib)).cpu_milli == milli


def test_reserved_memory() -> None:
    # 3 % for the kernel; then 25 % of 4 GiB, 20 % of 4, 10 % of the rest up to 16, and 100 MiB before eviction.
    mib = Decimal(16 * 1024) * 97 / 100
    kept = 1024 + Decimal("819.2") + (mib - 8192) / 10 + 100
    assert estimated_capacity("gcp", Decimal(4), Decimal(16)).memory_mib == int(mib - kept)
    # 20 MB for each of 110 pods and 50 MB, but at most a quarter.
    assert estimated_capacity("azure", Decimal(24), Decimal(220)).memory_mib == int(
        220 * 1024 * Decimal("0.97") - Decimal(2250 * 10**6) / 2**20 - 100
    )
    assert estimated_capacity("azure", Decimal(2), Decimal(4)).memory_mib == int(4096 * Decimal("0.97") * 3 / 4 - 100)


@given(st.sampled_from(["gcp", "azure", "us"]), SIZES, SIZES)
def test_the_estimate_is_below_the_size_and_grows_with_it(provider: str, cpus: Decimal, gib: Decimal) -> None:
    room, more = estimated_capacity(provider, cpus, gib), estimated_capacity(provider, cpus + 1, gib + 1)
    assert 0 < room.cpu_milli < cpus * 1000
    assert 0 < room.memory_mib < gib * 1024
    assert (more.cpu_milli, more.memory_mib) > (room.cpu_milli, room.memory_mib)
    assert room.estimated


@pytest.mark.parametrize(
    ("provider", "mib"),
    [
        # 20 GiB, a tenth of it kept free and 1 GiB for the kubelet
        ("aws", 17 * 1024),
        # 100 GB, of which GKE keeps 6 GiB and 35 %, and a tenth is kept free
        ("gcp", 46308),
        # 128 GiB, of which the file system uses 3 %
        ("azure", 114425),
        # unknown: the minimum
        ("us", 17 * 1024),
    ],
)
def test_disk_that_pods_write_to(provider: str, mib: int) -> None:
    instance = next(iter(read_catalog(f"provider,instance_type,vcpu,memory_gib\n{provider},box,8,64", "own.csv")[0]))
    assert disk_of(instance) == Disk(mib, estimated=True)


def test_a_catalog_can_state_the_disk_size() -> None:
    instance = next(iter(read_catalog("provider,instance_type,ephemeral_gib\naws,g5.xlarge,200", "own.csv")[0]))
    assert disk_of(instance) == Disk(200 * 1024, estimated=False)
    g5 = next(known for known in merged(catalog(), (instance,)) if known.key == "aws/g5.xlarge")
    assert g5.room is not None
    allocatable = template_of(g5, "", "node").node.status.allocatable
    assert str(allocatable["ephemeral-storage"]) == "200Gi"
    assert disk_of(next(iter(read_catalog(to_csv((g5,)), "own.csv")[0]))) == Disk(200 * 1024, estimated=False)
