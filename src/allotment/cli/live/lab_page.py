"""The page of a lab: ``allot web`` in a process of its own, which ends with the lab.

The lab's process holds a pipe to it: ``allot web`` ends when the pipe closes, also if the lab is killed.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Event, Thread
from typing import IO, Final
from zipfile import is_zipfile

#: For the page to end by itself.
_END_SECONDS: Final = 5.0


def program() -> Sequence[str]:
    """Return Python's arguments that start this program again: its module, or the zipapp that contains it."""
    return (sys.argv[0],) if is_zipfile(sys.argv[0]) else ("-m", "allotment.cli.main")


@contextmanager
def lab_page(
    kubeconfig: str | Path, context: str, on_address: Callable[[str], None], log: Path | None = None
) -> Iterator[None]:
    """Serve the page of a lab meanwhile.

    ``on_address`` is called in a thread: with the address when the page is served, or with "" if it could not be. Its
    messages are appended to ``log``, by default to standard error.
    """
    command = [sys.executable, *program(), "web", "--kubeconfig", str(kubeconfig), "--with-parent"]
    if context:
        command += ["--context", context]
    messages: IO[bytes] | None = log.open("ab") if log is not None else None
    try:
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=messages)
    finally:
        if messages is not None:
            messages.close()
    assert process.stdin is not None
    assert process.stdout is not None
    ending = Event()
    reader = Thread(target=_report_address, args=(process.stdout, on_address, ending), name="page", daemon=True)
    reader.start()
    try:
        yield
    finally:
        ending.set()
        with suppress(BrokenPipeError):
            process.stdin.close()
        try:
            process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        reader.join()
        process.stdout.close()


def _report_address(output: IO[bytes], on_address: Callable[[str], None], ending: Event) -> None:
    address = output.readline().decode(errors="replace").strip()
    if not ending.is_set():
        on_address(address)
