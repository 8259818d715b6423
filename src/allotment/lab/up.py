"""Processes of ``allot up`` and ``allot down``: run a lab in the foreground or detached, and stop it.

``run`` is the lab itself and returns when it is stopped. ``detach`` starts a process that calls ``run`` and returns
when it is ready. ``down`` stops one. They communicate through the register.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from allotment import __version__
from allotment.files import private
from allotment.lab import kubeconfig
from allotment.lab.foreground import run_in_loop, stop_signals, until_stopped
from allotment.lab.settings import Settings
from allotment.lab.state import Register, Status, context_of

if TYPE_CHECKING:
    from allotment.lab.overview import Overview

_START_SECONDS = 60.0
_STOP_SECONDS = 30.0
_LOOK_SECONDS = 0.02


class DidNotStart(Exception):
    """Raised if a detached lab exited or was not ready in time: ``log`` is its output."""

    def __init__(self, log: Path, why: str) -> None:
        super().__init__(f"the lab did not start: {why}")
        self.log = log
        self.why = why


class DidNotStop(Exception):
    """Raised if a lab did not stop in time."""


class LabLocation(NamedTuple):
    """The register, name and kubeconfig of a lab. ``log``: its output file, if any."""

    register: Register
    kubeconfig: Path
    log: Path | None = None


def run(
    settings: Settings,
    place: LabLocation,
    ready: Callable[[Status], None],
    show: Callable[[Overview], None] | None = None,
) -> None:
    """Run a lab until SIGINT or SIGTERM. Raises LabRunningError, OSError, FleetError and other start errors.

    ``ready`` is called once, ``show`` (if given) whenever the numbers change.
    """
    with place.register.hold(settings.name):
        run_in_loop(_serve(settings, place, ready, show))


async def _serve(
    settings: Settings, place: LabLocation, ready: Callable[[Status], None], show: Callable[[Overview], None] | None
) -> None:
    from allotment.lab.control_plane import running
    from allotment.lab.overview import report_changes

    stop = stop_signals()
    async with running(settings) as plane:
        context = context_of(settings.name)
        with ExitStack() as announced:
            previous = kubeconfig.add(place.kubeconfig, context, plane.access)
            previous = "" if previous == context else previous
            announced.callback(kubeconfig.remove, place.kubeconfig, context, previous)
            status = Status(
                name=settings.name, pid=os.getpid(), url=plane.access.server, context=context,
                kubeconfig=str(place.kubeconfig), started=_now(), version=__version__,
                data=str(settings.data.path) if settings.data else None, log=str(place.log) if place.log else None,
                fleet=plane.fleet, speed=settings.speed, previous_context=previous,
            )  # fmt: skip
            place.register.write(status)
            ready(status)
            if show is not None:
                announced.enter_context(report_changes(plane.store, show))
            await until_stopped(plane, stop)


def detach(
    command: Sequence[str], name: str, place: LabLocation, log: Path, is_complete: Callable[[Status], bool]
) -> Status:
    """Start a lab in a separate process by a command line; returns when it is ready. Raises DidNotStart.

    ``is_complete``: whether a status of the lab that is ready is also complete.
    """
    private.make_folder(log.parent)
    with private.open_append(log) as output:
        start = output.tell()
        process = subprocess.Popen(
            list(command), stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True
        )
    deadline = time.monotonic() + _START_SECONDS
    while (code := process.poll()) is None:
        status = place.register.status(name)
        if status is not None and status.pid == process.pid and is_complete(status):
            return status
        if time.monotonic() > deadline:
            process.terminate()
            raise DidNotStart(log, f"not ready after {_START_SECONDS:g} s; see {log}")
        time.sleep(_LOOK_SECONDS)
    with log.open("rb") as written:
        written.seek(start)
        text = written.read().decode("utf-8", "replace").strip()
    raise DidNotStart(log, text or f"it exited with code {code}; see {log}")


def down(register: Register, name: str) -> Status | None:
    """Stop a lab and wait for its exit; None if none of that name is running. Raises DidNotStop."""
    deadline = time.monotonic() + _STOP_SECONDS
    running_status: Status | None = None
    with ExitStack() as opened:
        has_exited: Callable[[], bool] = _true
        while register.runs(name) or not has_exited():
            status = register.status(name)
            if status is not None and running_status is None:
                has_exited = opened.enter_context(_exit_of(status.pid))
                with suppress(ProcessLookupError):
                    os.kill(status.pid, signal.SIGTERM)
                running_status = status
            if time.monotonic() > deadline:
                process = f"process {running_status.pid}" if running_status else "its process"
                raise DidNotStop(f"lab {name!r} is still running after {_STOP_SECONDS:g} s: check {process}")
            time.sleep(_LOOK_SECONDS)
    return running_status


@contextmanager
def _exit_of(pid: int) -> Iterator[Callable[[], bool]]:
    """Whether a process has exited, which it does after it has released its lab.

    Outside Linux this is always true: a process and its zombie, or a later process, have the same process id.
    """
    if sys.platform != "linux":
        yield _true
        return
    try:
        descriptor = os.pidfd_open(pid)
    except OSError:  # it has exited, or the kernel is older than 5.3
        yield _true
        return
    try:
        yield lambda: bool(select.select((descriptor,), (), (), 0)[0])
    finally:
        os.close(descriptor)


def _true() -> bool:
    return True


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
