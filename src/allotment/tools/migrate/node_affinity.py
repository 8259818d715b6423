"""What becomes of nodeSelector and required node affinity: which requirements turn into CEL, and which fields then go.

A nodeSelector's entries hold all together, and so do the expressions of one affinity term; of several terms any is
enough. Several terms therefore become one expression with ``||``, or stay as they are.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from allotment.model.loading.marks import Path
from allotment.tools.migrate.label_translation import Devices, about_gpus, about_plugin, translated
from allotment.tools.migrate.plugin_requests import Term, WorkloadAsk
from allotment.tools.migrate.report import Label
from allotment.tools.views import at, mapping

_EVERY_NODE: Final = "it selects the nodes that run a pod of the DaemonSet"
_TOGETHER: Final = "the terms are alternatives, and not all of their requirements can be expressed for a device"


class Condition(NamedTuple):
    """A CEL expression for a request, and the requirement that it stands for."""

    expression: str
    instead_of: str


class Where(NamedTuple):
    """``conditions`` go into requests; ``removed`` are the paths of fields that go; ``labels`` tell it all."""

    conditions: tuple[Condition, ...] = ()
    removed: tuple[Path, ...] = ()
    labels: tuple[Label, ...] = ()


def where_to(workload: WorkloadAsk, devices: Devices) -> Where:
    """What becomes of a workload's requirements on nodes, for devices of one kind."""
    labels: list[Label] = []
    conditions: list[Condition] = []
    gone: list[Path] = []
    everywhere = (*workload.selector, *(workload.affinity[0] if len(workload.affinity) == 1 else ()))
    for term in everywhere:
        if about_gpus(term):
            label = _label(term, workload, devices)
            labels.append(label)
            if label.expression:
                conditions.append(Condition(label.expression, label.term))
            if label.expression or label.dropped:
                gone.append(term.path)
    if len(workload.affinity) > 1:
        condition, told, terms_gone = _any_of(workload, devices)
        labels += told
        conditions += condition
        gone += terms_gone
    distinct = tuple(dict.fromkeys(conditions))
    return Where(distinct, tuple(_emptied(workload.view.document.tree, gone)), tuple(labels))


def _label(term: Term, workload: WorkloadAsk, devices: Devices) -> Label:
    """What becomes of one requirement. A DaemonSet has a pod on every node that its labels choose: without them it
    would have waiting pods on all others. Only what tells of the device plugin cannot stay."""
    label = translated(term, devices)
    if workload.view.kind == "DaemonSet" and not about_plugin(term) and (label.expression or label.dropped):
        return Label(term=label.term, why=_EVERY_NODE)
    return label


def _any_of(workload: WorkloadAsk, devices: Devices) -> tuple[list[Condition], list[Label], list[Path]]:
    """Several affinity terms as one condition, if all that they demand can be asked of a device."""
    labels = [[_label(term, workload, devices) for term in terms] for terms in workload.affinity]
    flat = [label for terms in labels for label in terms]
    if not any(about_gpus(term) for terms in workload.affinity for term in terms):
        return [], [], []
    fields = any(
        "matchFields" in mapping(at(workload.view.document.tree, terms[0].path[:-2]))
        for terms in workload.affinity
        if terms
    )
    if fields or not all(terms and all(one.expression or one.dropped for one in terms) for terms in labels):
        kept = [Label(term=label.term, why=label.why or _TOGETHER) for label in flat if label.expression or label.why]
        return [], kept, []
    paths = [term.path for terms in workload.affinity for term in terms]
    parts = [" && ".join(one.expression for one in terms if one.expression) for terms in labels]
    if not all(parts):  # a term that every device satisfies
        why = "every device of the request's class meets another term, and one term is enough"
        return [], [Label(term=one.term, dropped=True, why=one.why or why) for one in flat], paths
    expression = " || ".join(f"({part})" for part in dict.fromkeys(parts))
    words = ", or ".join(" and ".join(str(term) for term in terms) for terms in workload.affinity)
    return [Condition(expression, words)], flat, paths


# --- fields that are left empty --------------------------------------------------------------------------------------


def _emptied(tree: dict[str, Any], gone: list[Path]) -> Iterator[Path]:
    """The paths to remove so that ``gone`` go, and with them the fields and items that nothing is left in.

    A term without requirements would match no node at all, so an empty one must not stay.
    """
    left = set(gone)
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
    """Whether a field is part of nodeSelector or affinity, so that it goes when it is empty."""
    return "nodeSelector" in path or "affinity" in path


def _keys(value: Any) -> tuple[str | int, ...]:
    return tuple(range(len(value))) if isinstance(value, list) else tuple(value) if isinstance(value, dict) else ()


def gpu_terms(workload: WorkloadAsk) -> tuple[Term, ...]:
    """The requirements and preferences on labels that say something about GPUs."""
    everything = (*workload.selector, *(term for terms in workload.affinity for term in terms), *workload.preferred)
    return tuple(term for term in everything if about_gpus(term))
