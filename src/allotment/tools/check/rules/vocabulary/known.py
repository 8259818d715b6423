"""The words of drivers that a bundle is checked for, and what the given slices publish of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from allotment.engine.diagnosis.names import likeness, near
from allotment.tools.check.bundle import Bundle
from allotment.vocabulary import Vocabulary, drivers, vocabulary

#: The domain of names that drivers share (KEP-4381); it belongs to nobody's vocabulary alone.
STANDARD = "resource.kubernetes.io"
#: From here on two names differ by a slip of the finger, not by what they mean.
SLIP = 0.85


def vocabularies(bundle: Bundle) -> Iterator[Vocabulary]:
    """The words of every known driver, in the release that the files are checked for."""
    for driver in drivers():
        words = words_of(bundle, driver)
        if words is not None:
            yield words


def words_of(bundle: Bundle, driver: str) -> Vocabulary | None:
    """The words of a driver in the release that the files are checked for; None for one that is not known."""
    return vocabulary(driver, bundle.settings.drivers.get(driver, ""))


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
