"""New features of the allocator of 1.37: derived attributes, compatibility groups, skipped node operations.

The recordings cover their combinations (``tests/vectors``); here each rule has its own test.
"""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from msgspec.structs import replace

from allotment.engine import AbortCause, Aborted, Allocated, Allocator, Inventory, Unfit
from allotment.engine.cluster.node_selection import NodeFacts
from allotment.engine.search.verdict import Solution
from allotment.model.features import Features
from allotment.model.meta import ObjectKey
from allotment.model.resource import Device, DeviceDerivedAttribute, DeviceRequest, ResourceClaim, ResourceSlice
from tests.unit.engine.objects import claim, class_of, device, devices_of, holding, inventory, request, slice_of

GATES = ("DRADerivedAttributes", "DRADeviceCompatibilityGroups", "DRAListTypeAttributes", "DRAOptionalNodeOperations")
FEATURES = Features("1.37", dict.fromkeys(GATES, True))
PLAIN = Features("1.37")
NUMA = "example.com/numa"


def allocated(made: Inventory, *claims: ResourceClaim) -> list[list[str]]:
    """The names of the allocated devices per claim; fails if the claims are not allocated."""
    outcome = Allocator(made).allocate("n1", claims)
    assert isinstance(outcome, Allocated), outcome
    return devices_of(outcome.results)


def aborted(made: Inventory, *claims: ResourceClaim) -> Aborted:
    outcome = Allocator(made).allocate("n1", claims)
    assert isinstance(outcome, Aborted), outcome
    return outcome


# --- derived attributes -----------------------------------------------------------------------------------------------


def deriving(of: DeviceRequest, expression: str, name: str = NUMA) -> DeviceRequest:
    """The request with a derived attribute."""
    assert of.exactly is not None
    derived = (DeviceDerivedAttribute(name=name, expression=expression),)
    return replace(of, exactly=replace(of.exactly, derived_attributes=derived))


def gpus_and_nics(features: Features = FEATURES) -> Inventory:
    """The drivers publish the NUMA node under different names and types."""
    return inventory(
        slice_of(device("gpu-0", numa=0), device("gpu-1", numa=1)),
        slice_of(device("nic-0", node="1"), driver="nic.example.com"),
        classes=(
            class_of('device.driver == "gpu.example.com"'),
            class_of('device.driver == "nic.example.com"', name="nic"),
        ),
        features=features,
    )


GPU = deriving(request(name="gpu"), 'device.attributes["gpu.example.com"].numa')
NIC = deriving(request(name="nic", class_name="nic"), 'int(device.attributes["nic.example.com"].node)')


def test_devices_of_two_drivers_match_in_derived_values() -> None:
    assert allocated(gpus_and_nics(), claim(GPU, NIC, match=NUMA)) == [["gpu-1", "nic-0"]]


def test_an_integer_does_not_match_text() -> None:
    nic = deriving(request(name="nic", class_name="nic"), 'device.attributes["nic.example.com"].node')
    assert isinstance(Allocator(gpus_and_nics()).allocate("n1", [claim(GPU, nic, match=NUMA)]), Unfit)


def test_a_request_without_a_definition_uses_the_published_attribute() -> None:
    nic = deriving(request(name="nic", class_name="nic"), 'int(device.attributes["nic.example.com"].node)', _OWN)
    assert allocated(gpus_and_nics(), claim(request(name="gpu"), nic, match=_OWN)) == [["gpu-1", "nic-0"]]


_OWN = "gpu.example.com/numa"


def test_an_empty_list_meets_no_constraint() -> None:
    empty = deriving(request(), "[]")
    assert isinstance(Allocator(gpus_and_nics()).allocate("n1", [claim(empty, match=NUMA)]), Unfit)


def test_an_expression_that_fails_ends_the_attempt() -> None:
    failing = deriving(request(), 'device.attributes["gpu.example.com"].slot')
    outcome = aborted(gpus_and_nics(), claim(failing, match=NUMA))
    device_id = "gpu.example.com/n1/gpu-0"
    assert outcome.text == f"evaluate derived attribute {NUMA} on device {device_id} failed: no such key: slot"
    assert (outcome.cause, outcome.fatal, str(outcome.device)) == (AbortCause.DERIVED_ATTRIBUTE, True, device_id)


def test_an_expression_that_does_not_compile_ends_the_attempt() -> None:
    outcome = aborted(gpus_and_nics(), claim(deriving(request(), "1.5"), match=NUMA))
    assert outcome.text.startswith(f"compile derived attribute {NUMA} failed: must evaluate to a primitive scalar")


