"""A node whose search reaches the step limit is undecided: other nodes are still tried."""

from __future__ import annotations

import pytest

from allotment.engine import AbortCause, Aborted, Allocated, Allocator, Inventory, NotPlaced, Placed
from allotment.engine.diagnosis.diagnoser import diagnose
from allotment.engine.outcome import Unfit
from tests.step_limit import short_searches
from tests.unit.engine.hard_search import ONLY_SLIM, SLIM, WIDE, claim_for_eight, devices_without_counters, gpu_slices
from tests.unit.engine.objects import DRIVER, claim, devices_of, holding, inventory, key, request

LIMIT = 500


def cluster(*plain_nodes: str, cards: tuple[str, ...] = ("n1",)) -> Inventory:
    slices = [part for node in cards for part in gpu_slices(node)]
    return inventory(*slices, *map(devices_without_counters, plain_nodes), nodes=(*cards, *plain_nodes))


def allocator(made: Inventory) -> Allocator:
    return Allocator(made, step_limit=LIMIT)


def test_the_claim_would_fit_on_the_undecided_node() -> None:
    given_up = allocator(cluster()).allocate("n1", [claim_for_eight()])
    assert isinstance(given_up, Aborted)
    assert given_up.cause is AbortCause.WORK_LIMIT
    found = allocator(cluster()).allocate("n1", [claim_for_eight(ONLY_SLIM)])
    assert isinstance(found, Allocated)
    assert devices_of(found.results) == [[f"part-{number}" for number in range(WIDE, WIDE + SLIM)]]


@pytest.mark.parametrize("start", [0, 1])
def test_the_next_node_is_tried(start: int) -> None:
    placed = allocator(cluster("n2")).place([claim_for_eight()], start=start)
    assert isinstance(placed, Placed)
    assert placed.node == "n2"


def test_undecided_nodes_are_named_if_no_node_fits() -> None:
    made = cluster("n4", cards=("n1", "n2"))
    made.put_node("n3", {})
    made.allocate(key(claim(name="other")), holding("gpu-0", pool="n4"))
    limited = allocator(made)
    assert limited.place([claim_for_eight()]) == NotPlaced(4, undecided=("n1", "n2"))
    assert limited.place([claim_for_eight()], among=made.node_mask(["n2", "n4"])) == NotPlaced(4, undecided=("n2",))


def test_a_node_is_searched_again_when_its_devices_change() -> None:
    made = cluster("n2")
    limited = allocator(made)
    made.allocate(key(claim(name="other")), holding("gpu-0", pool="n2"))
    assert limited.place([claim_for_eight()]) == NotPlaced(2, undecided=("n1",))
    # With fewer candidate devices the search ends with a result, here a refusal.
    made.allocate(key(claim(name="half")), holding(*(f"part-{number:02}" for number in range(4))))
    assert limited.place([claim_for_eight()]) == NotPlaced(2)
    made.free(key(claim(name="half")))
    assert limited.place([claim_for_eight()]) == NotPlaced(2, undecided=("n1",))
    made.remove_node("n1")
    assert limited.place([claim_for_eight()]) == NotPlaced(1)


def test_a_fatal_error_on_another_node_still_ends_the_attempt() -> None:
    # No partition of the card fails, and every plain device does.
    sloppy = claim_for_eight(f'device.attributes["{DRIVER}"].slim in [true, false]')
    ended = allocator(cluster("n2")).place([sloppy])
    assert isinstance(ended, Aborted)
    assert ended.cause is AbortCause.SELECTOR


# --- the reason ------------------------------------------------------------------------------------------------------


def test_the_reason_of_an_undecided_node_is_the_step_limit() -> None:
    made = cluster()
    found = diagnose(made, [claim_for_eight()])
    headline = found.headline
    assert (headline.code, headline.node, headline.claim, headline.request) == (
        "search-given-up",
        "n1",
        "default/c",
        "r",
    )
    assert headline.summary == "the search for devices stopped after 200000 steps without a result"
    assert [(funnel.wanted, funnel.left()) for funnel in headline.funnels] == [(SLIM, WIDE + SLIM)]
    assert not headline.changes
    assert not headline.alternatives


def test_a_certain_refusal_is_the_reason_instead_of_an_undecided_claim() -> None:
    # One of the pod's claims is undecided, and another one requests a device that the node does not have.
    pod = [claim_for_eight(), claim(request(1, 'device.driver == "other.example.com"'), name="other")]
    assert isinstance(allocator(cluster()).allocate("n1", pod), Unfit)
    with short_searches():
        headline = diagnose(cluster(), pod).headline
    assert (headline.code, headline.claim) == ("unknown-driver", "default/other")
