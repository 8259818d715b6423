"""Suggested changes are sufficient, minimal, and nearest to what was intended."""

from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import event, given

from allotment.engine.cluster.inventory import Inventory
from allotment.engine.diagnosis.cause import find_cause
from allotment.engine.diagnosis.context import SharedContext
from allotment.engine.diagnosis.diagnoser import diagnose
from allotment.engine.diagnosis.published_names import published_names
from allotment.engine.diagnosis.remedy_search import TrialBudget, smallest_change
from allotment.engine.diagnosis.scenario import Scenario
from allotment.engine.diagnosis.trial_cache import TrialCache
from allotment.engine.outcome import Allocated
from allotment.engine.refusal import AllocationRefusal, SuggestedChange
from allotment.engine.remedies import LossClass
from allotment.model.meta import ObjectMeta
from allotment.model.quantity import Quantity
from allotment.model.resource import (
    AllocationResult,
    CapacityRequirements,
    Device,
    DeviceAllocationResult,
    DeviceAttribute,
    DeviceCapacity,
    DeviceClaim,
    DeviceClass,
    DeviceRequest,
    DeviceRequestAllocationResult,
    ExactDeviceRequest,
    ResourceClaim,
    ResourceClaimSpec,
    ResourceClaimStatus,
    ResourcePool,
    ResourceSlice,
    ResourceSliceSpec,
)
from allotment.model.trees import to_tree, to_value
from tests.manifest_changes import apply_change
from tests.unit.engine.diagnosis.test_diagnosis import CLASSES, DRIVER, FEATURES, selector, situations

PRODUCT = f'device.attributes["{DRIVER}"].productName'
MEMORY = f'device.capacity["{DRIVER}"].memory'


def at_least(amount: str) -> str:
    return f'{MEMORY}.compareTo(quantity("{amount}")) >= 0'


def cards(node: str, product: str, memory: str, count: int = 2) -> ResourceSlice:
    """A node with equal cards."""
    devices = tuple(
        Device(
            name=f"gpu-{i}",
            attributes={"productName": DeviceAttribute(string=product)},
            capacity={"memory": DeviceCapacity(value=Quantity.parse(memory))},
        )
        for i in range(count)
    )
    pool = ResourcePool(name=node, generation=1, resource_slice_count=1)
    return ResourceSlice(
        metadata=ObjectMeta(name=node),
        spec=ResourceSliceSpec(driver=DRIVER, node_name=node, pool=pool, devices=devices),
    )


A100_40 = cards("a40", "NVIDIA A100-SXM4-40GB", "40Gi")
A100_80 = cards("a80", "NVIDIA A100-SXM4-80GB", "80Gi")
A100_PCIE = cards("pcie", "NVIDIA A100 80GB PCIe", "80Gi", count=4)
H100 = cards("h100", "NVIDIA H100 80GB HBM3", "81559Mi")
L4 = cards("l4", "NVIDIA L4", "23034Mi")


def wanting(*expressions: str, count: int = 1, amount: str = "") -> ResourceClaim:
    exactly = ExactDeviceRequest(
        device_class_name="gpu",
        selectors=selector(*expressions),
        allocation_mode="ExactCount",
        count=count,
        capacity=CapacityRequirements(requests={"memory": Quantity.parse(amount)}) if amount else None,
    )
    devices = DeviceClaim(requests=(DeviceRequest(name="gpu", exactly=exactly),))
    return ResourceClaim(metadata=ObjectMeta(name="c", namespace="ns"), spec=ResourceClaimSpec(devices=devices))


def holding(slice_: ResourceSlice, *devices: str) -> ResourceClaim:
    """A claim to which devices of a node are allocated."""
    results = tuple(
        DeviceRequestAllocationResult(request="r", driver=DRIVER, pool=slice_.spec.pool.name, device=device)
        for device in devices
    )
    allocation = AllocationResult(devices=DeviceAllocationResult(results=results))
    meta = ObjectMeta(name=f"of-{slice_.metadata.name}", namespace="ns")
    return ResourceClaim(metadata=meta, status=ResourceClaimStatus(allocation=allocation))


def headline(claim: ResourceClaim, *slices: ResourceSlice, held: tuple[ResourceClaim, ...] = ()) -> AllocationRefusal:
    nodes: list[tuple[str, dict[str, str]]] = [(slice_.metadata.name, {}) for slice_ in slices]
    inventory = Inventory.of(FEATURES, nodes=nodes, slices=slices, classes=CLASSES, claims=held)
    return diagnose(inventory, [claim], held).headline


def texts(refused: AllocationRefusal) -> list[str]:
    return [change.text for change in refused.changes]


