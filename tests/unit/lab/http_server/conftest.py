"""Both event loops, and the server's silence."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine, Iterator
from typing import Any

import pytest

from allotment.lab.http_server import new_event_loop
from tests.unit.lab.http_server.loopback import Run


@pytest.fixture(params=["uvloop", "asyncio"])
def run(request: pytest.FixtureRequest) -> Run:
    """Run a story on each event loop."""
    factory = new_event_loop if request.param == "uvloop" else asyncio.new_event_loop

    def story(main: Coroutine[Any, Any, None]) -> None:
        with asyncio.Runner(loop_factory=factory) as runner:
            runner.run(main)

    return story


@pytest.fixture(autouse=True)
def no_complaint(caplog: pytest.LogCaptureFixture) -> Iterator[list[str]]:
    """No client makes the server log an error; a test of our own faults empties the list."""
    expected: list[str] = []
    with caplog.at_level(logging.WARNING):
        yield expected
    warnings = [record.getMessage() for record in caplog.get_records("call") if record.levelno >= logging.WARNING]
    assert [text for text in warnings if not any(part in text for part in expected)] == []
