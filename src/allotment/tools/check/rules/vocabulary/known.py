"""The words of drivers that a bundle is checked for, and what the given slices publish of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from allotment.engine.diagnosis.names import likeness, near
from allotment.tools.check.bundle import Bundle
from allotment.tools.check.reaching import words_of
from allotment.vocabulary import Vocabulary, drivers

#: From here on two names differ by a slip of the finger, not by what they mean.
SLIP = 0.85


def vocabularies(bundle: Bundle) -> Iterator[Vocabulary]:
    """The words of every known driver, in the release that the files are checked for."""
    for driver in drivers():
        words = words_of(bundle, driver)
        if words is not None:
            yield words


def slip(name: str, known: Iterable[str]) -> str:
    """The name that ``name`` is a slip of the finger for; empty if it is none of them.

    >>> slip("gpu.nvida.com", ["gpu.nvidia.com", "gpu.amd.com"]), slip("driver.example.com", ["gpu.example.com"])
    ('gpu.nvidia.com', '')
    """
    best = near(name, known, 1)
    return best[0] if best and likeness(name, best[0]) >= SLIP else ""


def either(names: Iterable[str], last: str = "or") -> str:
    """Names in a sentence.

    >>> either(["a"]), either(["a", "b"]), either(["a", "b", "c"], "and")
    ('a', 'a or b', 'a, b and c')
    """
    listed = list(names)
    return f" {last} ".join(filter(None, (", ".join(listed[:-1]), *listed[-1:])))


def quoted(name: str) -> str:
    """A name as messages have it."""
    return f'"{name}"'
