"""Reasons in new features of 1.37 that ``tests/corpus`` does not show: their gates are off, or claims compete."""

from __future__ import annotations

from msgspec.structs import replace

from allotment.engine import Inventory
from allotment.engine.cluster.node_selection import NodeFacts
from allotment.engine.diagnosis.diagnoser import diagnose
from allotment.engine.refusal import AllocationRefusal
from allotment.model.features import Features
from allotment.model.resource import Device, DeviceDerivedAttribute, ResourceClaim
from tests.unit.engine.objects import claim, class_of, device, inventory, request, slice_of

GATES = ("DRADerivedAttributes", "DRADeviceCompatibilityGroups", "DRAOptionalNodeOperations")
FEATURES = Features("1.37", dict.fromkeys(GATES, True))
PLAIN = Features("1.37")


def refused(made: Inventory, *claims: ResourceClaim) -> AllocationRefusal:
    return diagnose(made, list(claims)).headline


def grouped(name: str, *groups: str) -> Device:
    plain = device(name, draws={"card-0": "1Gi"})
    uses = tuple(replace(use, compatibility_groups=groups) for use in plain.consumes_counters)
    return replace(plain, consumes_counters=uses)


def card(*devices: Device, features: Features = FEATURES) -> Inventory:
    counters = slice_of(counters={"card-0": "40Gi"}, count=2, name="counters")
    return inventory(slice_of(*devices, count=2, name="devices"), counters, features=features)


def test_groups_while_their_gate_is_off() -> None:
    reason = refused(card(grouped("a", "x"), features=PLAIN), claim(request()))
    assert reason.code == "pool-incomplete"
    why = "1 slice has devices with compatibility groups, but the DRADeviceCompatibilityGroups feature is disabled"
    assert reason.summary == f"pool gpu.example.com/n1: {why}"
    assert not reason.changes


def test_claims_whose_devices_exclude_each_other() -> None:
    made = card(grouped("a", "x"), grouped("b", "y"))
    reason = refused(made, claim(request(), name="c1"), claim(request(), name="c2"))
    assert reason.code == "compatibility-groups-differ"
    assert "x in card-0: a; y in card-0: b" in reason.summary
    assert [change.text for change in reason.changes] == ["remove claim default/c2"]


def test_skipped_operations_while_the_gate_of_the_scheduler_is_off() -> None:
    plain = slice_of(device("a"))
    skips = replace(plain, spec=replace(plain.spec, skip_node_operations=("*",)))
    node = NodeFacts("n1", {}, frozenset({"DRAOptionalNodeOperations"}))
    reason = refused(Inventory.of(PLAIN, nodes=[node], slices=[skips], classes=[class_of()]), claim(request()))
    assert reason.code == "node-feature-missing"
    assert reason.summary.endswith("but the DRAOptionalNodeOperations feature is disabled in the scheduler")
    assert [change.remedy for change in reason.changes] == ["enable"]


def test_an_expression_that_does_not_compile() -> None:
    plain = request()
    assert plain.exactly is not None
    derived = (DeviceDerivedAttribute(name="x.io/y", expression="noSuchVariable"),)
    failing = replace(plain, exactly=replace(plain.exactly, derived_attributes=derived))
    reason = refused(inventory(slice_of(device("a")), features=FEATURES), claim(failing, match="x.io/y"))
    assert reason.code == "derived-attribute-fails"
    assert reason.summary.startswith("compile derived attribute x.io/y failed: compilation failed: ERROR")
    assert [change.text for change in reason.changes] == ["remove the derived attribute x.io/y and its constraints"]
