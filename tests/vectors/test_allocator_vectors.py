"""The random scenarios with the answers of Kubernetes 1.37.2. (Those of 1.36.2 are in test_scores.)"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tests.vectors.allocator import score

RANDOM = Path(__file__).parent / "data" / "allocator-random.jsonl.gz"


def test_random_scenarios_have_the_answers_of_1_37(record_score: Callable[[str], None]) -> None:
    results = list(score(RANDOM, kube="1.37"))
    failed = [result for result in results if not result.passed]
    record_score(
        f"allocator  {RANDOM.name:30} passed {len(results) - len(failed)} of {len(results)} as in Kubernetes 1.37.2"
    )
    assert not failed, f"{len(failed)} failed, the first: {failed[0]}"
