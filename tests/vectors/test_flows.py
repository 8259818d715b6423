"""What schedulers and controllers make of a sequence of requests, in a file of its own: it waits most of the time."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.vectors.recorded_answers import assert_recorded_answers

RECORDINGS = [
    "shared:vectors/k8s-1.37/apiserver/137-60-scheduler-flows-p2.jsonl.gz",
    "shared:vectors/k8s-1.37/apiserver/137-60-scheduler-flows-p1.jsonl.gz",
    "apiserver/60-scheduler-flows.jsonl.gz",
]


@pytest.mark.parametrize("recording", RECORDINGS, ids=lambda value: value.rpartition("/")[2])
def test_every_flow_ends_as_recorded(
    recording: str, shared: Callable[[str], Path], record_score: Callable[[str], None]
) -> None:
    assert_recorded_answers("apiserver", recording, shared, record_score)
