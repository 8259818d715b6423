"""The programs of the recipes, as type checkers see them."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Final

from tests.docs.screens import DOCS, ROOT

_PROGRAM: Final = re.compile(r"^```python\n# (\S+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def test_the_programs_pass_strict_type_checks(tmp_path: Path) -> None:
    programs = dict(_PROGRAM.findall((DOCS / "api" / "recipes.md").read_text(encoding="utf-8")))
    assert {"repair.py", "fpga.py", "test_operator.py"} <= programs.keys()
    for name, program in programs.items():
        (tmp_path / name).write_text(program, encoding="utf-8")
    # With the options and the folder of `make lint`, whose results for the package are then reused, and stay valid.
    checked = subprocess.run(
        [sys.executable, "-m", "mypy", *(tmp_path / name for name in programs)],
        cwd=ROOT, capture_output=True, text=True, timeout=280, check=False,
    )  # fmt: skip
    assert checked.returncode == 0, checked.stdout