@pytest.mark.parametrize(
    ("wanted", "fleet", "product"),
    [
        ("A100-80GB", (A100_40, A100_80), "NVIDIA A100-SXM4-80GB"),
        ("A100-80GB", (A100_80, A100_40, H100), "NVIDIA A100-SXM4-80GB"),
        ("a100 80gb", (A100_40, A100_PCIE), "NVIDIA A100 80GB PCIe"),
        ("NVIDIA A100-SMX4-80GB", (A100_PCIE, A100_80), "NVIDIA A100-SXM4-80GB"),
        ("A100-80GB", (A100_40, H100), "NVIDIA H100 80GB HBM3"),  # not less memory
        ("A100-40GB", (A100_80, A100_40), "NVIDIA A100-SXM4-40GB"),
    ],
)
def test_the_nearest_published_product_is_suggested(
    wanted: str, fleet: tuple[ResourceSlice, ...], product: str
) -> None:
    for order in (fleet, fleet[::-1]):
        assert texts(headline(wanting(f'{PRODUCT} == "{wanted}"'), *order)) == [f'request productName "{product}"']


def test_less_memory_than_in_the_name_is_the_last_other_product() -> None:
    refused = headline(wanting(f'{PRODUCT} == "A100-80GB"'), A100_40, L4)
    assert texts(refused) == ['request productName "NVIDIA A100-SXM4-40GB", which has less memory']


def test_any_of_the_products_that_a_name_fits_is_requested() -> None:
    (text,) = texts(headline(wanting(f'{PRODUCT} == "A100-80GB"'), A100_80, A100_PCIE))
    assert text == 'request productName "NVIDIA A100 80GB PCIe" or "NVIDIA A100-SXM4-80GB"'
    short = headline(wanting(f'{PRODUCT} == "A100"'), A100_40, A100_80, H100)
    assert texts(short) == ['test whether productName contains "A100"']
    assert short.changes[0].becomes == f'{PRODUCT}.contains("A100")'


def test_a_part_that_other_products_contain_too_is_no_test_of_the_product() -> None:
    """A100 contains A10."""
    cards_of_24 = cards("a10", "NVIDIA A10", "23028Mi"), cards("a10-pcie", "NVIDIA A10 PCIe", "23028Mi")
    (text,) = texts(headline(wanting(f'{PRODUCT} == "A10"'), A100_40, *cards_of_24))
    assert text == 'request productName "NVIDIA A10" or "NVIDIA A10 PCIe"'


def test_of_equally_near_products_the_one_with_most_free_devices_is_suggested() -> None:
    wanted = wanting(f'{PRODUCT} == "A100-64GB"')
    assert texts(headline(wanted, A100_80, A100_PCIE)) == ['request productName "NVIDIA A100 80GB PCIe"']
    held = (holding(A100_PCIE, "gpu-0", "gpu-1", "gpu-2"),)
    assert texts(headline(wanted, A100_80, A100_PCIE, held=held)) == ['request productName "NVIDIA A100-SXM4-80GB"']
    held = (holding(A100_PCIE, "gpu-0", "gpu-1"),)
    assert texts(headline(wanted, A100_80, A100_PCIE, held=held)) == ['request productName "NVIDIA A100 80GB PCIe"']


def test_memory_that_another_condition_states_is_a_lower_bound() -> None:
    refused = headline(wanting(f'{PRODUCT} == "NVIDIA A100" && {at_least("60Gi")}'), A100_40, H100)
    assert texts(refused) == ['request productName "NVIDIA H100 80GB HBM3"']


def test_a_part_of_a_product_name_is_compared_with_the_products() -> None:
    refused = headline(wanting(f'{PRODUCT}.contains("A100-80GB")'), A100_40, A100_80)
    assert texts(refused) == ['request productName "NVIDIA A100-SXM4-80GB"']


@pytest.mark.parametrize("unit", ["80GB", "80gb", "80Gb"])
def test_gigabytes_are_decimal(unit: str) -> None:
    """Both 80G and 80Gi would fit on these cards."""
    (text,) = texts(headline(wanting(at_least(unit)), A100_80))
    assert text == f"write 80G: Kubernetes has no unit {unit[2:]}"


@pytest.mark.parametrize("slice_", [L4, A100_40])
def test_gibibytes_that_no_card_has_are_the_gigabytes_of_its_name(slice_: ResourceSlice) -> None:
    """Another remedy is suggested only if no card is sold with this size."""
    (change,) = headline(wanting(at_least("24Gi"), count=1), L4).changes
    assert change.text == "request memory of at least 24G: cards sold as 24 GB have 23034Mi"
    assert change.becomes == at_least("24G")
    (change,) = headline(wanting(amount="24Gi"), L4).changes
    assert change.text == "request 24G of memory: cards sold as 24 GB have 23034Mi"
    assert change.becomes == {"requests": {"memory": "24G"}}
    (text,) = texts(headline(wanting(at_least("64Gi")), slice_))
    assert text.startswith("request memory of at least ")
    assert "64G" not in text


