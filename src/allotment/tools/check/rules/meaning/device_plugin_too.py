"""M416: a pod requests GPUs from the device plugin and also has claims for them."""

from __future__ import annotations

from collections.abc import Iterator

from allotment.explanation.container_devices import PLUGIN_RESOURCES, plugin_limit_text
from allotment.tools.check import examples
from allotment.tools.check.bundle import Bundle
from allotment.tools.check.claims.references import ClaimReference, references_of_pod
from allotment.tools.check.claims.requested_devices import requested_types
from allotment.tools.check.objects.container_resources import container_resources, removal_edits
from allotment.tools.check.rule import Fix, Rule, RuleMatch
from allotment.tools.views import ContainerView, PodView

#: Drivers of devices that are claimed in addition to GPUs.
_OTHER_DRIVERS = ("compute-domain.nvidia.com",)


def _find(bundle: Bundle) -> Iterator[RuleMatch]:
    for pod in bundle.pods:
        claimed: dict[str, ClaimReference] = {}
        for reference in references_of_pod(bundle, pod):
            if reference.view is not None:
                claimed.update(dict.fromkeys(_vendors(bundle, reference), reference))
        for path, resource, container in container_resources(pod) if claimed else ():
            vendor = next((vendor for vendor, names in PLUGIN_RESOURCES if names.fullmatch(resource)), "")
            if vendor in claimed:
                yield RuleMatch(
                    pod.document,
                    path,
                    plugin_limit_text(container.name, resource, claimed[vendor].description),
                    help="remove the limit, and name the claim in resources.claims",
                    fix=_fix(pod, container, resource),
                    at_key=True,
                )


def _vendors(bundle: Bundle, reference: ClaimReference) -> set[str]:
    types = [requested_types(bundle, request) for request in (reference.view.requests if reference.view else ())]
    return {
        request_types.vocabulary.vendor
        for request_types in types
        if request_types is not None and request_types.vocabulary.driver not in _OTHER_DRIVERS
    }


def _fix(pod: PodView, container: ContainerView, resource: str) -> Fix | None:
    """The fix that removes the resource from a container that names a claim."""
    if not container.uses:
        return None
    return Fix(f"remove {resource}: the container names a claim", removal_edits(pod, container, resource), safe=False)


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
    fixable="unsafe",
    see="https://kep.k8s.io/5004",
)
