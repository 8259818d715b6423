"""``allot __complete WORDS…`` and ``kubectl_complete-allot WORDS…``: cobra's protocol.

The last word is the one to complete, empty if it has not begun. A line for each candidate, a tab before what it is; the
last line is ``:`` and the directive, a number. That is what kubectl asks of its plugins, and our scripts of ``allot``:
https://github.com/kubernetes/kubectl/blob/master/pkg/cmd/plugin/plugin_completion.go
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress

from allotment.cli.completion.command_line import read_line
from allotment.cli.completion.offering import Offer, offer
from allotment.cli.parser import Parser


def answer(parser: Parser, words: Sequence[str]) -> str:
    """What is printed. Whatever goes wrong, nothing is offered: nobody wants to read of it while typing."""
    found = Offer()
    with suppress(Exception, KeyboardInterrupt):
        found = offer(read_line(parser, words))
    return "".join(f"{line}\n" for line in _lines(found))


def run(parser: Parser, words: Sequence[str]) -> None:
    """Print it and end at once: whoever still waits for a cluster is not waited for."""
    with suppress(OSError):
        sys.stdout.buffer.write(
            answer(parser, words).encode(errors="surrogateescape")
        )  # whatever the terminal's locale
        sys.stdout.buffer.flush()
    os._exit(0)


def _lines(found: Offer) -> Iterator[str]:
    for value, description in found.candidates:
        if not set(value) & set("\t\n"):
            yield f"{value}\t{' '.join(description.split())}" if description else value
    yield f":{found.directive.value}"
