"""Threads decode the same types at the same time: two labs in one process, a test that reads what its lab writes."""

from __future__ import annotations

import ast
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCES = Path(__file__).parents[2] / "src" / "allotment"
#: The functions of msgspec to which a struct is passed.
DECODING = frozenset({"convert", "decode", "Decoder"})
#: Types without fields need no preparation.
PLAIN = ("dict[", "list[list[Any]]", "tuple[str", "Tree", "decodable(")


@pytest.mark.parametrize("attempt", range(3))
def test_threads_decode_a_type_for_the_first_time_together(attempt: int) -> None:
    script = textwrap.dedent("""
        import sys, threading
        from allotment.model.core import Pod
        from allotment.model.trees import to_value

        sys.setswitchinterval(1e-6)
        start = threading.Barrier(4)
        tree = {"metadata": {"name": "a", "namespace": "b"}, "spec": {"containers": [{"name": "c"}]}}
        found = []

        def decode():
            start.wait()
            found.append(to_value(tree, Pod))

        threads = [threading.Thread(target=decode) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert [pod.metadata.name for pod in found] == ["a"] * 4
    """)
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (0, "")


def test_every_decoded_type_is_prepared() -> None:
    unprepared = [found for file in sorted(SOURCES.rglob("*.py")) for found in _unprepared(file)]
    assert unprepared == []


def _unprepared(file: Path) -> Iterator[str]:
    """The calls of msgspec in functions of a file whose type is not `decodable`; at import there is one thread."""
    tree = ast.parse(file.read_text())
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    for call in (node for function in functions for node in ast.walk(function) if isinstance(node, ast.Call)):
        name = ast.unparse(call.func)
        if not name.startswith("msgspec.") or name.rpartition(".")[2] not in DECODING:
            continue
        named = [keyword.value for keyword in call.keywords if keyword.arg == "type"]
        positional = call.args[1:2] if name == "msgspec.convert" else call.args[:1] if name.endswith("Decoder") else []
        for type_ in (*named, *positional):
            if not ast.unparse(type_).startswith(PLAIN) and file.name != "decoding.py":
                yield f"{file.relative_to(SOURCES)}:{call.lineno}: {ast.unparse(type_)}"
