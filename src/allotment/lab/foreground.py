"""Runs a control plane in this process until SIGINT or SIGTERM."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Coroutine
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from allotment.cluster import gc_tuning
from allotment.lab.settings import Settings

if TYPE_CHECKING:
    from allotment.lab.control_plane import Plane

#: Interpreter switch interval: a busy thread must not delay each step of the store's writer.
_SWITCH_SECONDS: Final = 0.0005


def run(settings: Settings) -> None:
    """Run a control plane that its clients know how to reach. Raises OSError and other start errors."""
    run_in_loop(_serve(settings))


def run_in_loop(main: Coroutine[object, object, None]) -> None:
    """Run a coroutine in an event loop for a control plane."""
    from allotment.lab.http_server import new_event_loop  # not needed to stop a lab

    sys.setswitchinterval(_SWITCH_SECONDS)
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        runner.run(main)


def stop_signals() -> asyncio.Event:
    """Return an event that SIGINT and SIGTERM set."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        with suppress(NotImplementedError):  # Windows: Ctrl-C arrives as KeyboardInterrupt
            loop.add_signal_handler(number, stop.set)
    return stop


async def until_stopped(plane: Plane, stop: asyncio.Event) -> None:
    """Wait for a signal. Raises OSError if the plane's store fails."""
    tending = asyncio.create_task(gc_tuning.collect_when_idle(), name="collection")
    stopped = asyncio.ensure_future(stop.wait())
    try:
        await asyncio.wait((stopped, plane.failed), return_when=asyncio.FIRST_COMPLETED)
        if plane.failed.done():
            plane.failed.result()
    finally:
        stopped.cancel()
        tending.cancel()


async def _serve(settings: Settings) -> None:
    from allotment.lab.control_plane import running

    stop = stop_signals()
    async with running(settings) as plane:
        await until_stopped(plane, stop)
