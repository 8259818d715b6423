"""Migrates nodeSelector and required node affinity: requirements that become CEL, and fields to remove.

All entries of a nodeSelector and all expressions of one affinity term must match; of several terms, one must match.
Several terms therefore become one expression with ``||``, or are kept.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from allotment.model.loading.marks import Path
from allotment.tools.migrate.label_translation import Devices, describes_gpus, describes_plugin, translate_term
from allotment.tools.migrate.plugin_requests import Term, WorkloadRequests
from allotment.tools.migrate.report import Label
from allotment.tools.views import at, mapping

_EVERY_NODE: Final = "it selects the nodes that run a pod of the DaemonSet"
_ALTERNATIVES: Final = "the terms are alternatives, and not all of their requirements can be expressed for a device"


class Condition(NamedTuple):
    """A CEL expression for a request, and the requirement that it replaces."""

    expression: str
    instead_of: str


class MigratedAffinity(NamedTuple):
    """``conditions`` for requests, paths of ``removed`` fields, and the outcome for each of the ``labels``."""

    conditions: tuple[Condition, ...] = ()
    removed: tuple[Path, ...] = ()
    labels: tuple[Label, ...] = ()


def migrate_affinity(workload: WorkloadRequests, devices: Devices) -> MigratedAffinity:
    """Migrate a workload's node requirements for devices of one kind."""
    labels: list[Label] = []
    conditions: list[Condition] = []
    removed: list[Path] = []
    required = (*workload.selector, *(workload.affinity[0] if len(workload.affinity) == 1 else ()))
    for term in required:
        if describes_gpus(term):
            label = _label(term, workload, devices)
            labels.append(label)
            if label.expression:
                conditions.append(Condition(label.expression, label.term))
            if label.expression or label.dropped:
                removed.append(term.path)
    if len(workload.affinity) > 1:
        condition, term_labels, removed_terms = _any_of(workload, devices)
        labels += term_labels
        conditions += condition
        removed += removed_terms
    distinct = tuple(dict.fromkeys(conditions))
    return MigratedAffinity(distinct, tuple(_emptied(workload.view.document.tree, removed)), tuple(labels))


def _label(term: Term, workload: WorkloadRequests, devices: Devices) -> Label:
    """The outcome for one requirement.

    A DaemonSet keeps its labels, without which it would have pending pods on all other nodes; only labels of the device
    plugin cannot be kept.
    """
    label = translate_term(term, devices)
    if workload.view.kind == "DaemonSet" and not describes_plugin(term) and (label.expression or label.dropped):
        return Label(term=label.term, why=_EVERY_NODE)
    return label


def _any_of(workload: WorkloadRequests, devices: Devices) -> tuple[list[Condition], list[Label], list[Path]]:
    """Several affinity terms as one condition, if every requirement can be expressed for a device."""
    labels = [[_label(term, workload, devices) for term in terms] for terms in workload.affinity]
    flat = [label for terms in labels for label in terms]
    if not any(describes_gpus(term) for terms in workload.affinity for term in terms):
        return [], [], []
    fields = any(
        "matchFields" in mapping(at(workload.view.document.tree, terms[0].path[:-2]))
        for terms in workload.affinity
        if terms
    )
    if fields or not all(terms and all(label.expression or label.dropped for label in terms) for terms in labels):
        kept = [
            Label(term=label.term, why=label.why or _ALTERNATIVES) for label in flat if label.expression or label.why
        ]
        return [], kept, []
    paths = [term.path for terms in workload.affinity for term in terms]
    parts = [" && ".join(label.expression for label in terms if label.expression) for terms in labels]
    if not all(parts):  # a term that every device satisfies
        why = "every device of the request's class satisfies another term, and one term is enough"
        return [], [Label(term=label.term, dropped=True, why=label.why or why) for label in flat], paths
    expression = " || ".join(f"({part})" for part in dict.fromkeys(parts))
    words = ", or ".join(" and ".join(str(term) for term in terms) for terms in workload.affinity)
    return [Condition(expression, words)], flat, paths


# --- fields that are left empty --------------------------------------------------------------------------------------


def _emptied(tree: dict[str, Any], removed: list[Path]) -> Iterator[Path]:
    """The paths to remove: ``removed``, and the fields and items that become empty.

    A term without requirements matches no node, so an empty term must be removed.
    """
    left = set(removed)
    while True:
        parents = {path[:-1] for path in left}
        empty = {
            parent
            for parent in parents
            if _may_go(parent) and all((*parent, key) in left for key in _keys(at(tree, parent)))
        }
        if not empty:
            break
        left = {path for path in left if path[:-1] not in empty} | empty
    yield from sorted(left, key=lambda path: tuple(str(step).zfill(6) for step in path))


def _may_go(path: Path) -> bool:
    """Whether a field is part of nodeSelector or affinity, so that it is removed when empty."""
    return "nodeSelector" in path or "affinity" in path


def _keys(value: Any) -> tuple[str | int, ...]:
    return tuple(range(len(value))) if isinstance(value, list) else tuple(value) if isinstance(value, dict) else ()


def gpu_terms(workload: WorkloadRequests) -> tuple[Term, ...]:
    """The requirements and preferences on labels that describe GPUs."""
    everything = (*workload.selector, *(term for terms in workload.affinity for term in terms), *workload.preferred)
    return tuple(term for term in everything if describes_gpus(term))
