"""What an answer does not know about a cluster is said, and only where it matters."""

from __future__ import annotations

import pytest

from allotment.model.core import Pod, PodSchedulingGroup, PodSpec
from allotment.model.meta import Object
from allotment.model.resource import ResourceSlice
from allotment.model.server_facts import ServerFacts
from allotment.tools.unread import unread_notes, unread_resources

SERVED: dict[str, tuple[str, ...]] = {"resourceclaims": ("v1",), "resourceslices": ("v1",)}
GROUPED = Pod(spec=PodSpec(scheduling_group=PodSchedulingGroup(pod_group_name="g")))


@pytest.mark.parametrize(
    ("objects", "expected"),
    [
        ((), {}),
        ((ResourceSlice(),), {"devicetaintrules": "not served"}),
        ((Pod(),), {}),
        ((GROUPED,), {"podgroups": "not served"}),
    ],
    ids=["nothing", "devices", "a pod without a group", "a pod of a group"],
)
def test_a_kind_that_is_not_served_is_reported_if_it_matters(
    objects: tuple[Object, ...], expected: dict[str, str]
) -> None:
    assert unread_resources((*objects, ServerFacts(served=SERVED))) == expected
    served = {**SERVED, "devicetaintrules": ("v1",), "podgroups": ("v1beta1",)}
    assert unread_resources((*objects, ServerFacts(served=served))) == {}


def test_without_facts_nothing_is_known_to_be_missing() -> None:
    assert unread_resources((ResourceSlice(), GROUPED)) == {}
    assert unread_resources((ResourceSlice(), ServerFacts(unread={"served": "not in the snapshot"}))) == {}


def test_only_what_the_answer_needs_is_reported() -> None:
    facts = ServerFacts(served=SERVED, unread={"gates": "forbidden", "events": "forbidden", "pods": "forbidden"})
    assert unread_resources((facts,), ("pods", "nodes")) == {"pods": "forbidden"}
    assert unread_resources((facts,)) == {"events": "forbidden", "pods": "forbidden"}
    assert unread_notes(unread_resources((facts,))) == (
        "not readable and therefore ignored: events and pods (forbidden)",
    )
