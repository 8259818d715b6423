"""Planted faults are valid Python, and each changes the program."""

import ast
from pathlib import Path

import pytest

from tests.mutation.mutants import mutants

_MODULES = sorted((Path(__file__).parents[2] / "src" / "allotment" / "engine").rglob("*.py"))


@pytest.mark.parametrize("module", _MODULES[::8], ids=lambda path: path.stem)
def test_each_fault_of_a_module_is_another_valid_program(module: Path) -> None:
    source = module.read_bytes()
    program = ast.dump(ast.parse(source))
    for mutant in mutants(source)[::5]:
        planted = ast.dump(ast.parse(mutant.planted(source)))
        assert planted != program, mutant


def test_annotations_docstrings_and_messages_get_no_fault() -> None:
    source = b'def f(a: "dict[int, bool]" = {}) -> int:\n    """1 < 2"""\n    assert a, f"{1 + 1}"\n'
    assert mutants(source) == []
