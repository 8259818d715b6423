"""M418: a DeviceClass that selects none of the devices of the given cluster."""

from __future__ import annotations

from collections.abc import Iterator

from allotment.engine.refusal import Diagnosis
from allotment.explanation import explain
from allotment.explanation.subjects import user_of_class
from allotment.model.core import Node
from allotment.model.resource import DeviceClass
from allotment.tools.check import examples
from allotment.tools.check.bundle import Bundle
from allotment.tools.check.hardware.cluster_devices import cluster_devices
from allotment.tools.check.rule import Rule, RuleMatch
from allotment.tools.views import at

#: Reasons that are not mistakes in a name or expression, which other rules report.
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
            continue  # P501 covers requested classes
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
    """The reason why a claim for one device of the class stays pending."""
    assert bundle.cluster is not None
    claim = user_of_class(device_class)
    state = (*bundle.cluster.of(Node), *(bundle.slices or ()))
    (answer,) = explain([*state, device_class, claim], bundle.features, tries=0).answers
    assert answer.reasons is not None  # a claim for a class without devices cannot be allocated
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
    summary="a DeviceClass selects none of the devices in the given cluster",
    why=(
        "A DeviceClass is accepted whether or not any device matches; if none does, claims that request the class "
        "stay pending. With --cluster or --fleet, the selectors of the class are evaluated against the published "
        "devices. A class that is requested by a claim in the files is covered by the simulation instead (P501)."
    ),
    bad=examples.device_class("large-gpu", _EXPRESSION.format("80Gi")),
    good=examples.device_class("large-gpu", _EXPRESSION.format("40Gi")),
    find=_find,
    see="https://kubernetes.io/docs/concepts/scheduling-eviction/dynamic-resource-allocation/#deviceclass",
    fleet="dgx-a100-40gb",
)