def test_an_expression_is_not_evaluated_on_devices_that_an_earlier_constraint_excludes() -> None:
    made = inventory(slice_of(device("gpu-0"), device("gpu-1", numa=1, slot=1)), features=FEATURES)
    failing = deriving(request(), 'device.attributes["gpu.example.com"].slot')
    constrained = claim(failing, match="gpu.example.com/numa")
    constraints = (*constrained.spec.devices.constraints, *claim(match=NUMA).spec.devices.constraints)
    devices = replace(constrained.spec.devices, constraints=constraints)
    both = replace(constrained, spec=replace(constrained.spec, devices=devices))
    assert allocated(made, both) == [["gpu-1"]]


def test_derived_attributes_are_refused_while_their_gate_is_off() -> None:
    outcome = aborted(gpus_and_nics(PLAIN), claim(GPU, NIC, match=NUMA))
    why = "cannot handle request with derived attributes, the feature is disabled"
    assert (outcome.text, outcome.cause) == (f"claim default/c, request gpu: {why}", AbortCause.FEATURE_OFF)


def test_1_36_does_not_know_derived_attributes() -> None:
    assert isinstance(Allocator(gpus_and_nics(Features("1.36"))).allocate("n1", [claim(GPU, NIC, match=NUMA)]), Unfit)


