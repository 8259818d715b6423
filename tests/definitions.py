"""Third-party kinds: their CustomResourceDefinitions, from the Go modules in which these are published.

A module is downloaded by Go into Go's own cache, and must have the recorded digest; the project contains no copy of it.
"""

from __future__ import annotations

import functools
import json
import shutil
import subprocess
import tempfile
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from allotment.model.loading import load_text
from allotment.model.trees import Tree


class Module(NamedTuple):
    """``digest``: as in go.sum. ``files``: the path prefixes of the wanted files."""

    name: str
    version: str
    digest: str
    files: tuple[str, ...]


KARPENTER: Final = Module(
    "sigs.k8s.io/karpenter", "v1.15.0", "h1:5SEptlAvsOZbNg4qg8OSdF1qi6BEZHZLA020nXY7jGw=",
    ("pkg/apis/crds/karpenter.sh_",),
)  # fmt: skip
PROMETHEUS: Final = Module(
    "github.com/prometheus-operator/prometheus-operator", "v0.85.0", "h1:M5xLCLEoaW2IJfnuCwFzzpL+jSVQu3KGT84Pye+fW8s=",
    tuple(f"example/prometheus-operator-crd/monitoring.coreos.com_{each}." for each in (
        "servicemonitors", "prometheusrules"
    )),
)  # fmt: skip
CERTIFICATES: Final = Module(
    "github.com/cert-manager/cert-manager", "v1.21.2", "h1:UWgoYM+KLNtRlqmoWOKjKBOBUPVHeepQ6/ac3ERJW68=",
    ("deploy/crds/cert-manager.io_certificates.",),
)  # fmt: skip


def definitions(module: Module) -> Mapping[str, Tree]:
    """The definitions by kind. The test is skipped with a message if they cannot be downloaded; a wrong digest is a
    failure."""
    found = _definitions(module)
    if isinstance(found, str):
        pytest.skip(found)
    return found


@functools.cache
def _definitions(module: Module) -> Mapping[str, Tree] | str:
    name = f"{module.name}@{module.version}"
    go = shutil.which("go")
    if go is None:
        return f"Go not found: the definitions of {name} cannot be downloaded, and NOTHING IS CHECKED against them"
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [go, "mod", "download", "-json", name], cwd=folder, capture_output=True, check=False, timeout=120
        )
    try:
        info = json.loads(done.stdout)
        archive = Path(info["Zip"])  # the module is downloaded even where it requires a newer Go
    except (ValueError, KeyError):
        return f"{name} cannot be downloaded: {(done.stderr or done.stdout).decode()[-300:]}"
    assert info.get("Sum") == module.digest, f"{name} does not match its recorded digest: {info.get('Sum')}"
    found: dict[str, Tree] = {}
    with zipfile.ZipFile(archive) as file:
        for path in file.namelist():
            if path.removeprefix(f"{name}/").startswith(module.files):
                (document,) = load_text(file.read(path).decode()).documents
                tree = document.tree
                found[tree["spec"]["names"]["kind"]] = tree
    return found
