"""Reserves standard output for the result of a command; output of libraries goes to standard error.

C libraries may write to file descriptor 1 at any time, some on import. One such line within ``-o json`` makes
the output invalid JSON.
"""

from __future__ import annotations

import os
import sys
from io import TextIOWrapper

_STDOUT, _STDERR = 1, 2


def reserve_stdout() -> None:
    """Give ``sys.stdout`` a file descriptor of its own, and let descriptor 1 lead to standard error.

    For a whole process, until its end: C's own buffer is written out only then. Child processes inherit descriptor 1
    and not the new one. Has no effect if ``sys.stdout`` is not descriptor 1: closed, or replaced by a caller.
    """
    stream = sys.stdout
    if stream is not sys.__stdout__ or not isinstance(stream, TextIOWrapper) or stream.fileno() != _STDOUT:
        return
    stream.flush()
    try:
        elsewhere = os.dup(_STDERR)
    except OSError:  # standard error is closed
        elsewhere = os.open(os.devnull, os.O_WRONLY)
    binary = os.fdopen(os.dup(_STDOUT), "wb", 0 if stream.write_through else -1)
    own = TextIOWrapper(
        binary, stream.encoding, stream.errors, line_buffering=stream.line_buffering, write_through=stream.write_through
    )
    # Python reads the width of a terminal from sys.__stdout__.
    sys.stdout = sys.__stdout__ = own  # type: ignore[misc]  # Final to libraries; this is the program
    os.dup2(elsewhere, _STDOUT)
    os.close(elsewhere)
