"""Probes are answered as Kubernetes' own are, and an event loop that stands still is found out."""

from __future__ import annotations

import asyncio
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from allotment.components.health import Health, Heartbeat


@pytest.fixture
def health() -> Health:
    health = Health()
    health.live["event-loop"] = lambda: ""
    health.ready["caches"] = lambda: ""
    return health


def test_all_is_well(health: Health) -> None:
    assert health.answer("/livez") == health.answer("/readyz") == health.answer("/healthz") == (200, "ok")


def test_a_line_for_each_check(health: Health) -> None:
    assert health.answer("/livez", "verbose") == (200, "[+]ping ok\n[+]event-loop ok\nlivez check passed\n")
    assert health.answer("/readyz", "verbose=1") == (
        200,
        "[+]ping ok\n[+]event-loop ok\n[+]caches ok\nreadyz check passed\n",
    )


def test_not_being_ready_is_no_reason_to_be_killed(health: Health) -> None:
    health.ready["caches"] = lambda: "not synced yet: pods"
    assert health.answer("/livez") == (200, "ok")
    assert health.answer("/readyz") == (
        500,
        "[+]ping ok\n[+]event-loop ok\n[-]caches failed: not synced yet: pods\nreadyz check failed\n",
    )


def test_one_check_alone_and_one_left_out(health: Health) -> None:
    health.live["event-loop"] = lambda: "it stands still"
    assert health.answer("/livez/ping") == (200, "ok")
    assert health.answer("/livez/event-loop") == (500, "[-]event-loop failed: it stands still\nlivez check failed\n")
    assert health.answer("/livez", "exclude=event-loop") == (200, "ok")
    assert health.answer("/livez", "verbose&exclude=event-loop") == (
        200,
        "[+]ping ok\n[+]event-loop excluded: ok\nlivez check passed\n",
    )


@pytest.mark.parametrize("path", ["/", "/metrics", "/livez/nothing", "/livez/caches"])
def test_other_paths_are_not_there(health: Health, path: str) -> None:
    assert health.answer(path) is None


def test_a_loop_that_beats_is_well() -> None:
    async def story() -> None:
        pulse = Heartbeat()
        beating = asyncio.create_task(pulse.run())
        await asyncio.sleep(0)
        assert pulse.check() == ""
        beating.cancel()

    asyncio.run(story())


def test_a_loop_that_stands_still_is_seen_from_outside() -> None:
    async def story() -> str:
        pulse = Heartbeat(still=0.2)
        beating = asyncio.create_task(pulse.run())
        await asyncio.sleep(0)
        with ThreadPoolExecutor() as others:
            time.sleep(0.4)  # nothing else runs meanwhile
            seen = others.submit(pulse.check).result()
        beating.cancel()
        return seen

    assert asyncio.run(story()).startswith("the event loop has been blocked for")
