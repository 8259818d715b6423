"""The other side: build and run ``bench/upstream``, which wraps the allocator of kube-scheduler. Needs Go."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from bench.measured import Measured, parse

SOURCE = Path(__file__).parent / "upstream"


class Absent(Exception):
    """Raised when upstream cannot be measured here; its text is one line saying why."""


def build(target: Path) -> Path:
    """Compile the program to ``target``; Go fetches the modules at the versions that ``go.sum`` pins."""
    go = shutil.which("go")
    if go is None:
        raise Absent("Go is not installed (1.26 or newer is needed)")
    command = [go, "build", "-o", str(target.absolute()), "."]
    done = subprocess.run(command, cwd=SOURCE, capture_output=True, text=True, check=False)
    if done.returncode:
        complaint = done.stderr.strip().splitlines() or ["go build failed"]
        raise Absent(f"`go build` in {SOURCE.name}/ failed: {complaint[-1]}")
    return target


def measure(program: Path, inputs: list[Path]) -> dict[str, Measured]:
    """Run the program on the input files."""
    done = subprocess.run([program, *inputs], capture_output=True, text=True, check=False)
    if done.returncode:
        raise Absent(f"{program.name} failed: {done.stderr.strip()}")
    return parse(done.stdout.splitlines())
