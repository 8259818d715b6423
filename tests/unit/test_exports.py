"""The names of the package: what type checkers see is what programs get."""

from __future__ import annotations

import ast
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import allotment

SOURCE = ast.parse(Path(allotment.__file__).read_text("utf-8"))


def typed() -> dict[str, str]:
    """The names that only type checkers import, with their modules."""
    (block,) = (
        node
        for node in SOURCE.body
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
    )
    return {
        alias.asname or alias.name: node.module or ""
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }


@pytest.mark.parametrize(("name", "module"), typed().items())
def test_a_name_that_type_checkers_see_exists(name: str, module: str) -> None:
    assert getattr(allotment, name) is getattr(import_module(module), name)


def test_the_names_are_listed() -> None:
    assert set(allotment.__all__) == {*typed(), "__version__"}
    assert set(dir(allotment)) >= {*allotment.__all__, "__name__", "__doc__"}
    unknown = "Labs"
    with pytest.raises(AttributeError, match="module 'allotment' has no attribute 'Labs'"):
        getattr(allotment, unknown)


def test_importing_the_package_does_not_import_the_control_plane() -> None:
    script = (
        "import allotment, sys; dir(allotment); print([name for name in sys.modules if name.startswith('allotment.')])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "[]\n"
