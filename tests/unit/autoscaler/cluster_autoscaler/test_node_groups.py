"""Node groups of the catalog, and machine names that contain the group."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allotment.autoscaler.cluster_autoscaler.node_groups import (
    InvalidNodeGroups,
    NodeGroup,
    NodeGroupSpec,
    group_in,
    groups_of,
    parse_nodes,
)
from allotment.fleet.catalog import catalog
from allotment.planning.limits import PlanLimits

EAST = PlanLimits(zones=("us-east-1a",))


def groups(*texts: str, limits: PlanLimits = EAST) -> tuple[NodeGroup, ...]:
    return groups_of(catalog(), [parse_nodes(text) for text in texts], limits)


def test_each_type_and_zone_has_a_group() -> None:
    found = groups("0:3:aws/g5.xlarge", limits=PlanLimits())
    zones = next(instance for instance in catalog() if instance.key == "aws/g5.xlarge").zones
    assert [group.zone for group in found] == list(zones)
    assert len({group.id for group in found}) == len({group.name for group in found}) == len(zones) > 1
    assert {(group.least, group.most) for group in found} == {(0, 3)}
    assert all(group.price > 0 for group in found)


def test_a_pattern_selects_all_matching_types() -> None:
    found = groups("1:2:aws/g4dn.*")
    assert len(found) > 3
    assert {group.instance.name.partition(".")[0] for group in found} == {"g4dn"}


def test_spot_and_on_demand_are_separate_groups() -> None:
    with_spot = next(
        instance
        for instance in catalog()
        if instance.price("spot") and instance.price("on-demand") and not instance.unusable
    )
    found = groups(f"0:1:{with_spot.key}", limits=PlanLimits(zones=with_spot.zones[:1], capacity="cheapest"))
    assert {group.capacity_type: group.price for group in found} == dict(with_spot.prices)


def test_another_mode_is_another_group() -> None:
    whole, cut = groups("0:1:aws/p4d.24xlarge", "0:1:aws/p4d.24xlarge/static-mig=1g.5gb:7")
    assert cut.id == "aws/p4d.24xlarge/static-mig=1g.5gb:7/us-east-1a/on-demand"
    assert whole.name != cut.name
    devices = [device.name for slice_ in cut.template("n", "1.36").slices for device in slice_.spec.devices or ()]
    assert len(devices) == 56
    assert all("mig-1g5gb" in name for name in devices)


def test_the_first_of_duplicate_groups_takes_precedence() -> None:
    (found,) = groups("2:4:aws/g5.xlarge", "0:9:aws/g5.xlarge")
    assert (found.least, found.most) == (2, 4)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("aws/g5.xlarge", "expected MIN:MAX:PROVIDER/TYPE"),
        ("0:x:aws/g5.xlarge", "expected MIN:MAX:PROVIDER/TYPE"),
        ("0:3:g5.xlarge", "expected MIN:MAX:PROVIDER/TYPE"),
        ("3:1:aws/g5.xlarge", "MIN must not exceed MAX, found 3:1"),
        ("0:9999999999:aws/g5.xlarge", "MAX must not exceed 2147483647"),
        ("0:1:aws/g5.xlrge", "no instance type in the catalog matches aws/g5.xlrge"),
        ("0:1:aws/g5.xlarge/static-mig=1g.5gb:7", "static-mig"),
    ],
)
def test_invalid_groups_are_rejected(text: str, message: str) -> None:
    with pytest.raises(InvalidNodeGroups, match=message):
        groups(text)


def test_a_misspelt_type_has_a_hint() -> None:
    with pytest.raises(InvalidNodeGroups) as caught:
        groups("0:1:aws/g5.xlrge")
    assert "aws/g5.xlarge" in caught.value.hint


def test_a_type_without_a_price_has_no_group() -> None:
    unknown = next(instance for instance in catalog() if not instance.prices)
    with pytest.raises(InvalidNodeGroups, match="cannot make a node group"):
        groups(f"0:1:{unknown.key}", limits=PlanLimits())


def test_texts() -> None:
    assert parse_nodes("0:4:gcp/*") == NodeGroupSpec(0, 4, "gcp/*")


@given(st.integers(), st.sampled_from(groups("0:3:aws/*", "0:3:aws/p4d.24xlarge/dynamic-mig")))
def test_the_group_is_derived_from_the_machine_name(seed: int, group: NodeGroup) -> None:
    name = group.new_name(Random(seed))
    assert group_in(name) == group.name
    assert len(name) <= 63
    assert name == name.lower()


@pytest.mark.parametrize("name", ["", "t4-1", "g5-xlarge-05ced461", "ip-10-0-0-1.ec2.internal"])
def test_foreign_names_belong_to_no_group(name: str) -> None:
    assert group_in(name) not in {group.name for group in groups("0:3:aws/*")}
