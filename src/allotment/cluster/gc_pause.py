"""A pause of Python's garbage collector while a program creates many objects and hardly any garbage."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def gc_paused() -> Iterator[None]:
    """Disable collections, for example during startup, or in a command that ends within seconds: scanning all objects
    again and again would take a quarter of the time."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()
