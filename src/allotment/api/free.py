"""The devices of a cluster: which are free, and who uses the others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from msgspec.structs import replace

from allotment.api.cluster import Cluster
from allotment.api.load import Source
from allotment.api.objects.inputs import ClusterState
from allotment.api.objects.unread_resources import OF_DEVICES, must_know
from allotment.api.question import Question
from allotment.cluster.inspection.snapshot import DEVICES
from allotment.errors import InputError
from allotment.explanation.node_eligibility import eligibility_nodes, unschedulable_nodes
from allotment.explanation.orphaned_slices import orphaned_note
from allotment.model.core import Toleration
from allotment.shell_words import shell_line
from allotment.tools.free import FreeReport
from allotment.tools.free import free as report_on
from allotment.tools.unread import unread_notes, unread_resources

_EFFECTS: Final = ("NoSchedule", "NoExecute", "PreferNoSchedule")
#: The reason of a node that is only cordoned.
_CORDONED: Final = "cordoned"


def free(
    cluster: Cluster | None = None,
    *,
    objects: Source | None = None,
    tolerations: Sequence[str | Toleration] = (),
    namespace: str | None = None,
) -> FreeReport:
    """Return all devices of a cluster, which of them are free, and who uses the others.

    ``cluster``: by default the running one, unless there are objects. ``objects``: manifests to add to it, such as
    slices and claims; ``namespace``: that of objects which state none. ``tolerations``: devices on nodes whose taints
    they tolerate count as free, for example ``nvidia.com/gpu`` or ``dedicated=ml:NoSchedule``.

    Raises InputError for an invalid toleration, InvalidManifests for objects, StatusError and Unreachable for a
    cluster.
    """
    listed = (tolerations,) if isinstance(tolerations, str) else tolerations
    tolerated = [each if isinstance(each, Toleration) else _toleration(each) for each in listed]
    question = Question.of(objects, cluster, namespace).read(DEVICES)
    state = ClusterState.of(question.inputs)
    closed = unschedulable_nodes(eligibility_nodes(state.nodes, state.slices), tolerated)
    return answer(question, lambda: report_on(state.inventory(), state.claims, closed), state.gone)


def answer(question: Question, report: Callable[[], FreeReport], gone: Sequence[str]) -> FreeReport:
    """Return a report on the devices of a question that has been read, with notes and the next step.

    ``gone``: nodes that exist only in slices. Raises InputError if slices or claims could not be read.
    """
    inputs = question.inputs
    must_know(inputs.cluster, "resourceslices", "resourceclaims")
    unread = unread_resources(inputs.cluster, (*OF_DEVICES, "devicetaintrules"))
    orphaned = [orphaned_note(gone)] if gone else []
    notes = tuple(dict.fromkeys((*inputs.notes, *unread_notes(unread), *orphaned)))
    found = report()
    return replace(found, unread=unread, next=_next(found, question), notes=notes)


def _next(report: FreeReport, question: Question) -> str:
    """Return the command that helps most if no device is free: uncordon a node, or show who uses the devices.

    If there are no devices at all, it is `allot doctor`; described hardware is never in use.
    """
    origin = question.cluster.origin
    is_described = origin.place == "hardware" and bool(origin.options)
    if is_described or any(device.state == "free" for node in report.nodes for device in node.devices):
        return ""
    if not report.count():
        is_cluster = origin.place != "hardware" and question.is_repeatable
        return shell_line(("allot", "doctor", *question.options)) if is_cluster else ""
    kubectl = ("kubectl", *origin.connection)
    for node in report.nodes:
        if node.unschedulable == _CORDONED and any(device.state == "unschedulable" for device in node.devices):
            return shell_line((*kubectl, "uncordon", node.node))
    for holder in (holder for node in report.nodes for device in node.devices for holder in device.holders):
        namespace, _, claim = holder.claim.rpartition("/")
        return shell_line((*kubectl, "describe", "resourceclaim", claim, "-n", namespace))
    return ""


def _toleration(text: str) -> Toleration:
    """Return a toleration from the syntax of ``kubectl taint``: ``key``, ``key=value`` or ``key=value:effect``.

    >>> _toleration("nvidia.com/gpu").operator, _toleration("dedicated=ml:NoSchedule").value
    ('Exists', 'ml')
    """
    rest, colon, effect = text.partition(":")
    key, equal, value = rest.partition("=")
    if not key or (colon and effect not in _EFFECTS):
        raise InputError(
            f"expected KEY[=VALUE][:EFFECT] with effect {', '.join(_EFFECTS)}, found {text!r}",
            "for example, nvidia.com/gpu",
            argument="tolerations",
        )
    return Toleration(key=key, operator="Equal" if equal else "Exists", value=value, effect=effect)
