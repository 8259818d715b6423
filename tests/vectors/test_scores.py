"""Every recorded case has Kubernetes' answer; the score of each file is in the closing summary."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.vectors.__main__ import score_file, scorer
from tests.vectors.exceptions import EXCEPTIONS

DATA = Path(__file__).parent / "data"

#: set, file; a file under ``shared:`` is upstream's own and may be absent from a separate clone.
RECORDINGS = [
    ("allocator", "shared:vectors/allocator/table.jsonl.gz"),
    ("allocator", "allocator-random.jsonl.gz"),
    ("cel", "shared:vectors/cel/table.jsonl.gz"),
    ("cel", "shared:vectors/cel/conformance.jsonl.gz"),
    ("cel", "cel-generated.jsonl.gz"),
    ("cel", "cel-versions.jsonl.gz"),
    ("apiserver", "apiserver/00-fixtures.jsonl.gz"),
    ("apiserver", "apiserver/10-discovery.jsonl.gz"),
    ("apiserver", "apiserver/11-openapi.jsonl.gz"),
    ("apiserver", "apiserver/20-crud-configmap.jsonl.gz"),
    ("apiserver", "apiserver/21-list-selectors-paging.jsonl.gz"),
    ("apiserver", "apiserver/22-patch.jsonl.gz"),
    ("apiserver", "apiserver/23-server-side-apply.jsonl.gz"),
    ("apiserver", "apiserver/24-watch.jsonl.gz"),
    ("apiserver", "apiserver/25-tables.jsonl.gz"),
    ("apiserver", "apiserver/26-pods.jsonl.gz"),
    ("apiserver", "apiserver/28-protobuf-requests.jsonl.gz"),
    ("apiserver", "apiserver/29-expired.jsonl.gz"),
    ("apiserver", "validation.jsonl.gz"),
    ("apiserver", "apiserver/50-seed-manifests.jsonl.gz"),
    ("apiserver", "apiserver/60-scheduler-flows.jsonl.gz"),
    ("validation", "validation.jsonl.gz"),
    ("validation", "validation-seeds.jsonl.gz"),
    ("validation", "validation-generated.jsonl.gz"),
]


@pytest.mark.parametrize(("which", "recording"), RECORDINGS, ids=lambda value: value.rpartition("/")[2])
def test_every_case_is_answered_as_recorded(
    which: str, recording: str, shared: Callable[[str], Path], record_score: Callable[[str], None]
) -> None:
    if recording.startswith("shared:"):
        path = shared(recording.removeprefix("shared:"))
    else:
        path = DATA / recording
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
