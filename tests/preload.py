"""Libraries that change what a program gets from the system, loaded with LD_PRELOAD."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path


def compiled(source: Path, folder: Path) -> Path | None:
    """Compile a library; None if there is no C compiler, or the system is not Linux."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None or sys.platform != "linux":
        return None
    library = folder / f"{source.stem}.so"
    command = [compiler, "-shared", "-fPIC", "-O1", "-Wall", "-Werror", "-o", str(library), str(source), "-ldl"]
    subprocess.run([*command, "-lpthread"], check=True)
    return library
