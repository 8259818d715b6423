"""The scenarios of 1.36 with the answers of Kubernetes 1.37.2, cases that cannot be evaluated, and generated cases.

(The answers that each recorded release gave are in test_scores.)
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from allotment.engine import AbortCause, Aborted, Allocator
from tests.vectors.allocator import Json, answer, cases, difference, score
from tests.vectors.compared import as_case, random_scenario
from tests.vectors.reference import SHARE_ID
from tests.vectors.scenarios import NODE

RANDOM = Path(__file__).parent / "data" / "allocator-random.jsonl.gz"


def test_random_scenarios_have_the_answers_of_1_37(record_score: Callable[[str], None]) -> None:
    results = list(score(RANDOM, kube="1.37"))
    failed = [result for result in results if not result.passed]
    record_score(
        f"allocator  {RANDOM.name:30} passed {len(results) - len(failed)} of {len(results)} as in Kubernetes 1.37.2"
    )
    assert not failed, f"{len(failed)} failed, the first: {failed[0]}"


def rewritten(folder: Path, change: Callable[[Json], object]) -> Path:
    """A recording of the first two random cases, the first of them changed."""
    first, second = (case for case, _ in zip(cases(RANDOM), range(2), strict=False))
    change(first)
    path = folder / "changed.jsonl.gz"
    path.write_bytes(gzip.compress("".join(json.dumps(case) + "\n" for case in (first, second)).encode()))
    return path


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda case: case["features"].update(teleportation=True), "cannot be evaluated: KeyError: 'teleportation'"),
        (lambda case: case.pop("node"), "cannot be evaluated: KeyError: 'node'"),
        (lambda case: case.update(outcome="error", expectErrorSubstring="boom"), "expected error 'boom', found"),
    ],
)
def test_a_case_that_cannot_be_evaluated_fails_alone(
    change: Callable[[Json], object], reason: str, tmp_path: Path
) -> None:
    failed, passed = score(rewritten(tmp_path, change))
    assert not failed.passed
    assert failed.detail.startswith(reason)
    assert passed.passed


def test_an_error_whose_severity_is_not_recorded_is_fatal() -> None:
    found = Aborted("boom", fatal=False, cause=AbortCause.POOL_INVALID)
    wanted = {"outcome": "error", "results": None, "error": "boom"}
    assert difference(found, wanted) == "expected fatal=True, found node error 'boom'"


def test_generated_cases_have_the_answers_of_their_scenarios() -> None:
    """The case for upstream's allocator describes the same objects as the scenario for the engine."""
    for seed in range(100):
        made = random_scenario(seed)
        case = json.loads(json.dumps(as_case(str(seed), made)))
        allocator = Allocator(made.inventory, share_id=lambda: SHARE_ID)
        assert answer(case) == allocator.allocate(NODE, made.claims), seed
