"""The summary of the verdicts: a table by mistake, and a digest of all answers."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from tests.storm.advice.verdicts import Verdict

#: The criteria by column; the goals are in percent of the worlds.
CRITERIA: Final = {"cause": 98.0, "remedy": 100.0, "kept": 100.0, "agreement": 100.0, "leak": 100.0}
_DOUBLE: Final = "two mistakes"


def summary(verdicts: Sequence[Verdict]) -> Iterator[str]:
    """The lines of the table: worlds by mistake, and the share of them that meets each criterion, in percent."""
    rows: defaultdict[str, list[Verdict]] = defaultdict(list)
    for verdict in verdicts:
        rows[verdict.mistakes[0] if len(verdict.mistakes) == 1 else _DOUBLE].append(verdict)
    yield f"{'mistake':42}{'worlds':>7}" + "".join(f"{name:>11}" for name in CRITERIA)
    for name in sorted(rows, key=lambda name: (name == _DOUBLE, name)):
        yield _row(name, rows[name])
    yield _row("all", verdicts)


def _row(name: str, verdicts: Sequence[Verdict]) -> str:
    return f"{name:42}{len(verdicts):7d}" + "".join(f"{accepted(verdicts, name):10.1f}%" for name in CRITERIA)


def accepted(verdicts: Sequence[Verdict], criterion: str) -> float:
    """The share of the worlds that meet a criterion, in percent."""
    return 100.0 * sum(not verdict.failed(criterion) for verdict in verdicts) / len(verdicts) if verdicts else 100.0


def missed(verdicts: Sequence[Verdict]) -> list[str]:
    """The criteria whose goal is missed."""
    return [name for name, goal in CRITERIA.items() if accepted(verdicts, name) < goal]


def digest(verdicts: Iterable[Verdict]) -> str:
    """A text that is equal if all answers are."""
    return hashlib.sha256(repr([tuple(verdict) for verdict in verdicts]).encode()).hexdigest()[:16]
