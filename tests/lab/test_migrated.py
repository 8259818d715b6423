"""An API server accepts the output of ``migrate`` for the corpus by server-side apply, as kubectl sends it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from allotment import Lab
from allotment.model.loading import load_paths

AFTER = sorted((Path(__file__).parents[1] / "corpus" / "migrate" / "after").glob("*.yaml"))


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    with Lab(fleet="l4") as started:
        yield started


@pytest.mark.parametrize("file", AFTER, ids=lambda file: file.stem)
def test_an_api_server_accepts_migrated_files(file: Path, lab: Lab) -> None:
    documents = load_paths([file]).documents
    admin = "labels: {resource.kubernetes.io/admin-access: 'true'}"
    for name in {d.tree["metadata"].get("namespace", "default") for d in documents} - {"default", "kube-system"}:
        lab.apply(f"apiVersion: v1\nkind: Namespace\nmetadata: {{name: {name}, {admin}}}\n")
    assert len(lab.apply(file)) == len(documents)
