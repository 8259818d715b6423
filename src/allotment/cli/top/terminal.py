"""The terminal of ``allot top``: keys one at a time, and pictures that replace each other.

The terminal is restored however the program ends. Requires a terminal with ANSI sequences, as on Linux and macOS.
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final, TextIO

from allotment.cli.top.frame import Size
from allotment.errors import InputError

#: Switches to the terminal's second buffer without a cursor, and back.
_ENTER, _LEAVE = "\x1b[?1049h\x1b[?25l", "\x1b[?25h\x1b[?1049l"
_SEQUENCES: Final = {
    "[A": "up", "[B": "down", "[C": "right", "[D": "left", "OA": "up", "OB": "down", "OC": "right", "OD": "left",
    "[5~": "page up", "[6~": "page down", "[H": "home", "[F": "end", "[1~": "home", "[4~": "end", "OH": "home",
    "OF": "end", "[Z": "tab",
}  # fmt: skip
_CONTROL: Final = {"\r": "enter", "\n": "enter", "\t": "tab", "\x7f": "backspace", "\b": "backspace", "\x1b": "escape"}
_KEY: Final = re.compile(r"\x1b(\[[0-9;]*[A-Za-z~]|O[A-Z])|(.)", re.DOTALL)


def keys_of(text: str) -> Iterator[str]:
    """Yield the keys in what a terminal sent; unknown sequences are skipped.

    >>> list(keys_of("\\x1b[Bq/a\\r")), list(keys_of("\\x1b")), list(keys_of("\\x1b[24~"))
    (['down', 'q', '/', 'a', 'enter'], ['escape'], [])
    """
    for match in _KEY.finditer(text):
        sequence, character = match[1], match[2]
        if sequence is not None:
            if sequence in _SEQUENCES:
                yield _SEQUENCES[sequence]
        elif character in _CONTROL:
            yield _CONTROL[character]
        elif character.isprintable():
            yield character


class Terminal:
    """Standard input and output, between `opened` and its end."""

    def __init__(self, out: TextIO, source: int) -> None:
        self._out = out
        self._source = source
        self._shown: Sequence[str] = ()

    def size(self) -> Size:
        """Return the present size."""
        columns, lines = shutil.get_terminal_size((80, 24))
        return Size(columns, lines)

    def show(self, lines: Sequence[str]) -> None:
        """Replace the picture, if it has changed."""
        if lines == self._shown:
            return
        self._shown = lines
        self._out.write("\x1b[H" + "\r\n".join(f"{line}\x1b[K" for line in lines) + "\x1b[J")
        self._out.flush()

    def redraw(self) -> None:
        """Forget what is on the screen: its size has changed."""
        self._shown = ()

    @contextmanager
    def events(self, on_key: Callable[[str], None], on_resize: Callable[[], None]) -> Iterator[None]:
        """Call ``on_key`` for each key and ``on_resize`` when the size changes, in the running event loop."""
        loop = asyncio.get_running_loop()

        def read() -> None:
            data = os.read(self._source, 1024)
            for key in keys_of(data.decode(errors="replace")) if data else ("q",):  # the terminal was closed
                on_key(key)

        loop.add_reader(self._source, read)
        loop.add_signal_handler(signal.SIGWINCH, on_resize)
        try:
            yield
        finally:
            loop.remove_reader(self._source)
            loop.remove_signal_handler(signal.SIGWINCH)


@contextmanager
def opened() -> Iterator[Terminal]:
    """Take over the terminal. Raises InputError if standard input and output are none."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise InputError("allot top: standard input and output are not a terminal", "print it once with --once")
    try:
        import termios
        import tty
    except ImportError:
        raise InputError("allot top: not available in this terminal", "print it once with --once") from None
    source = sys.stdin.fileno()
    before = termios.tcgetattr(source)
    try:
        tty.setcbreak(source)
        attributes = termios.tcgetattr(source)
        attributes[6][termios.VSUSP] = b"\0"  # Ctrl-Z would leave the shell in the second buffer
        termios.tcsetattr(source, termios.TCSADRAIN, attributes)
        sys.stdout.write(_ENTER)
        yield Terminal(sys.stdout, source)
    finally:
        sys.stdout.write(_LEAVE)
        sys.stdout.flush()
        termios.tcsetattr(source, termios.TCSADRAIN, before)
