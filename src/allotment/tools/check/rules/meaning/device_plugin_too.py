"""M416: a pod that asks the device plugin for GPUs and has claims for them as well."""

from __future__ import annotations

import re
from collections.abc import Iterator

from allotment.tools.check import examples
from allotment.tools.check.bundle import Bundle
from allotment.tools.check.claims.references import Target, targets_of
from allotment.tools.check.claims.requested_devices import kinds_of
from allotment.tools.check.rule import Found, Rule
from allotment.tools.views import PodView

#: The resources of vendors' device plugins for GPUs.
_PLUGINS = (
    ("nvidia", re.compile(r"nvidia\.com/(gpu|mig-.+|gpu\.shared)")),
    ("amd", re.compile(r"amd\.com/gpu")),
    ("intel", re.compile(r"gpu\.intel\.com/.+|habana\.ai/gaudi")),
)
#: Devices that are claimed beside GPUs, and not instead of them.
_BESIDE = ("compute-domain.nvidia.com",)


def _find(bundle: Bundle) -> Iterator[Found]:
    for pod in bundle.pods:
        claimed: dict[str, Target] = {}
        for target in targets_of(bundle, pod):
            if target.view is not None:
                claimed.update(dict.fromkeys(_vendors(bundle, target), target))
        for path, resource, container in _asked(pod) if claimed else ():
            vendor = next((vendor for vendor, names in _PLUGINS if names.fullmatch(resource)), "")
            if vendor in claimed:
                yield Found(
                    pod.document,
                    path,
                    f"container {container} asks for {resource}, and the pod has {claimed[vendor].what} for GPUs of "
                    "the same vendor: it gets both, or waits for ever where only one of them is served",
                    help="leave the limit out, and name the claim in resources.claims",
                    key=True,
                )


def _vendors(bundle: Bundle, target: Target) -> set[str]:
    known = [kinds_of(bundle, request) for request in (target.view.requests if target.view else ())]
    return {one.words.vendor for one in known if one is not None and one.words.driver not in _BESIDE}


def _asked(pod: PodView) -> Iterator[tuple[tuple[str | int, ...], str, str]]:
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
    bad=examples.together(
        examples.template("single-gpu"),
        examples.pod(
            "server",
            "resourceClaimTemplateName: single-gpu",
            resources="limits:\n  nvidia.com/gpu: 1\n  memory: 8Gi\nclaims:\n- name: gpu",
        ),
    ),
    good=examples.together(
        examples.template("single-gpu"),
        examples.pod(
            "server", "resourceClaimTemplateName: single-gpu", resources="limits:\n  memory: 8Gi\nclaims:\n- name: gpu"
        ),
    ),
    find=_find,
    see="https://kep.k8s.io/5004",
)
