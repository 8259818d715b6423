"""Supervises one command for an agent, so that none of its processes outlives the container or the agent.

Run as a program: ``python -I -S launcher.py ORDER LIFELINE``, two open file descriptors. ORDER holds the command as
JSON, so that secrets are not visible in the process list. LIFELINE is the reading end of a pipe that only the agent
writes: ``T`` sends SIGTERM to the command's group; ``K`` or end of file (the agent died) kills everything.

Orphaned processes of the command become children of this program (a subreaper, Linux only) and are killed with it, even
in their own session. It imports very little, because it is started once per container.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import json
import os
import select
import signal
import sys
import termios
from collections.abc import Iterator
from typing import Any, Final, NoReturn

_SET_PARENT_DEATH_SIGNAL: Final = 1
_SET_CHILD_SUBREAPER: Final = 36
_IGNORED: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT)
_NOT_EXECUTABLE: Final = 126
_NOT_FOUND: Final = 127
_KILLED: Final = 128 + signal.SIGKILL


def main(order_file: int, lifeline: int) -> int:
    """Run the command of an order and return its exit code, 128 + n for signal n."""
    with os.fdopen(order_file, "rb") as file:
        order: dict[str, Any] = json.load(file)
    os.set_inheritable(lifeline, False)
    _control(_SET_CHILD_SUBREAPER, 1)
    asleep, awake = os.pipe()
    os.set_blocking(awake, False)
    signal.set_wakeup_fd(awake)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    for number in _IGNORED:
        signal.signal(number, signal.SIG_IGN)
    # Signals for the command stay pending until it has started.
    signal.pthread_sigmask(signal.SIG_BLOCK, _IGNORED)
    me = os.getpid()
    command = os.fork()
    if command == 0:
        _exec_command(order, me)
    code = _watch(command, lifeline, asleep)
    last = _end_all(command)
    return code if code is not None else last


def _exec_command(order: dict[str, Any], parent: int) -> NoReturn:
    """Replace this forked process with the command, using only system calls."""
    try:
        os.setsid()
        _control(_SET_PARENT_DEATH_SIGNAL, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(_KILLED)
        for number in (*_IGNORED, signal.SIGCHLD, signal.SIGPIPE, signal.SIGXFSZ):
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _IGNORED)
        if order["tty"]:
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)
        os.chdir(order["directory"])
        os.execvpe(order["words"][0], order["words"], order["environment"])
    except OSError as error:
        os.write(2, f'exec: "{order["words"][0]}": {error.strerror}\n'.encode())
        os._exit(_NOT_FOUND if isinstance(error, FileNotFoundError) else _NOT_EXECUTABLE)
    except ValueError as error:  # a NUL or a lone surrogate in a word or variable
        os.write(2, f'exec: "{ascii(order["words"][0])[1:-1]}": {error}\n'.encode())
        os._exit(_NOT_EXECUTABLE)


def _watch(command: int, lifeline: int, asleep: int) -> int | None:
    """Wait for the command and return its exit code; None if the agent orders a kill or died."""
    while True:
        ready, _, _ = select.select([lifeline, asleep], [], [])
        if lifeline in ready:
            words = os.read(lifeline, 64)
            if not words or b"K" in words:
                return None
            _terminate(command)
        if asleep in ready:
            os.read(asleep, 512)
            code = _reap(command)
            if code is not None:
                return code


def _terminate(command: int) -> None:
    try:
        os.killpg(command, signal.SIGTERM)
    except ProcessLookupError:  # it has no group yet
        os.kill(command, signal.SIGTERM)


def _reap(command: int) -> int | None:
    """Reap ended processes; returns the command's exit code if it is one of them."""
    while True:
        try:
            ended, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return _KILLED
        if ended == command:
            return _code(status)
        if ended == 0:
            return None


def _end_all(command: int) -> int:
    """Kill and reap all remaining processes; returns the command's exit code if it was one of them."""
    code = _KILLED
    while True:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(command, signal.SIGKILL)
        for child in _children():
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(child, signal.SIGKILL)
        try:
            ended, status = os.waitpid(-1, 0)
            while ended:  # reap all dead ones first: scanning for live ones is slower
                if ended == command:
                    code = _code(status)
                ended, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return code


def _children() -> Iterator[int]:
    me = os.getpid()
    try:
        processes = [entry.name for entry in os.scandir("/proc") if entry.name.isdecimal()]
    except FileNotFoundError:  # not Linux: only the group is known
        return
    for process in processes:
        with contextlib.suppress(OSError):
            file = os.open(f"/proc/{process}/stat", os.O_RDONLY)
            try:
                stat = os.read(file, 4096)
            finally:
                os.close(file)
            # The name in parentheses may contain anything; state and parent follow it.
            if int(stat.rpartition(b")")[2].split()[1]) == me:
                yield int(process)


def _code(status: int) -> int:
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code


def _control(option: int, value: int) -> None:
    # Other systems have no prctl: there, a process that leaves its group outlives the container.
    prctl = getattr(ctypes.CDLL(None), "prctl", None)
    if prctl is not None:
        prctl(option, value, 0, 0, 0)


if __name__ == "__main__":
    os._exit(main(int(sys.argv[1]), int(sys.argv[2])))
