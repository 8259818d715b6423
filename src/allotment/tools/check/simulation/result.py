"""The proof of a bundle, made once for the rules that tell of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from allotment.model.loading import Document
from allotment.model.loading.marks import Path
from allotment.model.meta import ObjectKey
from allotment.tools.check.bundle import Bundle
from allotment.tools.check.rule import Rule
from allotment.tools.check.simulation.trial import Pending, Proof, prove

#: Reasons of the allocator, and the rules that say the same of the object that is to blame.
_EXPLAINED: Final[Mapping[str, frozenset[str]]] = {
    "driver-missing": frozenset({"V305"}),
    "unknown-driver": frozenset({"V305"}),
    "unknown-attribute": frozenset({"V301", "V302", "V303"}),
    "class-missing": frozenset({"V306"}),
    "extended-resource-missing": frozenset({"V306"}),
    "not-enough-capacity": frozenset({"V308"}),
    "selector-fails": frozenset({"C207", "V301", "V302", "V303"}),
    "claim-missing": frozenset({"M405", "M406"}),
    "template-missing": frozenset({"M405", "M406"}),
    "wrong-namespace": frozenset({"M405", "M406"}),
    "constraint-attribute-unpublished": frozenset({"M403", "V303"}),
}


class Error(NamedTuple):
    """An error that another rule tells of."""

    code: str
    document: Document
    path: Path


class Tried(NamedTuple):
    """The proof, and the errors that other rules tell of."""

    proof: Proof
    errors: tuple[Error, ...]

    def is_told(self, bundle: Bundle, pending: Pending) -> bool:
        """Whether an error is told of at the place, or is the reason: of the object, or of a class that it names."""
        reasons = pending.answers[0].reasons
        rules = _EXPLAINED.get(reasons.headline.code, frozenset()) if reasons is not None else frozenset()
        blamed = {pending.document, *_classes(bundle, pending.document)}
        return any(
            (one.code in rules and one.document in blamed)
            or (one.document is pending.document and all(a == b for a, b in zip(one.path, pending.path, strict=False)))
            for one in self.errors
        )


def _classes(bundle: Bundle, document: Document) -> Iterator[Document]:
    """The classes of the files that a claim or template names, or those that the claims of a pod name."""
    keys = [
        (entry.kind, ObjectKey(pod.key.namespace, entry.refers_to))
        for pod in bundle.pods
        if pod.document is document
        for entry in pod.entries
    ]
    views = [view for view in bundle.claims if view.document is document]
    views += [bundle.claims_by_key[key] for key in keys if key in bundle.claims_by_key]
    names = {request.class_name for view in views for request in view.requests}
    return (one.document for one in bundle.classes if one.name in names)


def tried(bundle: Bundle, rules: tuple[Rule, ...]) -> Tried | None:
    """What comes of the files in the given cluster; None where none was given.

    Documents that the API server would refuse, by what the other ``rules`` find in them, are left out.
    """
    return bundle.kept(_tried, rules)


def _tried(bundle: Bundle, rules: tuple[Rule, ...]) -> Tried | None:
    if not bundle.slices or bundle.world is None:
        return None
    flawed: set[Document] = set()
    errors: list[Error] = []
    for rule in rules:
        for found in bundle.found(rule.find):
            if (found.level or rule.level) == "error":
                errors.append(Error(rule.code, found.document, found.path))
                if rule.family in ("shape", "cel"):
                    flawed.add(found.document)
    return Tried(prove(bundle, bundle.world, flawed), tuple(errors))
