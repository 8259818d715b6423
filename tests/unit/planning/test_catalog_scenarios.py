"""Typical autoscaler scenarios on the packaged catalog, compared with checking every type."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

import pytest

from allotment.engine.allocator import allocate
from allotment.engine.cluster.inventory import Inventory
from allotment.engine.outcome import Allocated
from allotment.fleet.catalog import catalog
from allotment.fleet.catalog.instance_type import InstanceType
from allotment.fleet.catalog.templates import template_of
from allotment.fleet.device_classes import CLASSES
from allotment.fleet.errors import FleetError
from allotment.model.meta import Object, ObjectKey
from allotment.model.resource import ResourceClaim
from allotment.planning.limits import PlanLimits
from tests.unit.planning.demands import FEATURES, MIG, claim, claim_template, make_plan, pods, request

AMPERE = (
    'device.attributes["gpu.nvidia.com"].architecture == "Ampere" && '
    'device.capacity["gpu.nvidia.com"].memory.isGreaterThan(quantity("20Gi"))'
)
SLICE = 'device.attributes["gpu.nvidia.com"].profile == "1g.5gb"'


def cheapest(claims: Sequence[ResourceClaim], provider: str, modes: Sequence[str] = ("",)) -> Decimal:
    """The price of the cheapest type of a provider that holds all claims, by checking every type."""
    prices = []
    for type_ in catalog():
        price = type_.price("on-demand")
        if type_.provider == provider and price and type_.room and any(_holds(type_, mode, claims) for mode in modes):
            prices.append(price)
    return min(prices)


def _holds(instance_type: InstanceType, mode: str, claims: Sequence[ResourceClaim]) -> bool:
    if instance_type.unusable or instance_type.arch != "amd64":
        return False
    try:
        template = template_of(instance_type, mode, "node")
    except FleetError:
        return False
    inventory = Inventory.of(FEATURES, nodes=[("node", {})], slices=template.slices, classes=CLASSES["nvidia"])
    for number, each in enumerate(claims):
        outcome = allocate(inventory, "node", [each])
        if not isinstance(outcome, Allocated):
            return False
        inventory.allocate(ObjectKey("ml", str(number)), outcome.results[0])
    return True


@pytest.mark.parametrize(
    ("provider", "key", "usd"),
    [
        ("aws", "aws/g5.xlarge", "1.006"),
        ("gcp", "gcp/a2-highgpu-1g", "3.673385"),
        ("lambda", "lambda/gpu_1x_a6000", "1.09"),
    ],
)
def test_ampere_with_more_than_20gi_gets_the_cheapest_type(provider: str, key: str, usd: str) -> None:
    values = [claim_template("gpu", request(AMPERE)), *pods(1, template="gpu")]
    found = make_plan(values, catalog(), PlanLimits(providers=(provider,)))
    assert [machine.instance for machine in found.machines] == [key]
    assert found.total == found.bound == Decimal(usd) == cheapest([claim("c", request(AMPERE))], provider)


@pytest.mark.parametrize("strategy", ["TimeSlicing", "MPS"])
@pytest.mark.parametrize("provider", ["aws", "gcp", "lambda", "azure"])
def test_three_pods_share_one_gpu(provider: str, strategy: str) -> None:
    shared = claim("gpu", request(AMPERE), config=[
        {"opaque": {"driver": "gpu.nvidia.com", "parameters": {
            "apiVersion": "resource.nvidia.com/v1beta1", "kind": "GpuConfig", "sharing": {"strategy": strategy}}}}
    ])  # fmt: skip
    values: list[Object] = [shared, *pods(3, claim="gpu", cpu="500m")]
    found = make_plan(values, catalog(), PlanLimits(providers=(provider,)))
    assert [len(machine.placements) for machine in found.machines] == [3]
    assert found.total == cheapest([shared], provider)
    devices = {
        device.device
        for placement in found.machines[0].placements
        for each in placement.claims
        for device in each.devices
    }
    assert devices == {"gpu-0"}


@pytest.mark.parametrize(("provider", "usd"), [("aws", "21.957642"), ("gcp", "3.673385")])
def test_seven_partitions_of_5gb_share_one_gpu(provider: str, usd: str) -> None:
    values = [claim_template("slice", request(SLICE, of=MIG)), *pods(7, template="slice", cpu="250m")]
    found = make_plan(values, catalog(), PlanLimits(providers=(provider,)))
    assert (
        found.total
        == Decimal(usd)
        == cheapest([claim(str(n), request(SLICE, of=MIG)) for n in range(7)], provider, ("static-mig=1g.5gb:7",))
    )
    assert found.total == found.bound
    assert len(found.machines) == 1
    assert found.machines[0].layout[0] == ("1g.5gb",) * 7


@pytest.mark.parametrize(
    ("model", "amount", "fits"),
    [
        ("Tesla T4", "16Gi", False),
        ("Tesla T4", "15Gi", True),
        ("NVIDIA H100 80GB HBM3", "80Gi", False),
        ("NVIDIA H100 80GB HBM3", "79Gi", True),
        ("NVIDIA H200", "141Gi", False),
        ("NVIDIA A10G", "23000Mi", True),
        ("NVIDIA L4", "22.4Gi", True),
        ("NVIDIA L40S", "44.9Gi", True),
    ],
)
def test_memory_is_the_figure_of_the_driver(model: str, amount: str, fits: bool) -> None:
    requested = request(
        f'device.attributes["gpu.nvidia.com"].productName == "{model}"',
        f'device.capacity["gpu.nvidia.com"].memory.compareTo(quantity("{amount}")) >= 0',
    )
    found = make_plan([claim_template("gpu", requested), *pods(1, template="gpu")], catalog())
    assert [pod.code for pod in found.unserved] == ([] if fits else ["never"])
