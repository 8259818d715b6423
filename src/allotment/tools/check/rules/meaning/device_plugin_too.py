"""M416: a pod requests GPUs from the device plugin and also has claims for them."""

from __future__ import annotations

import re
from collections.abc import Iterator

from allotment.tools.check import examples
from allotment.tools.check.bundle import Bundle
from allotment.tools.check.claims.references import ClaimReference, references_of_pod
from allotment.tools.check.claims.requested_devices import requested_types
from allotment.tools.check.rule import Rule, RuleMatch
from allotment.tools.views import PodView

#: The resources of vendors' device plugins for GPUs.
_PLUGIN_RESOURCES = (
    ("nvidia", re.compile(r"nvidia\.com/(gpu|mig-.+|gpu\.shared)")),
    ("amd", re.compile(r"amd\.com/gpu")),
    ("intel", re.compile(r"gpu\.intel\.com/.+|habana\.ai/gaudi")),
)
#: Drivers of devices that are claimed in addition to GPUs.
_OTHER_DRIVERS = ("compute-domain.nvidia.com",)


def _find(bundle: Bundle) -> Iterator[RuleMatch]:
    for pod in bundle.pods:
        claimed: dict[str, ClaimReference] = {}
        for reference in references_of_pod(bundle, pod):
            if reference.view is not None:
                claimed.update(dict.fromkeys(_vendors(bundle, reference), reference))
        for path, resource, container in _extended_resources(pod) if claimed else ():
            vendor = next((vendor for vendor, names in _PLUGIN_RESOURCES if names.fullmatch(resource)), "")
            if vendor in claimed:
                yield RuleMatch(
                    pod.document,
                    path,
                    f"container {container} requests {resource}, and the pod references {claimed[vendor].description} "
                    "for GPUs of the same vendor: the pod gets GPUs from both, or stays pending if no node offers both",
                    help="remove the limit, and name the claim in resources.claims",
                    at_key=True,
                )


def _vendors(bundle: Bundle, reference: ClaimReference) -> set[str]:
    types = [requested_types(bundle, request) for request in (reference.view.requests if reference.view else ())]
    return {
        request_types.vocabulary.vendor
        for request_types in types
        if request_types is not None and request_types.vocabulary.driver not in _OTHER_DRIVERS
    }


def _extended_resources(pod: PodView) -> Iterator[tuple[tuple[str | int, ...], str, str]]:
    for container in pod.containers:
        for field, amounts in (("limits", container.limits), ("requests", container.requests)):
            for resource, amount in amounts.items():
                if field == "requests" and resource in container.limits:
                    continue
                if str(amount) != "0":
                    yield (*container.path, "resources", field, resource), resource, container.name


RULE = Rule(
    code="M416",
    name="device-plugin-too",
    family="meaning",
    level="warning",
    summary="a pod has claims for GPUs and also requests GPUs of the same vendor from the device plugin",
    why=(
        "A limit such as nvidia.com/gpu and a claim are two separate requests: the pod gets a GPU for each. A device "
        "plugin and a DRA driver allocate the same cards without coordination, so vendors allow only one of them on a "
        "node, and then no node can run such a pod. This is typical of an incomplete migration. If a DeviceClass "
        "defines the resource (extendedResourceName, KEP-5004), the limit alone is enough: Kubernetes creates a claim "
        "for it."
    ),
    bad=examples.join_documents(
        examples.template("single-gpu"),
        examples.pod(
            "server",
            "resourceClaimTemplateName: single-gpu",
            resources="limits:\n  nvidia.com/gpu: 1\n  memory: 8Gi\nclaims:\n- name: gpu",
        ),
    ),
    good=examples.join_documents(
        examples.template("single-gpu"),
        examples.pod(
            "server", "resourceClaimTemplateName: single-gpu", resources="limits:\n  memory: 8Gi\nclaims:\n- name: gpu"
        ),
    ),
    find=_find,
    see="https://kep.k8s.io/5004",
)
