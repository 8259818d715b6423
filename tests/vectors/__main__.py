"""Scores recordings of Kubernetes: ``python -m tests.vectors SET FILE…``.

Failing cases are printed first, one line each; ``passed N of M`` is the last line. Exit status: 0 all passed, 1 some
failed, 2 bad usage or an unreadable file (the other files are scored nevertheless). Any file in the format of the
shared vectors is accepted, so a new recording can be tried immediately.
"""

from __future__ import annotations

import importlib
import sys
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.vectors.result import Result

SETS = ("allocator", "apiserver", "cel", "validation")
Score = Callable[[Path], Iterator[Result]]


class UsageError(Exception):
    """Raised for an invalid request or an unusable file; the text is one line for the user."""


def scorer(name: str) -> Score:
    """The scoring function of a set: ``score(path)`` in the module of that name."""
    if name not in SETS:
        raise UsageError(f"unknown set {name!r}: expected one of {', '.join(SETS)}")
    score: Score = importlib.import_module(f"tests.vectors.{name}").score
    return score


def score_file(score: Score, path: Path) -> list[Result]:
    """Score every case of a file."""
    if not path.is_file():
        raise UsageError(f"{path}: no such file")
    try:
        results = list(score(path))
    # A truncated or foreign file causes one of these, depending on where the reader notices.
    except (OSError, EOFError, zlib.error, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: cannot be read: {error}") from error
    except (ValueError, KeyError, TypeError) as error:
        raise UsageError(f"{path}: not in the format of this set: {type(error).__name__}: {error}") from error
    if not results:
        raise UsageError(f"{path}: contains no case")
    return results


def main(arguments: list[str]) -> int:
    """Run; return the exit status."""
    if len(arguments) < 2:
        print(f'usage: make vectors SET={"|".join(SETS)} FILES="a.jsonl.gz …"', file=sys.stderr)
        return 2
    scored: list[tuple[Path, list[Result]]] = []
    unreadable = False
    try:
        score = scorer(arguments[0])
    except UsageError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    for path in map(Path, arguments[1:]):
        try:
            scored.append((path, score_file(score, path)))
        except UsageError as error:
            print(f"error: {error}", file=sys.stderr)
            unreadable = True
    if not scored:
        return 2
    many = len(arguments) > 2
    for path, results in scored:
        for result in results:
            if not result.passed:
                where = f"{path.name}: " if many else ""
                print(f"FAILED {where}{result.name}: {' '.join(result.detail.split())}")
    if many:
        for path, results in scored:
            print(f"{path.name}: {sum(r.passed for r in results)} of {len(results)}")
    passed = sum(result.passed for _, results in scored for result in results)
    total = sum(len(results) for _, results in scored)
    print(f"passed {passed} of {total}")
    return 2 if unreadable else 0 if passed == total else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
