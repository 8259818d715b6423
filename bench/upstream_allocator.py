"""Upstream's side: builds and runs ``bench/upstream``, which wraps the allocator of kube-scheduler. Needs Go."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from bench.measurement import Measurement, parse

SOURCE = Path(__file__).parent / "upstream"


class UpstreamUnavailable(Exception):
    """Raised when upstream cannot be measured here; the text is one line with the reason."""


def build(target: Path) -> Path:
    """Compile the program to ``target``; Go downloads the modules at the versions that ``go.sum`` pins."""
    go = shutil.which("go")
    if go is None:
        raise UpstreamUnavailable("Go is not installed (1.26 or newer is required)")
    command = [go, "build", "-o", str(target.absolute()), "."]
    done = subprocess.run(command, cwd=SOURCE, capture_output=True, text=True, check=False)
    if done.returncode:
        complaint = done.stderr.strip().splitlines() or ["go build failed"]
        raise UpstreamUnavailable(f"`go build` in {SOURCE.name}/ failed: {complaint[-1]}")
    return target


def measure(program: Path, inputs: list[Path]) -> dict[str, Measurement]:
    """Run the program on the input files."""
    done = subprocess.run([program, *inputs], capture_output=True, text=True, check=False)
    if done.returncode:
        raise UpstreamUnavailable(f"{program.name} failed: {done.stderr.strip()}")
    return parse(done.stdout.splitlines())
