"""Visitors get only objects that they have permission to read; devices of other namespaces count as in use."""

from __future__ import annotations

from allotment.model.meta import Object
from allotment.screens.device_map import device_map
from allotment.screens.header import encoded
from allotment.screens.hypothetical_changes import Change
from allotment.screens.money import money
from allotment.screens.objects import objects
from allotment.screens.pending import pending, pending_detail
from allotment.screens.try_change import TryRequest, try_change
from allotment.screens.visibility import HIDDEN, VisitorRights, visible_to
from allotment.screens.what_if import WhatIfRequest, what_if
from allotment.watched.view import ClusterView
from tests.unit.screens.clusters import fleet, pod, request, template, view

NODE = "t4-4x-pcie-1"
TWO = request(2)
VISITOR = VisitorRights(namespaces=frozenset({"ml"}))


def cluster() -> ClusterView:
    secret: list[Object] = [template("secret-template", namespace="secret-team")]
    for number in range(3):
        secret += pod(
            f"secret-pod-{number}", f"gpu-{number}", node=NODE, owner="Job/secret-job", namespace="secret-team",
            of="secret-template",
        )  # fmt: skip
    return view(*fleet("t4-4x-pcie"), *secret, template(spec=TWO), *pod("trainer", spec=TWO))


def test_nothing_of_other_namespaces_is_in_any_screen() -> None:
    seen = visible_to(cluster(), VISITOR)
    screens = [device_map(seen), pending(seen), objects(seen), money(seen)]
    screens += [pending_detail(seen, group.id) for group in pending(seen).groups]
    screens += [what_if(seen, WhatIfRequest((Change("remove", NODE),)))]
    assert b"secret" in encoded(device_map(cluster()))
    for screen in screens:
        assert b"secret" not in encoded(screen)


def test_devices_of_others_stay_in_use() -> None:
    seen = visible_to(cluster(), VISITOR)
    assert device_map(seen).totals == device_map(cluster()).totals == {"free": 1, "in-use": 3}
    assert {holder.namespace for holder in device_map(seen).holders} == {HIDDEN}


def test_the_reason_is_the_same_without_the_names() -> None:
    group = pending(cluster()).groups[0]
    seen = visible_to(cluster(), VISITOR)
    hidden = pending(seen).groups[0]
    assert (hidden.code, hidden.count) == (group.code, group.count) == ("devices-in-use", 1)
    assert "of another namespace" in hidden.sentence or "of other namespaces" in hidden.sentence


def test_remedies_that_name_others_cannot_be_tried() -> None:
    seen = visible_to(cluster(), VISITOR)
    group = pending(seen).groups[0]
    for remedy in pending_detail(seen, group.id).remedies:
        if remedy.is_tryable:
            assert b"secret" not in encoded(try_change(seen, TryRequest(group=group.id, remedy=remedy.id)))


def test_kinds_that_may_not_be_listed_are_unread() -> None:
    seen = visible_to(cluster(), VisitorRights(kinds=frozenset({"Pod", "ResourceClaim"})))
    assert "nodes" in seen.unread
    assert {type(value).__name__ for value in seen.inputs.cluster} <= {"Pod", "ResourceClaim"}


def test_a_visitor_who_sees_everything_gets_the_same_view() -> None:
    found = cluster()
    assert visible_to(found, VisitorRights()) is found


def test_equal_visitors_share_a_view() -> None:
    found = cluster()
    assert visible_to(found, VISITOR) is visible_to(found, VisitorRights(namespaces=frozenset({"ml"})))
