"""The texts of conditions and events."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from allotment.engine.refusal import AllocationRefusal, Diagnosis, SuggestedChange
from allotment.explanation import messages
from allotment.node_fit.filters import run_filters
from allotment.node_fit.nodes import NodeCache
from allotment.scheduler.reporting import fit_error, resource_shortage
from allotment.scheduler.reporting.reporter import condition_patch
from tests.unit.scheduler.machines import assigned_pod, nodes_named, requirements_of, tree_of
from tests.unit.scheduler.world import node


def test_fit_error_matches_kubernetes() -> None:
    after = fit_error.post_filter_message(fit_error.STILL_NOT, 4, {fit_error.NOT_HELPFUL: 4})
    reasons_ = {"cannot allocate all claims": 3, "invalid resource pools were encountered": 1}
    assert fit_error.fit_error_message(4, reasons_, after=after) == (
        "0/4 nodes are available: 1 invalid resource pools were encountered, 3 cannot allocate all claims. "
        "still not schedulable, preemption: 0/4 nodes are available: 4 Preemption is not helpful for scheduling."
    )


_BEGINNINGS = ("", "  nearest miss: ", "  to make it fit", "    ", "      ", "  alternative ")
_LINES = st.builds(str.__add__, st.sampled_from(_BEGINNINGS), st.text(max_size=300))


@given(st.lists(_LINES, max_size=20), st.text(min_size=1, max_size=1200))
def test_event_stays_within_its_size_limit_and_keeps_first_and_last_line(reasons: list[str], words: str) -> None:
    note = messages.event_note(reasons, words)
    assert len(note.encode()) <= messages.EVENT_BYTES
    if len(words.encode()) <= 600:
        assert note.endswith(words)
        if reasons and len(reasons[0].encode()) < 300:
            assert note.startswith(reasons[0])


def test_event_keeps_the_fix_and_the_nearest_miss_rather_than_the_search_steps() -> None:
    way = [f"      {n}  device.attributes['gpu.example.com'].model == 'a-long-name-of-a-model'" for n in range(40)]
    remedy = ["  to make it fit on a: request 1 device", "    ResourceClaim ns/c", "    spec:", "      1"]
    reasons = [
        "3 devices requested; the node has 1 (too-few-devices)",
        *way,
        "  nearest miss: gpu-0",
        *remedy,
        "  b: no",
    ]
    words = "0/2 nodes are available: 2 cannot allocate all claims."
    noted = messages.event_note(reasons, words).splitlines()
    first, some = noted[0], noted[1 : noted.index("  …")]
    assert first == reasons[0]
    assert some == way[: len(some)]
    assert len(some) > 5
    assert noted[len(some) + 1 :] == ["  …", "  nearest miss: gpu-0", *remedy, "  …", words]


def test_advice_replaces_an_unknown_fix() -> None:
    refused = AllocationRefusal(code="driver-missing", summary="no ResourceSlice provides a device for the node")
    reasons = messages.diagnosis_lines("ns/p", Diagnosis(headline=refused))
    assert reasons[-2].startswith("  what to do: Install the DRA driver on the node")


def test_no_advice_suggests_writing_a_status() -> None:
    free = SuggestedChange(
        text="release claim ns/b", object="ResourceClaim ns/b", path="status.allocation", node="a", remedy="wait"
    )
    refused = AllocationRefusal(code="devices-in-use", summary="every matching device is in use", changes=(free,))
    reasons = messages.diagnosis_lines("ns/p", Diagnosis(headline=refused))
    assert reasons == [
        "every matching device is in use (devices-in-use)",
        "  to make it fit on a: release claim ns/b",
        "  next: allot explain pod/p -n ns",
    ]


def _lines(machines: NodeCache, **pod: object) -> list[str]:
    shape = requirements_of(**pod)
    refused = [(m, r) for m in machines if (r := run_filters(shape, m)) is not None]
    return [kind.line for kind in resource_shortage.kinds_of_refusals(shape, refused)]


def test_shortage_names_the_nearest_node() -> None:
    machines = nodes_named("a", "b")
    machines.put(node("c", cpu="2")[1])
    machines.assign_pod(assigned_pod("p", requests={"cpu": "5"}), "a")
    assert _lines(machines, requests={"cpu": "20"}) == ["cpu: 20 requested; b has 8 of 8 free, the most among a, b, c"]
    assert _lines(machines, requests={"memory": "1Ti"}) == [
        "memory: 1Ti requested; a has 32Gi of 32Gi free, the most among a, b, c"
    ]


def test_shortage_shows_the_actual_label_value() -> None:
    machines = nodes_named("a", labels={"gpu": "t4"})
    assert _lines(machines, nodeSelector={"gpu": "a100"}) == ["nodeSelector gpu=a100 matches none of a; a has gpu=t4"]
    assert _lines(machines, nodeSelector={"zone": "x"}) == [
        "nodeSelector zone=x matches none of a; a has no label zone"
    ]


def test_shortage_names_the_taint() -> None:
    machines = nodes_named("a", taints=[{"key": "k", "value": "v", "effect": "NoSchedule"}])
    assert _lines(machines) == ["taint k=v:NoSchedule on a is not tolerated"]


def test_condition_keeps_its_transition_time_while_it_stays_false() -> None:
    before = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "old",
              "lastTransitionTime": "2026-01-01T00:00:00Z"}  # fmt: skip
    tree = tree_of("p", status={"conditions": [before]})
    (condition,) = condition_patch(tree, "Unschedulable", "new", "2026-02-02T00:00:00Z")["conditions"]
    assert condition["lastTransitionTime"] == "2026-01-01T00:00:00Z"
    assert condition_patch(tree, "Unschedulable", "old", "2026-02-02T00:00:00Z") == {}