def test_a_share_that_is_larger_than_the_device_is_reduced_to_what_is_left() -> None:
    """The share that the device has as a whole would be available only after a wait."""
    device = Device(
        name="gpu-0", capacity={"memory": DeviceCapacity(value=Quantity.parse("24Gi"))}, allow_multiple_allocations=True
    )
    pool = ResourcePool(name="shared", generation=1, resource_slice_count=1)
    spec = ResourceSliceSpec(driver=DRIVER, node_name="shared", pool=pool, devices=(device,))
    slice_ = ResourceSlice(metadata=ObjectMeta(name="shared"), spec=spec)
    share = DeviceRequestAllocationResult(
        request="r", driver=DRIVER, pool="shared", device="gpu-0", share_id="1",
        consumed_capacity={"memory": Quantity.parse("4Gi")},
    )  # fmt: skip
    allocation = AllocationResult(devices=DeviceAllocationResult(results=(share,)))
    user = ResourceClaim(
        metadata=ObjectMeta(name="user", namespace="ns"), status=ResourceClaimStatus(allocation=allocation)
    )
    assert texts(headline(wanting(amount="56Gi"), slice_, held=(user,))) == ["request 20Gi of memory"]


def test_two_spelling_corrections_precede_a_dropped_condition() -> None:
    wanted = wanting(f'{PRODUCT} == "A100-80GB"', at_least("80GB"))
    refused = headline(wanted, A100_80)
    assert sorted(texts(refused)) == [
        'request productName "NVIDIA A100-SXM4-80GB"',
        "write 80G: Kubernetes has no unit GB",
    ]


def test_a_node_with_a_spelling_correction_precedes_a_node_with_a_dropped_condition() -> None:
    """The first node has nothing that the selector could mean."""
    unlike = cards("unlike", "NVIDIA A100-SXM4-80GB", "80Gi")
    assert unlike.spec.devices is not None
    bare = tuple(Device(name=device.name, capacity=device.capacity) for device in unlike.spec.devices)
    pool = ResourcePool(name="bare", generation=1, resource_slice_count=1)
    spec = ResourceSliceSpec(driver=DRIVER, node_name="bare", pool=pool, devices=bare)
    other = ResourceSlice(metadata=ObjectMeta(name="bare"), spec=spec)
    wanted = wanting(f'has({PRODUCT}) && {PRODUCT} == "A100-80GB"')
    assert headline(wanted, other, A100_80).node == "a80"


@given(situations())
def test_suggested_changes_are_sufficient_minimal_and_nearest(
    situation: tuple[Inventory, list[ResourceClaim], list[ResourceClaim]],
) -> None:
    inventory, pod, allocated = situation
    for node in inventory.nodes:
        scenario = Scenario(
            features=inventory.features,
            node=node,
            labels={},
            slices=tuple(inventory.slices.values()),
            classes=inventory.classes,
            allocated=tuple(allocated),
            claims=tuple(pod),
        )
        shared = SharedContext(published_names(scenario.slices), TrialCache())
        if isinstance(shared.trials(scenario), Allocated):
            continue
        cause = find_cause(scenario, shared)
        found = smallest_change(scenario, cause, shared)
        for candidate in cause.candidates:
            if isinstance(shared.trials(candidate.edit(scenario)), Allocated):
                assert found.distance <= candidate.distance
                assert found.changes
        if not found.changes or not all(change.object for change in found.changes):
            event("no change, or none that is written into an object")
            continue
        event(f"{len(found.changes)} changes, loss {LossClass(found.distance.loss).name}")
        assert fits_with(scenario, found.changes)
        for number in range(len(found.changes)):
            for part in combinations(found.changes, number):
                assert not fits_with(scenario, part), part


def fits_with(scenario: Scenario, changes: tuple[SuggestedChange, ...]) -> bool:
    """Whether the claims fit after the changes are made in the objects; false if one of them cannot be made."""
    claims = [to_tree(c, "v1", "ResourceClaim") for c in scenario.claims]
    held = [to_tree(c, "v1", "ResourceClaim") for c in scenario.allocated]
    classes = [to_tree(c, "v1", "DeviceClass") for c in scenario.classes.values()]
    if not all(apply_change([*claims, *held, *classes], change) for change in changes):
        return False
    changed = Scenario(
        features=scenario.features,
        node=scenario.node,
        labels={},
        slices=scenario.slices,
        classes={tree["metadata"]["name"]: to_value(tree, DeviceClass) for tree in classes},
        allocated=tuple(c for tree in held if (c := to_value(tree, ResourceClaim)).status.allocation is not None),
        claims=tuple(to_value(tree, ResourceClaim) for tree in claims),
    )
    return isinstance(TrialCache()(changed), Allocated)


def test_a_spent_budget_leaves_reasons_without_changes() -> None:
    scenario = Scenario(
        features=FEATURES,
        node="a40",
        labels={},
        slices=(A100_40,),
        classes={class_.metadata.name: class_ for class_ in CLASSES},
        allocated=(),
        claims=(wanting(f'{PRODUCT} == "A100-80GB"'),),
    )
    shared = SharedContext(published_names(scenario.slices), TrialCache())
    cause = find_cause(scenario, shared)
    budget = TrialBudget(1)
    assert smallest_change(scenario, cause, shared, budget).changes
    assert not smallest_change(scenario, cause, shared, budget).changes
