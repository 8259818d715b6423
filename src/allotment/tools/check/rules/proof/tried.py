"""The proof of a bundle, made once for the rules that tell of it."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from allotment.model.loading import Document
from allotment.model.loading.marks import Path
from allotment.tools.check.bundle import Bundle
from allotment.tools.check.proof import Proof, prove


class Tried(NamedTuple):
    """The proof, and where other rules tell of an error."""

    proof: Proof
    errors: tuple[tuple[Document, Path], ...]

    def is_told(self, document: Document, path: Path) -> bool:
        """Whether an error is told of at a place, of something in it, or of what it is in."""
        return any(one is document and all(a == b for a, b in zip(at, path, strict=False)) for one, at in self.errors)


@lru_cache(maxsize=2)
def tried(bundle: Bundle) -> Tried | None:
    """What comes of the files in the given cluster; None where none was given.

    Documents that the API server would refuse are left out.
    """
    from allotment.tools.check.rules import RULES  # the table of all rules has those of the proof in it, too

    if not bundle.slices or bundle.world is None:
        return None
    flawed: set[Document] = set()
    errors: list[tuple[Document, Path]] = []
    for rule in RULES:
        for found in rule.find(bundle) if rule.family != "proof" else ():
            if (found.level or rule.level) == "error":
                errors.append((found.document, found.path))
                if rule.family in ("shape", "cel"):
                    flawed.add(found.document)
    return Tried(prove(bundle, bundle.world, flawed), tuple(errors))
