"""Stands between an agent and one command, so that nothing of the command outlives its container or its agent.

Run as a program of its own: ``python -I -S launcher.py ORDER LIFELINE``, two open files. ORDER holds the command as
JSON, so that nobody reads a secret in a list of processes. LIFELINE is the end of a pipe that only the agent can
write: ``T`` asks the command's group to end, ``K`` and the agent's own death, however sudden, end everything.

Whatever the command starts and abandons becomes this program's child (a subreaper, Linux only) and dies with it, even
in a session of its own. It imports next to nothing, because it is started once for each container.
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
    """Run the command of an order; its exit code, 128 + n for signal n."""
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
    # What comes for the command before it is one waits for it.
    signal.pthread_sigmask(signal.SIG_BLOCK, _IGNORED)
    me = os.getpid()
    command = os.fork()
    if command == 0:
        _become(order, me)
    code = _watch(command, lifeline, asleep)
    last = _end_all(command)
    return code if code is not None else last


def _become(order: dict[str, Any], parent: int) -> NoReturn:
    """Turn into the command. Only system calls: this is a fork."""
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
    except ValueError as error:  # a NUL, or half of a character, in a word or a variable
        os.write(2, f'exec: "{ascii(order["words"][0])[1:-1]}": {error}\n'.encode())
        os._exit(_NOT_EXECUTABLE)


def _watch(command: int, lifeline: int, asleep: int) -> int | None:
    """Wait for the command's end, or None for the word to end it."""
    while True:
        ready, _, _ = select.select([lifeline, asleep], [], [])
        if lifeline in ready:
            told = os.read(lifeline, 64)
            if not told or b"K" in told:
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
    """Bury who has ended; the command's code if it is among them."""
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
    """Kill and bury everything that is left; the command's code if it was."""
    code = _KILLED
    while True:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(command, signal.SIGKILL)
        for child in _children():
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(child, signal.SIGKILL)
        try:
            ended, status = os.waitpid(-1, 0)
            while ended:  # all who are dead by now: looking for those who are not takes longer
                if ended == command:
                    code = _code(status)
                ended, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return code


def _children() -> Iterator[int]:
    me = os.getpid()
    try:
        processes = [entry.name for entry in os.scandir("/proc") if entry.name.isdecimal()]
    except FileNotFoundError:  # another system: the group is all that is known
        return
    for process in processes:
        with contextlib.suppress(OSError):
            file = os.open(f"/proc/{process}/stat", os.O_RDONLY)
            try:
                stat = os.read(file, 4096)
            finally:
                os.close(file)
            # After the name in parentheses, which may hold anything: the state, the parent.
            if int(stat.rpartition(b")")[2].split()[1]) == me:
                yield int(process)


def _code(status: int) -> int:
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code


def _control(what: int, value: int) -> None:
    # Other systems have no such call: there, what leaves its group outlives its container.
    prctl = getattr(ctypes.CDLL(None), "prctl", None)
    if prctl is not None:
        prctl(what, value, 0, 0, 0)


if __name__ == "__main__":
    os._exit(main(int(sys.argv[1]), int(sys.argv[2])))
