"""The flows of Kubernetes 1.37 with groups of pods, in a file of their own: they wait most of the time."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tests.vectors.recorded_answers import assert_recorded_answers

FLOWS = "vectors/k8s-1.37/apiserver/137-60-scheduler-flows-p2.jsonl.gz"


def test_every_flow_ends_as_recorded(shared: Callable[[str], Path], record_score: Callable[[str], None]) -> None:
    assert_recorded_answers("apiserver", shared(FLOWS), record_score)
