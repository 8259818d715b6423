"""Lists and pages of objects: states, references in both directions, what happened to them."""

from __future__ import annotations

from dataclasses import replace as replace_fields

import pytest

import allotment
from allotment.errors import InputError
from allotment.explanation import lines
from allotment.screens.object_page import ObjectPage, object_page
from allotment.screens.objects import objects
from allotment.screens.pending import pending
from allotment.watched.view import ClusterView
from tests.unit.screens.clusters import CREATED, WORLDS, fleet, pod, request, template, view, world

NODE = "t4-4x-pcie-1"
BIG = request(9)


def cluster() -> ClusterView:
    return view(
        *fleet("t4-4x-pcie"),
        template(),
        template("big", BIG),
        *pod("web-0", "gpu-1", node=NODE, owner="StatefulSet/web"),
        *pod("web-1", of="big", spec=BIG, owner="StatefulSet/web"),
    )


def relations(page: ObjectPage, *, incoming: bool = False) -> set[tuple[str, str, str, str]]:
    found = page.referred_by if incoming else page.refers_to
    return {(each.relation, each.kind, each.namespace, each.name) for each in found}


@pytest.mark.parametrize("name", WORLDS[::4])
def test_every_listed_object_has_a_page(name: str) -> None:
    found = world(name)
    for item in objects(found).items:
        page = object_page(found, item.kind, item.namespace, item.name)
        assert page.state == item.state
        for relation in (*page.refers_to, *page.referred_by):
            assert relation.relation


def test_all_kinds_are_listed_with_their_number() -> None:
    counts = {each.kind: each.count for each in objects(cluster()).kinds}
    assert counts == {
        "pod": 2, "workload": 1, "claim": 2, "template": 2, "class": 5, "node": 1, "device": 4, "pool": 1, "slice": 1
    }  # fmt: skip


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("kind:pod", ["web-0", "web-1"]),
        ("kind:pod pending", ["web-1"]),
        ("state:in-use", ["gpu-1"]),
        ("ns:ml web-1", ["web-1", "web-1-gpu-x1"]),
        ("nothing-like-it", []),
    ],
)
def test_a_search_finds_names_and_states(query: str, names: list[str]) -> None:
    found = objects(cluster(), query)
    assert [item.name for item in found.items] == names
    assert found.matching == len(names)


def test_a_pod_refers_to_its_claims_node_and_workload() -> None:
    page = object_page(cluster(), "pod", "ml", "web-0")
    assert relations(page) == {
        ("belongs to", "workload", "ml", "StatefulSet/web"),
        ("runs on", "node", "", NODE),
        ("gets claims from", "template", "ml", "gpu"),
        ("uses", "claim", "ml", "web-0-gpu-x1"),
    }
    assert page.state == "Running"


def test_a_device_is_referred_to_by_its_claim() -> None:
    page = object_page(cluster(), "device", NODE, "gpu-1")
    assert page.state == "in-use"
    assert ("has", "claim", "ml", "web-0-gpu-x1") in relations(page, incoming=True)
    assert ("is on", "node", "", NODE) in relations(page)


def test_a_pending_pod_has_the_sentence_of_explain_and_its_group() -> None:
    found = cluster()
    page = object_page(found, "pod", "ml", "web-1")
    explanation = allotment.explain(cluster=found.cluster, name="pod/web-1", namespace="ml")
    assert page.sentence == lines(explanation, width=10_000)[0]
    assert page.group == pending(found).groups[0].id
    assert page.state == "Pending: too-few-devices"


def test_a_workload_counts_its_pods_even_if_it_was_not_read() -> None:
    page = object_page(cluster(), "workload", "ml", "StatefulSet/web")
    assert page.state == "1 of 2 pods placed"
    assert ("belongs to", "pod", "ml", "web-0") in relations(page, incoming=True)
    assert page.group


def test_a_pool_has_its_slices() -> None:
    page = object_page(cluster(), "pool", "gpu.nvidia.com", NODE)
    assert {fact.name: fact.value for fact in page.facts} == {"generation": "1", "slices": "1 of 1", "devices": "4"}
    assert page.state == "usable"


def test_a_pool_that_kubernetes_ignores_says_why() -> None:
    found = world("pool-incomplete")
    (item,) = (item for item in objects(found).items if item.kind == "pool")
    assert item.state.startswith("incomplete: ")


def test_events_are_part_of_the_timeline() -> None:
    event = {
        "involvedObject": {"kind": "Pod", "namespace": "ml", "name": "web-1"},
        "reason": "FailedScheduling",
        "message": "0/1 nodes are available",
        "lastTimestamp": "2026-01-01T00:05:00Z",
        "source": {"component": "default-scheduler"},
    }
    found = replace_fields(cluster(), events=(event,))
    page = object_page(found, "pod", "ml", "web-1")
    assert [(each.time, each.source, each.reason) for each in page.timeline] == [
        (CREATED, "object", "Created"),
        ("2026-01-01T00:05:00Z", "default-scheduler", "FailedScheduling"),
    ]
    assert object_page(found, "pod", "ml", "web-0").timeline[-1].reason == "Created"


@pytest.mark.parametrize("kind", ["pod", "device", "pool", "workload", "node", "nonsense"])
def test_unknown_objects_are_errors(kind: str) -> None:
    with pytest.raises(InputError):
        object_page(cluster(), kind, "ml", "unknown")


def test_names_that_look_like_markup_are_only_text() -> None:
    found = objects(cluster(), "<script>alert(1)</script>")
    assert found.items == ()
