"""Builds operators and their tests from published Go modules, once, into ``~/.cache/allotment/operators``.

The digests of the modules are pinned here; each module pins those of its dependencies.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from tests.kube.binaries import SKIPPED, BuildError, BuildSource, build, build_lock, find_go


class OperatorModule(NamedTuple):
    """A module by path and version. ``digest``: of its files, as in ``go.sum``."""

    path: str
    version: str
    digest: str


MODULES: Final[Mapping[str, OperatorModule]] = {
    "cert-manager": OperatorModule(
        "github.com/cert-manager/cert-manager", "v1.21.2", "h1:UWgoYM+KLNtRlqmoWOKjKBOBUPVHeepQ6/ac3ERJW68="
    ),
    "jobset": OperatorModule("sigs.k8s.io/jobset", "v0.11.1", "h1:WgLEBnXTeX+4MxfVkIbfm4jIVgjvIY6Jfaei2okxKNk="),
    "lws": OperatorModule("sigs.k8s.io/lws", "v0.8.0", "h1:DdhJ8QabwTfWgbgaHH2gdf8twliioHaoSfmDXRYEVU0="),
    "scheduler-plugins": OperatorModule(
        "sigs.k8s.io/scheduler-plugins", "v0.34.1-devel", "h1:tT0/rFgjM7+VVDTKkcjA/XxhpYgRyq+RV0P7QW1Pxvo="
    ),
    "spark-operator": OperatorModule(
        "github.com/kubeflow/spark-operator/v2", "v2.5.0", "h1:NNgTHgQMbrGZSFJtprjssdtCaL/qlYYQY1EyXuRaP78="
    ),
}
#: The time limit of a test that may have to build a program first.
BUILD_SECONDS: Final = 3600.0
#: The package of each operator.
_PACKAGES: Final[Mapping[str, str]] = {"jobset": ".", "lws": "./cmd"}


def source_folder(name: str) -> Path:
    """Return the folder with the files of a module, downloaded if necessary. The test is skipped without Go."""
    module = MODULES[name]
    try:
        go = find_go(Path.home(), name)
    except BuildError as error:
        pytest.skip(f"NOT TESTED: {error}")
    done = subprocess.run(
        [go, "mod", "download", "-json", f"{module.path}@{module.version}"],
        env={**os.environ, "GOFLAGS": "-mod=mod", "GOWORK": "off"}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode:
        pytest.skip(f"NOT TESTED: {module.path} {module.version} cannot be downloaded: {done.stdout}{done.stderr}")
    found = json.loads(done.stdout)
    assert found["Sum"] == module.digest, f"the files of {module.path} have changed"
    return Path(found["Dir"])


def operator_program(name: str) -> Path:
    """Return the program of an operator."""
    return _built(name, name, _PACKAGES[name], is_test=False)


def suite_program(name: str, package: str) -> Path:
    """Return the program of the tests in a package of a module."""
    return _built(name, f"{Path(package).name}.test", f"./{package}", is_test=True)


def _built(name: str, program: str, package: str, *, is_test: bool) -> Path:
    root = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = root / "allotment" / "operators" / f"{name}-{MODULES[name].version}"
    if (folder / program).is_file():
        return folder / program
    source = BuildSource(str(source_folder(name)), package, {}, is_test)
    folder.mkdir(parents=True, exist_ok=True)
    try:
        with build_lock(folder):
            if not (folder / program).is_file():
                build(find_go(Path.home(), name), program, source, folder)
    except BuildError as error:
        if error.status == SKIPPED:
            pytest.skip(f"NOT TESTED: {error}")
        raise
    return folder / program
