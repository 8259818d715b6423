"""The random scenarios as Kubernetes 1.37.2 answers them. (As 1.36.2 does: with all other recordings, test_scores.)"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tests.vectors.allocator import score

RANDOM = Path(__file__).parent / "data" / "allocator-random.jsonl.gz"


def test_random_scenarios_as_answered_by_1_37(record_score: Callable[[str], None]) -> None:
    results = list(score(RANDOM, kube="1.37"))
    failed = [result for result in results if not result.passed]
    record_score(
        f"allocator  {RANDOM.name:30} passed {len(results) - len(failed)} of {len(results)} as Kubernetes 1.37.2"
    )
    assert not failed, f"{len(failed)} failed, the first: {failed[0]}"
