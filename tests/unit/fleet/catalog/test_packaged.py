"""The packaged catalog: equality with its sources, and unknown values."""

from __future__ import annotations

import csv
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path

import pytest

from allotment.fleet.catalog import CAPACITY_TYPES, CapacityType, InstanceType, catalog, merged, read_catalog
from tests.unit.fleet.catalog.conftest import Type


def number(text: str) -> Decimal | None:
    return Decimal(text) if text else None


def test_every_row_equals_the_source(shared: Callable[[str], Path]) -> None:
    with shared("catalog/instances.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [f"{row['provider']}/{row['instance_type']}" for row in rows] == [instance.key for instance in catalog()]
    columns: dict[CapacityType, str] = {"on-demand": "on_demand_usd_per_hour", "spot": "spot_usd_per_hour"}
    for row, instance in zip(rows, catalog(), strict=True):
        assert (instance.region, instance.gpu_model, str(instance.gpus)) == (
            row["region"],
            row["gpu_model"],
            row["gpu_count"],
        )
        assert (instance.vcpu, instance.memory_gib) == (number(row["vcpu"]), number(row["memory_gib"]))
        assert instance.gpu_memory_gib == number(row["gpu_memory_gib"])
        for capacity in CAPACITY_TYPES:
            assert instance.price(capacity) == number(row[columns[capacity]])
        assert row["as_of"].startswith(instance.as_of)
        assert instance.as_of
        assert (instance.price_source, instance.spec_source) == (row["price_source"], row["spec_source"])
        assert instance.gpu_fraction == row["gpu_fraction"] or "fraction not verified" in row["notes"]
        if row["alloc_vcpu_milli"]:
            assert instance.room is not None
            assert not instance.room.estimated
            assert (instance.room.cpu_milli, instance.room.memory_mib) == (
                int(row["alloc_vcpu_milli"]),
                int(row["alloc_memory_mib"]),
            )
        if row["nvml_memory_mib"] and not instance.gpu_fraction:
            assert instance.accelerator is not None
            assert instance.accelerator.memory_mib == int(row["nvml_memory_mib"])
            assert instance.accelerator.product == row["nvml_product_name"]
            assert instance.accelerator.architecture == row["architecture"] or instance.accelerator.vendor == "amd"
            assert (instance.accelerator.mig is not None) == (row["mig_capable"] == "yes")


@pytest.mark.parametrize(
    ("name", "mib"),
    [
        ("aws/p5.48xlarge", 81559),
        ("aws/g4dn.xlarge", 15360),
        ("aws/p5en.48xlarge", 143771),
        ("aws/g7e.2xlarge", 97887),
        ("aws/g6.xlarge", 23034),
        ("aws/g5.xlarge", 23028),
        ("aws/p6-b300.48xlarge", 275040),
        ("azure/Standard_NC40ads_H100_v5", 95830),
    ],
)
def test_a_gpu_has_the_memory_that_its_driver_reports(sold: Type, name: str, mib: int) -> None:
    model = sold(name).accelerator
    assert model is not None
    assert model.memory_mib == mib


def test_prices_are_exact(sold: Type) -> None:
    assert str(sold("aws/p4d.24xlarge").price("on-demand")) == "21.957642"
    assert sold("gcp/a2-highgpu-1g").price("spot") == Decimal("1.92802")


def test_an_unknown_price_is_none_and_never_zero(sold: Type) -> None:
    # A published price list has 0.0 for this type.
    instance = sold("gcp/a4-highgpu-8g")
    assert instance.prices == ()
    assert instance.unusable == "its price is unknown"
    assert all(price > 0 for instance in catalog() for _, price in instance.prices)


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("aws/g6f.large", "only part of a GPU"),
        ("gcp/g4-standard-6", "1/8 of a GPU"),
        ("azure/Standard_NC8ads_A10_v4", "it is unknown whether it has a whole GPU"),
        ("coreweave/hgx-h100", "its vCPUs and memory are unknown"),
        ("aws/p5e.48xlarge", "price is unknown"),
    ],
)
def test_unusable_types_have_a_reason(sold: Type, name: str, why: str) -> None:
    assert why in sold(name).unusable


def test_a_spot_price_is_sufficient(sold: Type) -> None:
    (row,), _ = read_catalog("provider,instance_type,vcpu,memory_gib,spot_usd_per_hour\nus,box,4,16,0.1\n", "own.csv")
    assert (row.unusable, row.price("on-demand"), row.price("spot")) == ("", None, Decimal("0.1"))


def test_most_types_are_usable_and_every_gpu_has_a_profile() -> None:
    assert sum(not instance.unusable for instance in catalog()) >= 148
    assert [instance.key for instance in catalog() if instance.gpus and instance.accelerator is None] == []


def test_grace_is_arm(sold: Type) -> None:
    assert sold("lambda/gpu_1x_gh200").arch == "arm64"
    assert sold("lambda/gpu_1x_a10").arch == "amd64"


def test_unconfirmed_memory_is_a_bound(sold: Type) -> None:
    assert sold("lambda/gpu_1x_rtx6000").memory_bound
    assert not sold("aws/g5.xlarge").memory_bound


def overriding(text: str) -> tuple[InstanceType, ...]:
    rows, problems = read_catalog(text, "own.csv")
    assert problems == ()
    return rows


def test_a_user_row_replaces_only_its_values(sold: Type) -> None:
    own = overriding("provider,instance_type,spot_usd_per_hour\naws,p4d.24xlarge,7.5\n")
    types = {instance.key: instance for instance in merged(catalog(), own)}
    known, now = sold("aws/p4d.24xlarge"), types["aws/p4d.24xlarge"]
    assert now.prices == (("on-demand", Decimal("21.957642")), ("spot", Decimal("7.5")))
    assert (now.room, now.hardware, now.zones, now.notes) == (known.room, known.hardware, known.zones, known.notes)
    assert now.price_source == "own.csv:2"
    assert list(types) == [instance.key for instance in catalog()]


def test_a_user_row_can_set_unknown_values(sold: Type) -> None:
    own = overriding("provider,instance_type,vcpu,memory_gib\ncoreweave,hgx-h100,128,2048\n")
    now = {instance.key: instance for instance in merged(catalog(), own)}["coreweave/hgx-h100"]
    assert now.unusable == ""
    assert now.prices == sold("coreweave/hgx-h100").prices
    assert now.room is not None
    assert now.room.estimated


def test_estimated_capacity_grows_with_memory(sold: Type) -> None:
    own = overriding("provider,instance_type,memory_gib\nlambda,gpu_1x_gh200,900\n")
    known, now = (
        sold("lambda/gpu_1x_gh200"),
        {instance.key: instance for instance in merged(catalog(), own)}["lambda/gpu_1x_gh200"],
    )
    assert known.room is not None
    assert now.room is not None
    assert now.room.cpu_milli == known.room.cpu_milli
    assert now.room.memory_mib > 2 * known.room.memory_mib
    assert (now.arch, now.vcpu, now.hardware) == ("arm64", known.vcpu, known.hardware)


def test_an_unknown_type_is_added() -> None:
    columns = "provider,instance_type,region,vcpu,memory_gib,gpu_count,gpu,on_demand_usd_per_hour"
    *_, last = merged(catalog(), overriding(f"{columns}\nus,rack,,64,512,8,l40s,9\n"))
    assert (last.key, last.hardware, last.zones, last.unusable) == ("us/rack", "8xl40s", (), "")
