"""Health endpoints answer like those of Kubernetes, and a blocked event loop is detected."""

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


def test_all_checks_succeed(health: Health) -> None:
    assert health.answer("/livez") == health.answer("/readyz") == health.answer("/healthz") == (200, "ok")


def test_verbose_output_has_a_line_for_each_check(health: Health) -> None:
    assert health.answer("/livez", "verbose") == (200, "[+]ping ok\n[+]event-loop ok\nlivez check passed\n")
    assert health.answer("/readyz", "verbose=1") == (
        200,
        "[+]ping ok\n[+]event-loop ok\n[+]caches ok\nreadyz check passed\n",
    )


def test_readiness_does_not_affect_liveness(health: Health) -> None:
    health.ready["caches"] = lambda: "not synced yet: pods"
    assert health.answer("/livez") == (200, "ok")
    assert health.answer("/readyz") == (
        500,
        "[+]ping ok\n[+]event-loop ok\n[-]caches failed: not synced yet: pods\nreadyz check failed\n",
    )


def test_checks_can_be_selected_and_excluded(health: Health) -> None:
    health.live["event-loop"] = lambda: "it is blocked"
    assert health.answer("/livez/ping") == (200, "ok")
    assert health.answer("/livez/event-loop") == (500, "[-]event-loop failed: it is blocked\nlivez check failed\n")
    assert health.answer("/livez", "exclude=event-loop") == (200, "ok")
    assert health.answer("/livez", "verbose&exclude=event-loop") == (
        200,
        "[+]ping ok\n[+]event-loop excluded: ok\nlivez check passed\n",
    )


@pytest.mark.parametrize("path", ["/", "/metrics", "/livez/nothing", "/livez/caches"])
def test_other_paths_are_not_found(health: Health, path: str) -> None:
    assert health.answer(path) is None


def test_a_responsive_event_loop_is_healthy() -> None:
    async def scenario() -> None:
        heartbeat = Heartbeat()
        beating = asyncio.create_task(heartbeat.run())
        await asyncio.sleep(0)
        assert heartbeat.check() == ""
        beating.cancel()

    asyncio.run(scenario())


def test_a_blocked_event_loop_is_detected_from_another_thread() -> None:
    async def scenario() -> str:
        heartbeat = Heartbeat(still=0.2)
        beating = asyncio.create_task(heartbeat.run())
        await asyncio.sleep(0)
        with ThreadPoolExecutor() as others:
            time.sleep(0.4)  # blocks the event loop
            seen = others.submit(heartbeat.check).result()
        beating.cancel()
        return seen

    assert asyncio.run(scenario()).startswith("the event loop has been blocked for")