def test_an_expression_is_evaluated_once_per_value_that_it_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    from allotment.cel import DerivedAttribute, DeviceInput
    from allotment.model.resource import DeviceAttribute

    evaluated = []
    evaluate = DerivedAttribute.evaluate

    def counting(self: DerivedAttribute, input: DeviceInput) -> DeviceAttribute:
        evaluated.append(input.device.name)
        return evaluate(self, input)

    monkeypatch.setattr(DerivedAttribute, "evaluate", counting)
    slices = [
        slice_of(*(device(f"gpu-{i}", numa=i // 4, uuid=f"{node}-{i}") for i in range(8)), node=node)
        for node in ("n1", "n2", "n3")
    ]
    made = inventory(*slices, nodes=("n1", "n2", "n3"), features=FEATURES)
    allocator = Allocator(made)
    for node in made.nodes:
        allocator.allocate(node, [claim(replace(GPU, name="r"), match=NUMA)])
    assert len(evaluated) == 2


# --- compatibility groups ---------------------------------------------------------------------------------------------


def grouped(name: str, *groups: str, card: str = "card-0") -> Device:
    """A device that consumes 1Gi of a card."""
    plain = device(name, draws={card: "1Gi"})
    uses = tuple(replace(use, compatibility_groups=groups) for use in plain.consumes_counters)
    return replace(plain, consumes_counters=uses)


def card(*devices: Device, features: Features = FEATURES) -> Inventory:
    """The devices of one card."""
    counters = slice_of(counters={"card-0": "40Gi", "card-1": "40Gi"}, count=2, name="counters")
    return inventory(slice_of(*devices, count=2, name="devices"), counters, features=features)


@pytest.mark.parametrize(
    ("devices", "chosen"),
    [
        ((grouped("a", "x"), grouped("b", "y"), grouped("c", "x", "z")), ["a", "c"]),
        ((grouped("a"), grouped("b", "y"), grouped("c")), ["a", "c"]),
        ((grouped("a", "x"), grouped("b", "y", card="card-1")), ["a", "b"]),
        # a and b have x in common, b and c have y, but all three nothing.
        ((grouped("a", "x"), grouped("b", "x", "y"), grouped("c", "y")), ["a", "b"]),
    ],
)
def test_devices_of_a_card_have_a_group_in_common(devices: Sequence[Device], chosen: list[str]) -> None:
    assert allocated(card(*devices), claim(request(2))) == [chosen]


def test_groups_are_common_to_all_devices() -> None:
    made = card(grouped("a", "x"), grouped("b", "x", "y"), grouped("c", "y"))
    assert isinstance(Allocator(made).allocate("n1", [claim(request(3))]), Unfit)


def test_allocated_devices_exclude_others_by_their_groups() -> None:
    made = card(grouped("a", "x"), grouped("b", "y"), grouped("c"), grouped("d", "y", "x"))
    made.allocate(ObjectKey("ns", "other"), holding("a"))
    assert allocated(made, claim(request(1))) == [["d"]]
    made.free(ObjectKey("ns", "other"))
    assert allocated(made, claim(request(1))) == [["a"]]


def test_allocated_devices_that_disagree_admit_only_the_later_state() -> None:
    """Two devices without a common group can be allocated only if their slice changed afterwards."""
    made = card(grouped("a", "x"), grouped("b", "y"), grouped("c", "x", "y"), grouped("d"))
    made.allocate(ObjectKey("ns", "other"), holding("a", "b"))
    assert isinstance(Allocator(made).allocate("n1", [claim(request(1))]), Unfit)


def test_a_planned_solution_counts_in_the_next_state() -> None:
    made = card(grouped("a", "x"), grouped("b", "y"), grouped("c", "x"))
    wanted = [claim(request(1))]
    cache = Allocator(made).cache_for(wanted)
    view = made.view("n1")
    before = view.state(made.usage)
    first = cache.verdict_in(view, before)
    made.allocate(ObjectKey("default", "c"), holding("a"))
    assert isinstance(first, Solution)
    assert cache.state_after(view, before, first) == view.state(made.usage)


def test_slices_with_groups_are_ignored_while_the_gate_is_off() -> None:
    made = card(grouped("a", "x"), grouped("b"), features=PLAIN)
    assert isinstance(Allocator(made).allocate("n1", [claim(request(1))]), Unfit)
    outcome = aborted(made, claim(request(0)))
    assert outcome.text.endswith("resource pool gpu.example.com/n1 is currently being updated")


def test_1_36_does_not_know_compatibility_groups() -> None:
    assert allocated(card(grouped("a", "x"), grouped("b", "y"), features=Features("1.36")), claim(request(2))) == [
        ["a", "b"]
    ]


def test_a_search_among_many_incompatible_devices_ends_early() -> None:
    """Ten of two kinds exclude each other, so eleven devices are impossible: decided by counting, without a search."""
    devices = [grouped(f"a{i}", "x", f"x{i}") for i in range(10)] + [grouped(f"b{i}", "y", f"y{i}") for i in range(10)]
    made = card(*devices)
    outcome = Allocator(made, step_limit=50).allocate("n1", [claim(request(11))])
    assert isinstance(outcome, Unfit)


# --- skipped node operations ------------------------------------------------------------------------------------------


def skipping(*features: str, of: Features = FEATURES) -> Inventory:
    """A node with these declared features, and a slice that skips all operations."""
    plain = slice_of(device("a"))
    skips = replace(plain, spec=replace(plain.spec, skip_node_operations=("*",)))
    node = NodeFacts("n1", {}, frozenset(features))
    return Inventory.of(of, nodes=[node], slices=[skips], classes=[class_of()])


def test_a_node_must_declare_that_operations_can_be_skipped() -> None:
    assert isinstance(Allocator(skipping()).allocate("n1", [claim(request())]), Unfit)
    assert allocated(skipping("DRAOptionalNodeOperations"), claim(request())) == [["a"]]


def test_all_lists_devices_that_the_node_does_not_support() -> None:
    other: ResourceSlice = slice_of(device("b"), pool="other", name="other")
    made = skipping()
    made.put_slice(other)
    assert isinstance(Allocator(made).allocate("n1", [claim(request(0))]), Unfit)


def test_the_result_has_the_skipped_operations() -> None:
    outcome = Allocator(skipping("DRAOptionalNodeOperations")).allocate("n1", [claim(request())])
    assert isinstance(outcome, Allocated)
    assert outcome.results[0].devices.results[0].skip_node_operations == ("*",)


def test_a_node_that_declares_the_feature_later_is_tried_again() -> None:
    made = skipping()
    allocator = Allocator(made)
    assert isinstance(allocator.allocate("n1", [claim(request())]), Unfit)
    made.put_node("n1", {}, ("DRAOptionalNodeOperations",))
    assert isinstance(allocator.allocate("n1", [claim(request())]), Allocated)


def test_the_scheduler_refuses_skipped_operations_while_its_gate_is_off() -> None:
    assert isinstance(
        Allocator(skipping("DRAOptionalNodeOperations", of=PLAIN)).allocate("n1", [claim(request())]), Unfit
    )
    assert allocated(skipping(of=Features("1.36")), claim(request())) == [["a"]]


# --- shares -----------------------------------------------------------------------------------------------------------


def test_a_share_without_amounts_has_consumed_the_counters_from_1_37() -> None:
    shared = device("a", draws={"card-0": "30Gi"}, shareable=True)
    for features, fits in ((Features("1.36"), False), (PLAIN, True)):
        made = card(shared, features=features)
        made.allocate(ObjectKey("ns", "other"), holding("a", share_id="1"))
        assert isinstance(Allocator(made).allocate("n1", [claim(request())]), Allocated) is fits
