"""The tests nearest to a line: those that executed it when coverage was recorded with test functions as contexts."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

#: What coverage records: which test function executed each line.
_SETTINGS = """\
[run]
dynamic_context = test_function
source = {source}
data_file = {data}
concurrency = thread
"""


def record(checkout: Path, tests: Sequence[str], data: Path) -> str:
    """Run tests in a checkout with coverage; write its data, and return the last line of pytest's output.

    Raises OSError if coverage is not installed or pytest did not end well.
    """
    settings = data.with_name("coveragerc")
    settings.write_text(_SETTINGS.format(source=checkout / "src" / "allotment", data=data))
    command = [sys.executable, "-m", "coverage", "run", f"--rcfile={settings}"]
    command += ["-m", "pytest", "-q", "-p", "no:cacheprovider", *tests]
    ended = subprocess.run(command, cwd=checkout, capture_output=True, text=True, check=False)
    if ended.returncode != 0:
        raise OSError(f"recording which tests execute which lines failed:\n{(ended.stdout + ended.stderr)[-2000:]}")
    return ended.stdout.strip().splitlines()[-1]


class NearestTests:
    """Answers which test functions execute a line, by recorded coverage."""

    def __init__(self, checkout: Path, data: Path) -> None:
        from coverage import CoverageData

        self._checkout = checkout
        self._data: Any = CoverageData(str(data))
        self._data.read()
        self._files: dict[str, dict[int, list[str]]] = {}
        self._ids: dict[str, str | None] = {}

    def of(self, module: Path, line: int, limit: int) -> list[str]:
        """Return the ids of up to ``limit`` tests that execute a line of a module (relative to the checkout).

        Those whose path is most like the module's come first. A line that runs on import has the tests of the module.
        """
        lines = self._files.get(str(module))
        if lines is None:
            lines = self._data.contexts_by_lineno(str(self._checkout / module))
            self._files[str(module)] = lines
        contexts = {context for context in lines.get(line, ()) if context}
        if not contexts:
            contexts = {context for each in lines.values() for context in each if context}
        found = {test for context in contexts if (test := self._id(context)) is not None}
        parts = set(module.with_suffix("").parts)
        return sorted(found, key=lambda test: (-len(parts & set(_parts(test))), test))[:limit]

    def _id(self, context: str) -> str | None:
        """``tests.unit.engine.test_x.test_y`` as pytest names it; None if there is no such file."""
        if context not in self._ids:
            parts = context.split(".")
            self._ids[context] = next(
                (
                    f"{'/'.join(parts[:size])}.py::{'::'.join(parts[size:])}"
                    for size in range(len(parts) - 1, 0, -1)
                    if (self._checkout / ("/".join(parts[:size]) + ".py")).is_file()
                ),
                None,
            )
        return self._ids[context]


def _parts(test: str) -> list[str]:
    path = Path(test.partition("::")[0]).with_suffix("")
    return [part.removeprefix("test_") for part in path.parts]
