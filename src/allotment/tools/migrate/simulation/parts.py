"""Pods of kinds that are not Kubernetes' own: their specs are those of pods, whatever their operator does with them."""

from __future__ import annotations

import msgspec

from allotment.model.core import Pod, PodSpec
from allotment.model.fields import shape_of
from allotment.model.meta import ObjectMeta
from allotment.model.quantity import QuantityError
from allotment.model.strict_decoding import check
from allotment.model.trees import to_value
from allotment.tools.views import PodView


def pods_of_part(view: PodView, namespace: str, limit: int) -> tuple[Pod, ...]:
    """As many pods as run at once; none where the spec cannot be read."""
    spec = _spec(view)
    if spec is None:
        return ()
    stem = "-".join(word for word in (view.key.name, view.part) if word) or "pod"
    names = (f"{stem}-{number}" for number in range(min(view.replicas, limit)))
    return tuple(Pod(metadata=ObjectMeta(name=name, namespace=namespace), spec=spec) for name in names)


def _spec(view: PodView) -> PodSpec | None:
    shape = shape_of("v1", "Pod")
    assert shape is not None
    checked = check({"apiVersion": "v1", "kind": "Pod", "spec": view.tree}, "v1", "Pod", shape)
    if any(misfit.sort != "unknown" for misfit in checked.misfits):
        return None
    try:
        return to_value(checked.tree.get("spec") or {}, PodSpec)
    except (msgspec.ValidationError, QuantityError):
        return None
