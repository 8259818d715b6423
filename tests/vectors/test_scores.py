"""Every recorded case has Kubernetes' answer; the score of each file is in the closing summary."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.vectors.recorded_answers import assert_recorded_answers

#: set, file
RECORDINGS = [
    ("allocator", "shared:vectors/allocator/table.jsonl.gz"),
    ("allocator", "allocator-random.jsonl.gz"),
    ("allocator", "shared:vectors/k8s-1.37/allocator/137-table.jsonl.gz"),
    ("allocator", "shared:vectors/k8s-1.37/allocator/137-random.jsonl.gz"),
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
    *(
        ("apiserver", f"shared:vectors/k8s-1.37/apiserver/137-{name}-{part}.jsonl.gz")
        for name in (
            "10-discovery",
            "11-openapi",
            "40-dra-validation",
            "41-dra-updates",
            "42-asked-of-1.36",
            "50-workload",
            "51-workload-updates",
        )
        for part in ("p1", "p2")
    ),
    ("validation", "validation.jsonl.gz"),
    ("validation", "validation-seeds.jsonl.gz"),
    ("validation", "validation-generated.jsonl.gz"),
]


@pytest.mark.parametrize(("which", "recording"), RECORDINGS, ids=lambda value: value.rpartition("/")[2])
def test_every_case_is_answered_as_recorded(
    which: str, recording: str, shared: Callable[[str], Path], record_score: Callable[[str], None]
) -> None:
    assert_recorded_answers(which, recording, shared, record_score)
