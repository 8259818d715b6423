"""A node whose device search is given up: other nodes are tried, and the pod waits for events that can shorten it."""

from __future__ import annotations

from functools import partial

import pytest

from allotment.cluster.client import Resource
from allotment.cluster.resources import SLICES
from allotment.engine.allocator import Allocator
from allotment.model.trees import Tree, to_tree
from tests.unit.cluster import idle
from tests.unit.engine.hard_search import SLIM, devices_without_counters, gpu_slices
from tests.unit.scheduler.world import claim, device_class, node, pod, world

LIMIT = 500
WIDE_ONLY = "!device.attributes['gpu.example.com'].slim"


@pytest.fixture(autouse=True)
def _low_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lower the step limit so that a search that takes seconds ends immediately."""
    limited = partial(Allocator, step_limit=LIMIT)
    monkeypatch.setattr("allotment.scheduler.program.Allocator", limited)
    monkeypatch.setattr("allotment.engine.diagnosis.trial_cache.Allocator", limited)


def with_card(name: str) -> list[tuple[Resource, Tree]]:
    return [node(name), *((SLICES, to_tree(part)) for part in gpu_slices(name))]


def with_plain(name: str, count: int = SLIM) -> list[tuple[Resource, Tree]]:
    return [node(name), (SLICES, to_tree(devices_without_counters(name, count)))]


def test_the_next_node_is_used() -> None:
    async def scenario() -> None:
        claim_for_eight = claim("eight", count=SLIM)
        async with world(*with_card("a"), *with_plain("b"), device_class(), claim_for_eight, pod("p", "eight")) as lab:
            await lab.bound("p")
            assert lab.node_of("p") == "b"
            assert lab.devices("eight") == [f"gpu-{number}" for number in range(SLIM)]

    idle.run(scenario())


def test_without_another_node_the_abandoned_search_is_reported() -> None:
    async def scenario() -> None:
        claim_for_eight = claim("eight", count=SLIM)
        async with world(
            *with_card("a"), *with_plain("b", 2), device_class(), claim_for_eight, pod("p", "eight")
        ) as lab:
            message = await lab.reported_message("p")
            first, *_, last = message.splitlines()
            assert (
                first == f"on a the search for devices stopped after {LIMIT} steps without a result (search-given-up)"
            )
            assert "  b: 8 devices requested; the node has 2 (too-few-devices)" in message
            assert last.startswith(
                f"0/2 nodes are available: 1 cannot allocate all claims, 1 search for devices stopped after {LIMIT} "
                "steps. still not schedulable, preemption: "
            )
            for resource, tree in with_plain("c"):
                lab.put(resource, tree)
            await lab.bound("p")
            assert lab.node_of("p") == "c"

    idle.run(scenario())


def test_the_search_is_repeated_after_other_allocations_on_the_node() -> None:
    async def scenario() -> None:
        claim_for_eight, claim_for_one = claim("eight", count=SLIM), claim("one", selector=WIDE_ONLY)
        async with world(*with_card("a"), device_class(), claim_for_eight, claim_for_one, pod("p", "eight")) as lab:
            await lab.until(lambda: "(search-given-up)" in lab.condition("p").get("message", ""))
            lab.put(*pod("q", "one"))
            await lab.bound("q")
            # The remaining counters are insufficient, which is detected without a search.
            await lab.until(lambda: "(counters-exhausted)" in lab.condition("p")["message"])
            lab.end("q")
            await lab.until(lambda: "(search-given-up)" in lab.condition("p")["message"])

    idle.run(scenario())
