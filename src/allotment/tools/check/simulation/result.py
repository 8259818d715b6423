"""The simulation of a bundle, run once for all rules that report it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from allotment.model.editing.conflicts import conflict
from allotment.model.editing.edits import Edit, Remove, ReplaceText
from allotment.model.loading import Document
from allotment.model.loading.marks import Path
from allotment.model.meta import ObjectKey
from allotment.tools.check.bundle import Bundle
from allotment.tools.check.rule import Fix, Rule, RuleMatch
from allotment.tools.check.selectors.expressions import parsed_selectors
from allotment.tools.check.simulation.suggested_fix import suggested_fix
from allotment.tools.check.simulation.trial import PendingObject, SimulationOutcome, simulate
from allotment.tools.views import at

#: Reasons of the allocator, and the rules that report the same mistake at the object that causes it.
_EXPLAINED: Final[Mapping[str, frozenset[str]]] = {
    "driver-missing": frozenset({"V305"}),
    "unknown-driver": frozenset({"V305"}),
    "unknown-attribute": frozenset({"V301", "V302", "V303", "V315"}),
    "class-missing": frozenset({"V306"}),
    "extended-resource-missing": frozenset({"V306", "V313", "V314", "V315"}),
    "class-matches-nothing": frozenset({"V315"}),
    "not-enough-capacity": frozenset({"V308"}),
    "selector-fails": frozenset({"C207", "V301", "V302", "V303"}),
    "claim-missing": frozenset({"M405", "M406"}),
    "template-missing": frozenset({"M405", "M406"}),
    "wrong-namespace": frozenset({"M405", "M406"}),
    "constraint-attribute-unpublished": frozenset({"M403", "V303"}),
}

#: Reasons that no error in a request explains.
_OF_NODES: Final = ("driver-missing",)
#: Rules whose own fix keeps what the tested change loses: the amount of memory that a resource states.
_OWN_FIXES: Final = ("V313", "V315")
#: Rules whose own fix also changes what is not tested: a name in several containers.
_UNTESTED: Final = ("V314",)


class RuleError(NamedTuple):
    """An error that another rule reports."""

    code: str
    document: Document
    path: Path


class SimulationReport(NamedTuple):
    """The outcome of the simulation, and the errors that other rules report."""

    outcome: SimulationOutcome
    errors: tuple[RuleError, ...]

    tested: tuple[Fix | None, ...]
    """The tested fix of each pending object; None if no change of the files helps."""

    def tested_instead(self, bundle: Bundle, code: str, match: RuleMatch) -> Fix | None:
        """The fix of a match of another rule; if it is a guess or missing, or corrects what the tested fix of the same
        field removes, the tested one.

        There is none if nothing was found that helps the object: the guess was tried, too.
        """
        if match.fix is not None and match.fix in self.tested:
            return match.fix
        error = RuleError(code, match.document, match.path)
        if code in _OWN_FIXES and any(_is_cause(error, bundle, pending) for pending in self.outcome.pending):
            return match.fix
        tested = next((fix for fix in self.tested if fix is not None and _is_of_field(fix, match)), None)
        if match.fix is not None and match.fix.safe:
            return tested if tested is not None and _removes(tested, match.fix) else match.fix
        if code not in _UNTESTED and any(
            _has_no_remedy(pending) and _explains(error, bundle, pending) for pending in self.outcome.pending
        ):
            return None
        if tested is not None and match.fix is not None and match.fix.edits == tested.edits:
            return match.fix._replace(safe=tested.safe)
        return tested or match.fix

    def is_explained(self, bundle: Bundle, pending: PendingObject) -> bool:
        """Whether another rule reports an error at the same place, or an error in the object or its class that explains
        it.
        """
        explains = _is_cause if _code_of(pending) in _OF_NODES else _explains
        return any(explains(error, bundle, pending) for error in self.errors)


def _has_no_remedy(pending: PendingObject) -> bool:
    reasons = pending.answers[0].reasons
    return reasons is not None and not reasons.headline.changes


def _code_of(pending: PendingObject) -> str:
    reasons = pending.answers[0].reasons
    return reasons.headline.code if reasons is not None else ""


def _explains(error: RuleError, bundle: Bundle, pending: PendingObject) -> bool:
    """Whether the error of a rule is the reason why an object stays pending, or is at the same place."""
    is_same = error.document is pending.document and all(a == b for a, b in zip(error.path, pending.path, strict=False))
    return is_same or _is_cause(error, bundle, pending)


def _is_cause(error: RuleError, bundle: Bundle, pending: PendingObject) -> bool:
    rules = _EXPLAINED.get(_code_of(pending), frozenset())
    return error.code in rules and error.document in (pending.document, *_classes(bundle, pending.document))


def _is_of_field(tested: Fix, match: RuleMatch) -> bool:
    """Whether a tested fix changes what the fix of a match changes, or the field of a match without a fix."""
    if match.fix is None:
        return any(document is match.document and edit.path == match.path for document, edit in tested.edits)
    return any(d is own and conflict(edit, other) for d, edit in tested.edits for own, other in match.fix.edits)


def _removes(tested: Fix, own: Fix) -> bool:
    """Whether a tested fix removes more of a text than the fix of a match, which would only correct it."""
    return any(
        isinstance(edit, Remove) or (_is_removal(edit) and _replaced(document, edit) != _replaced(document, other))
        for document, edit in tested.edits
        for changed, other in own.edits
        if document is changed and conflict(edit, other)
    )


def _is_removal(edit: Edit) -> bool:
    return isinstance(edit, ReplaceText) and not edit.text.strip()


def _replaced(document: Document, edit: Edit) -> str:
    """The text that an edit replaces, without the space around it; empty if it changes no text."""
    return str(at(document.tree, edit.path))[edit.start : edit.stop].strip() if isinstance(edit, ReplaceText) else ""


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
    if bundle.cluster is None or not (bundle.slices or bundle.nodes):
        return None
    # The API server accepts expressions that fail only at evaluation.
    invalid = {view.document for view, expression in parsed_selectors(bundle) if expression.error is not None}
    errors: list[RuleError] = []
    for rule in rules:
        for match in bundle.results_of(rule.find):
            if (match.level or rule.level) == "error" or rule.code in _OWN_FIXES:
                errors.append(RuleError(rule.code, match.document, match.path))
                if rule.family == "shape":
                    invalid.add(match.document)
    outcome = simulate(bundle, bundle.cluster, invalid)
    headlines = (pending.answers[0].reasons for pending in outcome.pending)
    tested = (suggested_fix(bundle, reasons.headline.changes) if reasons else None for reasons in headlines)
    return SimulationReport(outcome, tuple(errors), tuple(tested))
