"""Allocation results: order of the configuration, node selector, and copied fields."""

from __future__ import annotations

import msgspec
import pytest

from allotment.engine import Aborted, Allocated, Allocator, Inventory
from allotment.model.features import Features
from allotment.model.node_selectors import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm
from allotment.model.resource import (
    AllocationResult,
    DeviceClaimConfiguration,
    DeviceClass,
    DeviceClassConfiguration,
    DeviceTaint,
    DeviceToleration,
    OpaqueDeviceConfiguration,
    ResourceClaim,
)
from tests.unit.engine.objects import claim, class_of, device, first_of, inventory, request, slice_of


def result(made: Inventory, wanted: ResourceClaim) -> AllocationResult:
    outcome = Allocator(made).allocate("n1", [wanted])
    assert isinstance(outcome, Allocated), outcome
    return outcome.results[0]


def opaque(value: str) -> OpaqueDeviceConfiguration:
    return OpaqueDeviceConfiguration(driver="gpu.example.com", parameters={"key": value})


def with_config(wanted: ResourceClaim, *config: tuple[str, tuple[str, ...]]) -> ResourceClaim:
    entries = tuple(DeviceClaimConfiguration(requests=requests, opaque=opaque(value)) for value, requests in config)
    devices = msgspec.structs.replace(wanted.spec.devices, config=entries)
    return msgspec.structs.replace(wanted, spec=msgspec.structs.replace(wanted.spec, devices=devices))


def class_with_config(name: str, *values: str) -> DeviceClass:
    plain = class_of(name=name)
    entries = tuple(DeviceClassConfiguration(opaque=opaque(value)) for value in values)
    return msgspec.structs.replace(plain, spec=msgspec.structs.replace(plain.spec, config=entries))


def configured(kube: str) -> list[tuple[str, str, tuple[str, ...]]]:
    made = inventory(
        slice_of(device("a"), device("b")),
        classes=(class_with_config("gpu", "k1"), class_with_config("other", "k2")),
        features=Features(kube),
    )
    wanted = with_config(
        claim(request(1), request(1, name="q", class_name="other")),
        ("c1", ()),
        ("c2", ("r", "q")),
        ("c3", ("q",)),
        ("c4", ("nobody",)),
    )
    entries = result(made, wanted).devices.config
    return [(e.source, e.opaque.parameters["key"] if e.opaque else "", e.requests) for e in entries]


def test_configuration_of_classes_precedes_that_of_the_claim() -> None:
    assert configured("1.36") == [
        ("FromClass", "k1", ("r",)),
        ("FromClass", "k2", ("q",)),
        ("FromClaim", "c1", ()),
        ("FromClaim", "c2", ("r", "q")),
        ("FromClaim", "c2", ("r", "q")),
        ("FromClaim", "c3", ("q",)),
    ]


def test_from_1_37_an_entry_appears_once_and_names_no_request_if_it_applies_to_all() -> None:
    assert configured("1.37")[2:] == [("FromClaim", "c1", ()), ("FromClaim", "c2", ()), ("FromClaim", "c3", ("q",))]


def test_a_class_is_listed_once_with_all_its_requests() -> None:
    made = inventory(slice_of(device("a"), device("b")), classes=(class_with_config("gpu", "k1", "k2"),))
    config = result(made, claim(request(1), request(1, name="q"))).devices.config
    assert [e.requests for e in config] == [("r", "q"), ("r", "q")]


def test_configuration_follows_the_alternative_that_was_chosen() -> None:
    made = inventory(slice_of(device("a")), classes=(class_with_config("gpu", "k"),))
    wanted = with_config(claim(first_of((2, ""), (1, ""))), ("x", ("r/a",)), ("y", ("r/b",)), ("z", ("r",)))
    config = result(made, wanted).devices.config
    assert [(e.source, e.requests) for e in config] == [
        ("FromClass", ("r/b",)),
        ("FromClaim", ("r/b",)),
        ("FromClaim", ("r",)),
    ]


def term(key: str, *values: str) -> NodeSelector:
    requirement = NodeSelectorRequirement(key=key, operator="In", values=values)
    return NodeSelector(node_selector_terms=(NodeSelectorTerm(match_expressions=(requirement,)),))


