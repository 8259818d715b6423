"""M416: a pod that asks the device plugin for GPUs and has claims for them as well."""

from __future__ import annotations

import re
from collections.abc import Iterator

from allotment.tools.check import examples
from allotment.tools.check.bundle import Bundle
from allotment.tools.check.claims.references import ClaimReference, references_of_pod
from allotment.tools.check.claims.requested_devices import requested_types
from allotment.tools.check.rule import RuleMatch, Rule
from allotment.tools.views import PodView

#: The resources of vendors' device plugins for GPUs.
_PLUGIN_RESOURCES = (
    ("nvidia", re.compile(r"nvidia\.com/(gpu|mig-.+|gpu\.shared)")),
    ("amd", re.compile(r"amd\.com/gpu")),
    ("intel", re.compile(r"gpu\.intel\.com/.+|habana\.ai/gaudi")),
)
#: Devices that are claimed beside GPUs, and not instead of them.
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
                    f"container {container} asks for {resource}, and the pod has {claimed[vendor].description} for GPUs of "
                    "the same vendor: it gets both, or waits for ever where only one of them is served",
                    help="leave the limit out, and name the claim in resources.claims",
                    at_key=True,
                )


def _vendors(bundle: Bundle, reference: ClaimReference) -> set[str]:
    types = [requested_types(bundle, request) for request in (reference.view.requests if reference.view else ())]
    return {requested_.vocabulary.vendor for requested_ in types if requested_ is not None and requested_.vocabulary.driver not in _OTHER_DRIVERS}


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
    summary="a pod has claims for GPUs and asks the device plugin for GPUs of the same vendor",
    why=(
        "A limit such as nvidia.com/gpu and a claim are two requests: the pod gets a GPU for each. Device plugin and "
        "DRA driver hand out the same cards without knowing of each other, so vendors want one of them per node; then "
        "no node can serve such a pod. It is what is left when a manifest is migrated by half. Where a class stands "
        "for the resource (extendedResourceName, KEP-5004), the limit alone is a claim."
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
