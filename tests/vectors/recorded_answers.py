"""Compares the answers to a recording with the recorded ones, except for the cases that differ on purpose."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.vectors.__main__ import score_file, scorer
from tests.vectors.apiserver.recording import DATA
from tests.vectors.exceptions import EXCEPTIONS


def assert_recorded_answers(
    which: str, recording: str, shared: Callable[[str], Path], record_score: Callable[[str], None]
) -> None:
    """Score a file of a set and add its score to the closing summary; fail if a case has an unexpected answer.

    ``recording``: a file in ``data``, or ``shared:`` and a file of upstream's own, which may be absent from a separate
    clone.
    """
    upstream = recording.removeprefix("shared:")
    path = DATA / recording if upstream == recording else shared(upstream)
    results = score_file(scorer(which), path)
    failed = {result.name: result.detail for result in results if not result.passed}
    excused = EXCEPTIONS.get(which, {}).get(path.name, {})
    verb = "differs" if len(excused) == 1 else "differ"
    note = f", {len(excused)} {verb} on purpose (tests/vectors/exceptions.py)" if excused else ""
    record_score(f"{which:10} {path.name:30} passed {len(results) - len(failed)} of {len(results)}{note}")
    unexpected = {name: detail for name, detail in failed.items() if name not in excused}
    if unexpected:
        shown = [f"{name}: {' '.join(detail.split())[:300]}" for name, detail in list(unexpected.items())[:10]]
        pytest.fail(
            "\n".join([f"{len(unexpected)} cases have a different answer; the first ones:", *shown]), pytrace=False
        )
    assert not excused.keys() - failed.keys(), "listed as an exception, but answered as recorded"
