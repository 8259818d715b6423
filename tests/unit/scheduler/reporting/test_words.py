"""What pods are told."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from allotment.engine.refusal import AllocationRefusal, Diagnosis, SuggestedChange
from allotment.node_fit.filters import judge
from allotment.node_fit.nodes import Machines
from allotment.scheduler.reporting import fit_error, resource_shortage
from allotment.scheduler.reporting.reporter import condition_patch
from allotment.tools.explain import messages
from tests.unit.scheduler.machines import demand, machines_of, resident, tree_of
from tests.unit.scheduler.world import node


def test_sentence_counts_sorts_and_ends_as_kubernetes_does() -> None:
    after = fit_error.afterwards(fit_error.STILL_NOT, 4, {fit_error.NOT_HELPFUL: 4})
    reasons_ = {"cannot allocate all claims": 3, "invalid resource pools were encountered": 1}
    assert fit_error.unavailable(4, reasons_, after=after) == (
        "0/4 nodes are available: 1 invalid resource pools were encountered, 3 cannot allocate all claims. "
        "still not schedulable, preemption: 0/4 nodes are available: 4 Preemption is not helpful for scheduling."
    )


_BEGINNINGS = ("", "  nearest miss: ", "  to make it fit", "    ", "      ", "  alternative ")
_LINES = st.builds(str.__add__, st.sampled_from(_BEGINNINGS), st.text(max_size=300))


@given(st.lists(_LINES, max_size=20), st.text(min_size=1, max_size=1200))
def test_event_never_exceeds_its_bytes_and_keeps_first_and_last(told: list[str], words: str) -> None:
    note = messages.event_note(told, words)
    assert len(note.encode()) <= messages.EVENT_BYTES
    if len(words.encode()) <= 600:
        assert note.endswith(words)
        if told and len(told[0].encode()) < 300:
            assert note.startswith(told[0])


def test_event_keeps_what_to_change_and_the_nearest_miss_before_the_way_there() -> None:
    way = [f"      {n}  device.attributes['gpu.example.com'].model == 'a-long-name-of-a-model'" for n in range(40)]
    remedy = ["  to make it fit on a: ask for 1 device", "    ResourceClaim ns/c", "    spec:", "      1"]
    told = ["3 devices asked, the node has 1 (too-few-devices)", *way, "  nearest miss: gpu-0", *remedy, "  b: no"]
    words = "0/2 nodes are available: 2 cannot allocate all claims."
    noted = messages.event_note(told, words).splitlines()
    first, some = noted[0], noted[1 : noted.index("  …")]
    assert first == told[0]
    assert some == way[: len(some)]
    assert len(some) > 5
    assert noted[len(some) + 1 :] == ["  …", "  nearest miss: gpu-0", *remedy, "  …", words]


def test_advice_stands_where_no_change_is_known() -> None:
    refused = AllocationRefusal(code="driver-missing", summary="no ResourceSlice offers a device to the node")
    told = messages.diagnosis_lines("ns/p", Diagnosis(headline=refused))
    assert told[-1].startswith("  what to do: Install the DRA driver on the node")


def test_nobody_is_told_to_write_a_status() -> None:
    free = SuggestedChange(
        text="free claim ns/b", object="ResourceClaim ns/b", path="status.allocation", node="a", remedy="wait"
    )
    refused = AllocationRefusal(code="devices-in-use", summary="every matching device is in use", changes=(free,))
    told = messages.diagnosis_lines("ns/p", Diagnosis(headline=refused))
    assert told == ["every matching device is in use (devices-in-use)", "  to make it fit on a: free claim ns/b"]


def _lines(machines: Machines, **pod: object) -> list[str]:
    shape = demand(**pod)
    refused = [(m, r) for m in machines if (r := judge(shape, m)) is not None]
    return resource_shortage.lines(shape, refused)


def test_shortage_names_the_node_that_comes_nearest() -> None:
    machines = machines_of("a", "b")
    machines.put(node("c", cpu="2")[1])
    machines.seat(resident("p", requests={"cpu": "5"}), "a")
    assert _lines(machines, requests={"cpu": "20"}) == ["cpu: 20 asked, b has 8 free of 8, the most of a, b, c"]
    assert _lines(machines, requests={"memory": "1Ti"}) == [
        "memory: 1Ti asked, a has 32Gi free of 32Gi, the most of a, b, c"
    ]


def test_shortage_shows_what_a_label_has_instead() -> None:
    machines = machines_of("a", labels={"gpu": "t4"})
    assert _lines(machines, nodeSelector={"gpu": "a100"}) == ["nodeSelector gpu=a100 matches none of a; a has gpu=t4"]
    assert _lines(machines, nodeSelector={"zone": "x"}) == [
        "nodeSelector zone=x matches none of a; a has no label zone"
    ]


def test_shortage_names_the_taint() -> None:
    machines = machines_of("a", taints=[{"key": "k", "value": "v", "effect": "NoSchedule"}])
    assert _lines(machines) == ["taint k=v:NoSchedule on a is not tolerated"]


def test_condition_keeps_its_time_while_it_stays_false() -> None:
    before = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "old",
              "lastTransitionTime": "2026-01-01T00:00:00Z"}  # fmt: skip
    tree = tree_of("p", status={"conditions": [before]})
    (condition,) = condition_patch(tree, "Unschedulable", "new", "2026-02-02T00:00:00Z")["conditions"]
    assert condition["lastTransitionTime"] == "2026-01-01T00:00:00Z"
    assert condition_patch(tree, "Unschedulable", "old", "2026-02-02T00:00:00Z") == {}
