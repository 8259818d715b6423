"""The source tree of Allotment: the application of its demonstration is there, and in no wheel."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType

#: The demonstration's application: a package in the folder of examples.
APPLICATION = "gpu_fractal"


def examples_folder() -> Path | None:
    """The folder of examples, if this package is that of a source tree; None where it is installed by itself."""
    folder = Path(__file__).parents[2] / "examples"
    return folder if (folder / APPLICATION).is_dir() else None


def application_module(folder: Path, module: str) -> ModuleType:
    """A module of the demonstration's application, whose source is in ``folder``."""
    if str(folder) not in sys.path:
        sys.path.append(str(folder))
    return import_module(f"{APPLICATION}.{module}")
