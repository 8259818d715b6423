"""Pods that have a node, but cannot start, because their devices cannot be prepared there, as their events say."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from allotment.api.explain import last_prepare_error
from allotment.explanation.prepare_errors import PrepareError
from allotment.model.core import Pod
from allotment.model.meta import ObjectKey
from allotment.model.trees import Tree
from allotment.watched.view import ClusterView


def prepare_errors(view: ClusterView) -> Mapping[ObjectKey, PrepareError]:
    """Return the last error of each pod whose devices cannot be prepared."""
    return view.cached("screens.prepare errors", lambda: dict(_errors(view)))


def unprepared_pods(view: ClusterView) -> list[Pod]:
    """Return the pods that cannot start because of such an error, in scheduling order."""
    errors = prepare_errors(view)
    return [
        value
        for value in (view.inputs.cluster if errors else ())
        if isinstance(value, Pod) and value.spec.node_name and value.status.phase == "Pending" and value.key in errors
    ]


def _errors(view: ClusterView) -> Iterator[tuple[ObjectKey, PrepareError]]:
    by_pod: dict[ObjectKey, list[Tree]] = {}
    for event in view.events:
        about = event.get("involvedObject") or event.get("regarding") or {}
        if about.get("kind") == "Pod":
            key = ObjectKey(about.get("namespace") or "", about.get("name") or "")
            by_pod.setdefault(key, []).append(event)
    for pod, events in by_pod.items():
        if (error := last_prepare_error(events)) is not None:
            yield pod, error
