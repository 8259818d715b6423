"""The help of every command, as users read it: texts that are put together from several places are complete here."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from allotment.cli.main import command_line
from tests.language.files import Hit, hits_in_passages
from tests.language.passages import Passage, squeezed
from tests.language.word_list import Searcher


def hits_in_help(searcher: Searcher) -> Iterator[Hit]:
    """The words to avoid in the help of all commands; the line of a hit is that of the help's text."""
    for parser in _parsers(command_line()):
        text = parser.format_help()
        lines = text.splitlines()
        whole = Passage(squeezed(text), "help", 1, len(lines))
        yield from hits_in_passages(f"{parser.prog} --help", lines, [whole], searcher)


def _parsers(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    yield parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for command in dict.fromkeys(action.choices.values()):
                yield from _parsers(command)
