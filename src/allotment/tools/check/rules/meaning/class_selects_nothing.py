"""M418: a class that none of the given devices belongs to."""

from __future__ import annotations

from collections.abc import Iterator

from allotment.engine.refusal import Diagnosis
from allotment.model.core import Node
from allotment.model.resource import DeviceClass
from allotment.tools.check import examples
from allotment.tools.check.bundle import Bundle
from allotment.tools.check.hardware.cluster_devices import devices_of
from allotment.tools.check.rule import Found, Rule
from allotment.tools.explain import explain
from allotment.tools.explain.subjects import user_of_class
from allotment.tools.views import at

#: Reasons that are no mistake in a name or expression; of those other rules tell.
_OWN = ("class-matches-nothing", "not-enough-capacity")


def _find(bundle: Bundle) -> Iterator[Found]:
    devices = devices_of(bundle)
    if devices is None or bundle.world is None:
        return
    asked = {request.class_name for claim in bundle.claims for request in claim.requests}
    asked |= {str(name) for pod in bundle.pods for container in pod.containers for name in container.limits}
    for document, manifest in bundle.manifests.items():
        value = manifest.value
        if not isinstance(value, DeviceClass) or asked & {value.metadata.name, value.spec.extended_resource_name}:
            continue  # of one that is asked for, the proof tells (P501)
        found = devices.of_class(value)
        if found or not found.devices or any(node.error for node in found.nodes):
            continue
        told = _why(bundle, value).headline
        if told.code not in _OWN:
            continue
        path = ("spec", "selectors") if at(document.tree, ("spec", "selectors")) else ()
        yield Found(
            document,
            path,
            f"class {value.metadata.name} selects none of the cluster's {found.devices} devices: {told.summary}"
            if found.devices > 1
            else f"class {value.metadata.name} does not select the cluster's only device: {told.summary}",
            help=f"nearest miss: {told.nearest}" if told.nearest is not None else "",
            key=bool(path),
        )


def _why(bundle: Bundle, device_class: DeviceClass) -> Diagnosis:
    """What a claim for one device of the class is refused for."""
    assert bundle.world is not None
    probe = user_of_class(device_class)
    state = (*bundle.world.of(Node), *(bundle.slices or ()))
    (answer,) = explain([*state, device_class, probe], bundle.features, tries=0).answers
    assert answer.reasons is not None  # a class that selects nothing gives nothing
    return answer.reasons


_EXPRESSION = """\
device.driver == "gpu.nvidia.com" &&
device.capacity["gpu.nvidia.com"].memory.compareTo(quantity("{}")) >= 0
"""

RULE = Rule(
    code="M418",
    name="class-selects-nothing",
    family="meaning",
    level="warning",
    summary="a DeviceClass selects none of the devices of the given cluster",
    why=(
        "A DeviceClass is taken whether or not any device satisfies it; who asks for it waits. With --cluster or "
        "--fleet its selectors are run over the devices that are published. Of a class that a claim of the files asks "
        "for, the proof tells instead (P501)."
    ),
    bad=examples.device_class("large-gpu", _EXPRESSION.format("80Gi")),
    good=examples.device_class("large-gpu", _EXPRESSION.format("40Gi")),
    find=_find,
    see="https://kubernetes.io/docs/concepts/scheduling-eviction/dynamic-resource-allocation/#deviceclass",
    fleet="dgx-a100-40gb",
)