ONLY_N1 = NodeSelector(
    node_selector_terms=(
        NodeSelectorTerm(match_fields=(NodeSelectorRequirement(key="metadata.name", operator="In", values=("n1",)),)),
    )
)


def test_node_selector_of_local_devices_is_the_node() -> None:
    wide = slice_of(device("wide"), all_nodes=True, pool="a", name="a")
    made = inventory(wide, slice_of(device("local"), pool="b", name="b"))
    assert result(made, claim(request(2))).node_selector == ONLY_N1
    assert result(made, claim(request(1))).node_selector is None


def test_a_device_that_binds_to_the_node_pins_the_claim_to_it() -> None:
    made = inventory(slice_of(device("a", binds_to_node=True), all_nodes=True, name="a"))
    assert result(made, claim(request(1))).node_selector == ONLY_N1


def test_node_selectors_of_several_devices_are_merged() -> None:
    zone, rack = term("zone", "a", "b"), term("rack", "1")
    made = inventory(
        slice_of(device("a"), selector=zone, pool="a", name="a"),
        slice_of(device("b"), selector=rack, pool="b", name="b"),
        slice_of(device("c"), selector=term("zone", "b", "a"), pool="c", name="c"),
        labels={"zone": "a", "rack": "1"},
    )
    found = result(made, claim(request(3))).node_selector
    assert found is not None
    (merged,) = found.node_selector_terms
    assert merged.match_expressions == (
        *zone.node_selector_terms[0].match_expressions,
        *rack.node_selector_terms[0].match_expressions,
    )


def test_devices_select_nodes_themselves_if_the_slice_says_so() -> None:
    elsewhere = msgspec.structs.replace(device("a"), node_name="n2")
    selecting = msgspec.structs.replace(device("b"), node_selector=term("zone", "a"))
    everywhere = msgspec.structs.replace(device("c"), all_nodes=True)
    made = inventory(slice_of(elsewhere, selecting, everywhere, per_device=True, name="s"), labels={"zone": "a"})
    found = result(made, claim(request(2)))
    assert [r.device for r in found.devices.results] == ["b", "c"]
    assert found.node_selector == term("zone", "a")


def test_several_terms_cannot_be_merged() -> None:
    two = NodeSelector(
        node_selector_terms=(*term("zone", "a").node_selector_terms, *term("rack", "1").node_selector_terms)
    )
    made = inventory(slice_of(device("a"), selector=two, name="a"), labels={"zone": "a"})
    outcome = Allocator(made).allocate("n1", [claim(request(1))])
    assert isinstance(outcome, Aborted)
    assert outcome.text == "create NodeSelector for claim c: unsupported ResourceSlice.NodeSelector with 2 terms"


def test_fields_that_a_result_copies() -> None:
    tolerations = (DeviceToleration(key="k", operator="Exists"),)
    tainted = device("a", taints=(DeviceTaint(key="k", effect="NoSchedule"),), binding_conditions=("ready",))
    made = inventory(slice_of(tainted))
    (found,) = result(made, claim(request(1, admin=True, tolerations=tolerations))).devices.results
    assert (found.tolerations, found.admin_access) == (tolerations, True)
    assert (found.binding_conditions, found.binding_failure_conditions) == (("ready",), ("failed",))
    assert (found.share_id, found.consumed_capacity) == (None, {})


@pytest.mark.parametrize(("memory", "expected"), [("3Gi", "3Gi"), ("", "10Gi")])
def test_a_share_contains_its_consumed_capacity(memory: str, expected: str) -> None:
    made = inventory(slice_of(device("a", memory="10Gi", shareable=True)))
    allocator = Allocator(made, share_id=lambda: "id")
    outcome = allocator.allocate("n1", [claim(request(1, memory=memory))])
    assert isinstance(outcome, Allocated)
    (found,) = outcome.results[0].devices.results
    assert found.share_id == "id"
    assert {name: str(amount) for name, amount in found.consumed_capacity.items()} == {"memory": expected}
