"""Manifests that a strict API server accepts have no errors."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from allotment.tools.check.run import check
from tests.unit.tools.check.bundles import bundle_of

FOLDERS: Final = ("nvidia", "amd", "example", "castai", "classes", "slices")
#: Invalid files according to the collection's own record: error codes by file.
INVALID: Final[dict[str, set[str]]] = {
    "nvidia/mig+mps/sharing-demo-claims-1.yaml": {"S107"},  # classic DRA
    "nvidia/mig+mps/sharing-demo-job-1.yaml": {"S103"},
    "nvidia/mig+mps/sharing-demo-parameters-1.yaml": {"S107"},
    "nvidia/selectors/claims.yaml": {"S107"},
    "nvidia/selectors/parameters.yaml": {"S107"},
    "nvidia/selectors/pods.yaml": {"S103"},
    # v1alpha3, and its template is in another namespace than its pod.
    "nvidia/quickstart/v1beta1/gpu-test-vfiopci.yaml": {"S101", "M406"},
}


@pytest.mark.parametrize("folder", FOLDERS)
def test_valid_manifests_have_no_errors(folder: str, shared: Callable[[str], Path]) -> None:
    root = shared("manifests")
    errors_by_file: dict[str, set[str]] = {}
    for path in sorted((root / folder).rglob("*.yaml")):
        name = str(path.relative_to(root))
        errors = {f.code for f in check(bundle_of({name: path.read_text("utf-8")})) if f.level == "error"}
        if errors:
            errors_by_file[name] = errors
    assert errors_by_file == {name: codes for name, codes in INVALID.items() if name.startswith(f"{folder}/")}


def test_folder_has_no_errors_as_a_whole(shared: Callable[[str], Path]) -> None:
    root = shared("manifests/example")
    files = {str(path.relative_to(root)): path.read_text("utf-8") for path in sorted(root.rglob("*.yaml"))}
    assert [f"{f.code} {f.where}: {f.message}" for f in check(bundle_of(files)) if f.level == "error"] == []
