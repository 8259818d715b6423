"""Fixtures: both event loops, and a check that the server logs no warnings."""

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
    """Run a scenario on each event loop."""
    factory = new_event_loop if request.param == "uvloop" else asyncio.new_event_loop

    def scenario(main: Coroutine[Any, Any, None]) -> None:
        with asyncio.Runner(loop_factory=factory) as runner:
            runner.run(main)

    return scenario


@pytest.fixture(autouse=True)
def expected_warnings(caplog: pytest.LogCaptureFixture) -> Iterator[list[str]]:
    """Check that the server logs no warnings other than those that a test adds to the list."""
    expected: list[str] = []
    with caplog.at_level(logging.WARNING):
        yield expected
    warnings = [record.getMessage() for record in caplog.get_records("call") if record.levelno >= logging.WARNING]
    assert [text for text in warnings if not any(part in text for part in expected)] == []
