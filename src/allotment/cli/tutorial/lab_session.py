"""Starts the lab of the tutorial in this process, for this terminal and others."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Final, NoReturn

from allotment import __version__
from allotment.apiserver.storage.database_file import DatabaseInUse
from allotment.cli.demo.progress import Progress, quiet
from allotment.cli.output.console import Screen, from_home
from allotment.cli.tutorial.events import Changed, EventQueue
from allotment.cli.tutorial.folder import Folder
from allotment.cli.tutorial.lab_watch import LabWatch
from allotment.cli.tutorial.session import Session
from allotment.cli.tutorial.steps import FLEET
from allotment.cluster.clock import Clock
from allotment.errors import InputError
from allotment.files import atomic_write
from allotment.lab import kubeconfig
from allotment.lab.lab import Lab
from allotment.lab.state import LabRunningError, Register, Status, context_of

#: The name of the lab in ``allot status``.
_LAB: Final = "tutorial"
#: The driver of ComputeDomains publishes devices that no step uses.
_WITHOUT: Final = ("compute-domains",)
#: Speed-up of simulated durations.
_SPEED: Final = 20.0


@contextlib.contextmanager
def start(screen: Screen, folder: Folder) -> Iterator[Session]:
    """Start the lab with the data of the folder, as a context manager. Raises InputError if it is running already.

    The lab is registered, so that ``allot`` finds it by the kubeconfig file, in this process and in other terminals.
    The folder is the current one until the end.
    """
    progress = Progress(screen)
    register = Register()
    events = EventQueue()
    with contextlib.ExitStack() as stack:
        stack.enter_context(quiet())
        stack.callback(progress.clear)
        try:
            stack.enter_context(register.hold(_LAB))
        except LabRunningError as error:
            raise _running(error.status) from None
        stack.enter_context(_interrupted_by_sigterm())
        progress("starting a lab")
        folder.make()
        lab = Lab(FLEET, data=folder.data.path, name=_LAB, speed=_SPEED, tls=True, without=_WITHOUT)
        try:
            stack.enter_context(lab)
        except DatabaseInUse as error:  # by a user with another register
            raise InputError(f"the tutorial is already running: {error}", "use another folder with --dir") from None
        text = kubeconfig.text(context_of(_LAB), lab.plane.access)
        atomic_write.replace(folder.kubeconfig, text.encode())
        stack.callback(folder.kubeconfig.unlink, missing_ok=True)
        register.write(_status(lab, folder))
        watch = stack.enter_context(LabWatch(folder.kubeconfig, lambda: events.put(Changed())))
        stack.enter_context(contextlib.chdir(folder.path))
        stack.enter_context(_environment("KUBECONFIG", str(folder.kubeconfig)))
        progress.clear()
        yield Session(screen, folder, lab, watch, events)


def _status(lab: Lab, folder: Folder) -> Status:
    return Status(
        name=_LAB, pid=os.getpid(), url=lab.url, context=context_of(_LAB), kubeconfig=str(folder.kubeconfig),
        started=Clock().now(), version=__version__, data=str(folder.data.path), fleet=lab.plane.fleet, speed=_SPEED,
    )  # fmt: skip


@contextlib.contextmanager
def _interrupted_by_sigterm() -> Iterator[None]:
    """Treat SIGTERM, which ``allot down`` sends, as Ctrl-C, so that the lab stops in order."""

    def interrupt(number: int, frame: FrameType | None) -> NoReturn:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextlib.contextmanager
def _environment(name: str, value: str) -> Iterator[None]:
    """Set an environment variable until the end."""
    before = os.environ.get(name)
    os.environ[name] = value
    try:
        yield
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before


def _running(status: Status | None) -> InputError:
    process = f" (process {status.pid}, in {from_home(Path(status.kubeconfig).parent)})" if status is not None else ""
    return InputError(f"the tutorial is already running{process}", "continue it there, or stop it: allot down tutorial")


def require_stopped() -> None:
    """Raise InputError if the tutorial's lab is running."""
    if Register().runs(_LAB):
        raise _running(Register().status(_LAB))
