"""Prints completions in cobra's protocol: ``allot __complete WORDS…`` and ``kubectl_complete-allot WORDS…``.

The last word is to be completed; it may be empty. The output has a line per candidate, its description after a tab;
the last line is ``:`` and the directive, a number. kubectl expects this of its plugins, and so do Allotment's scripts:
https://github.com/kubernetes/kubectl/blob/master/pkg/cmd/plugin/plugin_completion.go
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from enum import IntFlag
from typing import NamedTuple

from allotment.cli.completion.command_line import Candidate, Line, read_line
from allotment.cli.completion.option_values import ValueSource, wanted
from allotment.cli.parser import Parser


class Directive(IntFlag):
    """Instructions for the shell, with cobra's values."""

    FILES = 0
    NO_SPACE = 2
    NO_FILES = 4
    FOLDERS = 16


class Offer(NamedTuple):
    """Candidates in order, and the directive for the shell."""

    candidates: tuple[Candidate, ...] = ()
    directive: Directive = Directive.NO_FILES


def offer(line: Line | None) -> Offer:
    """Return the candidates for an incomplete line; none for an invalid one."""
    if line is None:
        return Offer()
    if line.action is None:
        return _of(line, _options(line) if line.word.startswith("-") else ())
    if isinstance(line.action, argparse._SubParsersAction):
        listed = line.action._choices_actions
        return _of(line, (Candidate(candidate.dest, candidate.help or "") for candidate in listed))
    kind = wanted(line)
    found = _in_list(line, kind) if kind.several else kind.known(line)
    base = {"files": Directive.FILES, "folders": Directive.FOLDERS}.get(kind.paths, Directive.NO_FILES)
    return _of(line, found, base)


def _of(line: Line, candidates: Iterable[Candidate], directive: Directive = Directive.NO_FILES) -> Offer:
    """Return the candidates with the word as prefix; no space follows if all of them need a continuation."""
    found = {candidate.value: candidate for candidate in candidates if candidate.value.startswith(line.word)}
    if found and all(value.endswith(("/", "=")) for value in found):
        directive |= Directive.NO_SPACE
    return Offer(tuple(found.values()), directive)


def _in_list(line: Line, kind: ValueSource) -> Iterator[Candidate]:
    """Yield values for the last item of a comma-separated list; earlier items are not offered again."""
    before, comma, _ = line.word.rpartition(",")
    there = before.split(",")
    for candidate in kind.known(line):
        if candidate.value not in there:
            yield Candidate(f"{before}{comma}{candidate.value}", candidate.description)


def _options(line: Line) -> Iterator[Candidate]:
    """Yield the options that can still be given: unused or repeatable ones, without conflicts with those given."""
    given = {
        other.dest
        for group in line.parser._mutually_exclusive_groups
        if any(member.dest in line.given for member in group._group_actions)
        for other in group._group_actions
    } | set(line.given)
    formatter = line.parser._get_formatter()
    for action in line.parser._actions:
        if action.help == argparse.SUPPRESS or not action.option_strings:
            continue
        again = isinstance(action, argparse._AppendAction) and action.dest in line.given
        if action.dest in given and not again:
            continue
        description = formatter._expand_help(action) if action.help else ""
        yield from (Candidate(name, description) for name in action.option_strings)


def answer(parser: Parser, words: Sequence[str]) -> str:
    """Return the output. Errors are suppressed, because they would disturb typing."""
    found = Offer()
    with suppress(Exception, KeyboardInterrupt):
        found = offer(read_line(parser, words))
    return "".join(f"{line}\n" for line in _lines(found))


def run(parser: Parser, words: Sequence[str]) -> None:
    """Print the candidates and exit immediately, without waiting for threads that query the cluster."""
    with suppress(OSError):
        sys.stdout.buffer.write(answer(parser, words).encode(errors="surrogateescape"))  # independent of the locale
        sys.stdout.buffer.flush()
    os._exit(0)


def _lines(found: Offer) -> Iterator[str]:
    for value, description in found.candidates:
        if not set(value) & set("\t\n"):
            yield f"{value}\t{' '.join(description.split())}" if description else value
    yield f":{found.directive.value}"
