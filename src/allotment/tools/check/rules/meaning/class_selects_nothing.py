"""M418: a class that none of the given devices belongs to."""

from __future__ import annotations

from collections.abc import Iterator

from allotment.engine.refusal import Diagnosis
from allotment.model.core import Node
from allotment.model.resource import DeviceClass
from allotment.tools.check import examples
from allotment.tools.check.bundle import Bundle
from allotment.tools.check.hardware.cluster_devices import cluster_devices
from allotment.tools.check.rule import RuleMatch, Rule
from allotment.tools.explain import explain
from allotment.tools.explain.subjects import user_of_class
from allotment.tools.views import at

#: Reasons that are no mistake in a name or expression; of those other rules tell.
_REPORTED_REASONS = ("class-matches-nothing", "not-enough-capacity")


def _find(bundle: Bundle) -> Iterator[RuleMatch]:
    devices = cluster_devices(bundle)
    if devices is None or bundle.cluster is None:
        return
    requested = {request.class_name for claim in bundle.claims for request in claim.requests}
    requested |= {str(name) for pod in bundle.pods for container in pod.containers for name in container.limits}
    for document, manifest in bundle.manifests.items():
        value = manifest.value
        if not isinstance(value, DeviceClass) or requested & {value.metadata.name, value.spec.extended_resource_name}:
            continue  # of one that is asked for, the proof tells (P501)
        selected = devices.selected_by_class(value)
        if selected or not selected.devices or any(node.error for node in selected.nodes):
            continue
        headline = _diagnosis(bundle, value).headline
        if headline.code not in _REPORTED_REASONS:
            continue
        path = ("spec", "selectors") if at(document.tree, ("spec", "selectors")) else ()
        yield RuleMatch(
            document,
            path,
            f"class {value.metadata.name} selects none of the cluster's {selected.devices} devices: {headline.summary}"
            if selected.devices > 1
            else f"class {value.metadata.name} does not select the cluster's only device: {headline.summary}",
            help=f"nearest miss: {headline.nearest}" if headline.nearest is not None else "",
            at_key=bool(path),
        )


def _diagnosis(bundle: Bundle, device_class: DeviceClass) -> Diagnosis:
    """What a claim for one device of the class is refused for."""
    assert bundle.cluster is not None
    claim = user_of_class(device_class)
    state = (*bundle.cluster.of(Node), *(bundle.slices or ()))
    (answer,) = explain([*state, device_class, claim], bundle.features, tries=0).answers
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
