"""The simulation of a bundle, run once for all rules that report it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from allotment.model.loading import Document
from allotment.model.loading.marks import Path
from allotment.model.meta import ObjectKey
from allotment.tools.check.bundle import Bundle
from allotment.tools.check.rule import Rule
from allotment.tools.check.simulation.trial import PendingObject, SimulationOutcome, simulate

#: Reasons of the allocator, and the rules that report the same mistake at the object that causes it.
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


class RuleError(NamedTuple):
    """An error that another rule reports."""

    code: str
    document: Document
    path: Path


class SimulationReport(NamedTuple):
    """The outcome of the simulation, and the errors that other rules report."""

    outcome: SimulationOutcome
    errors: tuple[RuleError, ...]

    def is_explained(self, bundle: Bundle, pending: PendingObject) -> bool:
        """Whether another rule reports an error at the same place, or an error in the object or its class that explains
        it.
        """
        reasons = pending.answers[0].reasons
        rules = _EXPLAINED.get(reasons.headline.code, frozenset()) if reasons is not None else frozenset()
        responsible = {pending.document, *_classes(bundle, pending.document)}
        return any(
            (error.code in rules and error.document in responsible)
            or (
                error.document is pending.document
                and all(a == b for a, b in zip(error.path, pending.path, strict=False))
            )
            for error in self.errors
        )


def _classes(bundle: Bundle, document: Document) -> Iterator[Document]:
    """The classes of the files that a claim or template requests, or that the claims of a pod request."""
    keys = [
        (entry.kind, ObjectKey(pod.key.namespace, entry.refers_to))
        for pod in bundle.pods
        if pod.document is document
        for entry in pod.entries
    ]
    views = [view for view in bundle.claims if view.document is document]
    views += [bundle.claims_by_key[key] for key in keys if key in bundle.claims_by_key]
    names = {request.class_name for view in views for request in view.requests}
    return (device_class.document for device_class in bundle.classes if device_class.name in names)


def simulation_report(bundle: Bundle, rules: tuple[Rule, ...]) -> SimulationReport | None:
    """The simulation of the files in the given cluster; None without a cluster.

    Documents that the API server would reject, according to ``rules``, are left out.
    """
    return bundle.cached(_simulate, rules)


def _simulate(bundle: Bundle, rules: tuple[Rule, ...]) -> SimulationReport | None:
    if not bundle.slices or bundle.cluster is None:
        return None
    invalid: set[Document] = set()
    errors: list[RuleError] = []
    for rule in rules:
        for match in bundle.results_of(rule.find):
            if (match.level or rule.level) == "error":
                errors.append(RuleError(rule.code, match.document, match.path))
                if rule.family in ("shape", "cel"):
                    invalid.add(match.document)
    return SimulationReport(simulate(bundle, bundle.cluster, invalid), tuple(errors))
