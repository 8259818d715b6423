"""The names of the public packages: what type checkers see is what programs get."""

from __future__ import annotations

import ast
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

import allotment
from allotment import drivers, reference

PACKAGES = (allotment, drivers, reference)
SUBMODULES = {"drivers", "reference"}


def typed(package: ModuleType) -> dict[str, str]:
    """The names that only type checkers import, with their modules."""
    (block,) = (
        node
        for node in ast.parse(Path(str(package.__file__)).read_text("utf-8")).body
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
    )
    return {
        alias.asname or alias.name: node.module or ""
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }


def public(package: ModuleType) -> list[str]:
    """The names that an interpreter offers after the package and a dot."""
    return [name for name in dir(package) if not (name.startswith("__") and name.endswith("__"))]


@pytest.mark.parametrize(
    ("package", "name", "module"),
    [(package, name, module) for package in PACKAGES for name, module in typed(package).items()],
)
def test_a_name_that_type_checkers_see_exists(package: ModuleType, name: str, module: str) -> None:
    assert getattr(package, name) is getattr(import_module(module), name)


@pytest.mark.parametrize("package", PACKAGES)
def test_the_names_are_listed(package: ModuleType) -> None:
    own = {"__version__"} if package is allotment else set()
    assert sorted(package.__all__) == sorted({*typed(package), *own} - SUBMODULES)


@pytest.mark.parametrize("package", PACKAGES)
def test_dir_has_the_api_and_nothing_else(package: ModuleType) -> None:
    import_module("allotment.lab.lab")  # imported submodules are attributes of the package
    import_module("allotment.drivers.main")
    assert public(package) == sorted(typed(package))


def test_dir_has_what_python_expects_of_a_package() -> None:
    assert {"__name__", "__doc__", "__version__"} <= set(dir(allotment))


@pytest.mark.parametrize("package", PACKAGES)
def test_an_unknown_name_is_an_error(package: ModuleType) -> None:
    with pytest.raises(AttributeError, match=rf"module '{package.__name__}' has no attribute 'Labs'"):
        getattr(package, "Labs")  # noqa: B009 - a type checker rejects the attribute


@pytest.mark.parametrize(
    ("package", "imported"),
    [("allotment", []), ("allotment.drivers", ["allotment.drivers"]), ("allotment.reference", ["allotment.reference"])],
)
def test_importing_a_package_does_not_import_its_modules(package: str, imported: list[str]) -> None:
    script = (
        f"import {package}, sys; dir({package}); print([name for name in sys.modules if name.startswith('allotment.')])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == f"{imported}\n"


POD = """
apiVersion: v1
kind: Pod
metadata: {name: a}
spec: {containers: [{name: main, image: i, resources: {limits: {nvidia.com/gpu: 1}}}]}
"""
QUESTIONS = ("load(POD)", "check(POD, isolated=True)", "explain(POD, allotment.Cluster.fleet('t4'))")


@pytest.mark.parametrize(
    ("question", "excluded"),
    [
        *((question, ("aiohttp", "allotment.lab.lab", "allotment.cluster.remote")) for question in QUESTIONS),
        ("VerifyReport, allotment.Driver", ("grpc", "google.protobuf")),
    ],
)
def test_what_only_clusters_need_is_not_imported_for_files(question: str, excluded: tuple[str, ...]) -> None:
    script = f"import allotment, sys; POD = {POD!r}; allotment.{question}; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)
    assert set(done.stdout.split()) & set(excluded) == set()
