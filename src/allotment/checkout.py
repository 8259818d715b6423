"""The source checkout that Allotment runs from, if any, and imports from the demo application in it."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType

#: The package of the demo application in the examples folder.
APPLICATION = "gpu_fractal"


def examples_folder() -> Path | None:
    """The examples folder of the source tree, or None if the package is installed from a wheel."""
    folder = Path(__file__).parents[2] / "examples"
    return folder if (folder / APPLICATION).is_dir() else None


def application_module(folder: Path, module: str) -> ModuleType:
    """Import a module of the demo application from ``folder``."""
    if str(folder) not in sys.path:
        sys.path.append(str(folder))
    return import_module(f"{APPLICATION}.{module}")
