"""Containers that refer to a request which their claim does not have.

Kubernetes does not report an error: the pod is scheduled, the claim is allocated, and the container starts without a
device, because the kubelet finds no devices for the request's name. So the mistake is reported although the pod fits.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from allotment.model.core import Pod
from allotment.model.meta import Object, ObjectKey
from allotment.model.resource import ResourceClaim, ResourceClaimSpec, ResourceClaimTemplate
from allotment.model.workload_pods import pods_of


def containers_without_device(values: Iterable[Object], pods: Iterable[Object]) -> Iterator[str]:
    """A sentence for each such container of ``pods`` or workloads; ``values`` contain the claims and templates."""
    claims: dict[ObjectKey, ResourceClaimSpec] = {}
    templates: dict[ObjectKey, ResourceClaimSpec] = {}
    for value in values:
        if isinstance(value, ResourceClaim):
            claims[value.key] = value.spec
        elif isinstance(value, ResourceClaimTemplate):
            templates[value.key] = value.spec.spec
    for value in pods:
        pod = next(iter(pods_of(value, nodes=("any",), limit=1)), None)
        if pod is not None:
            yield from _of_pod(f"{type(value).__name__} {value.key}", pod, claims, templates)


def missing_request_text(container: str, request: str, claim: str, requests: Iterable[str]) -> str:
    """The sentence about a container that refers to a request which the claim or template does not have."""
    return (
        f"container {container} refers to request {request}, which {claim} does not have (its requests: "
        f"{', '.join(requests)}); Kubernetes starts the container without a device"
    )


def _of_pod(
    owner: str, pod: Pod, claims: dict[ObjectKey, ResourceClaimSpec], templates: dict[ObjectKey, ResourceClaimSpec]
) -> Iterator[str]:
    specs: dict[str, tuple[str, ResourceClaimSpec | None]] = {}
    for entry in pod.spec.resource_claims:
        template, claim = entry.resource_claim_template_name, entry.resource_claim_name
        name = template or claim or ""
        known = (templates if template else claims).get(ObjectKey(pod.metadata.namespace, name))
        specs[entry.name] = (f"{'template' if template else 'claim'} {name}", known)
    for container in (*pod.spec.init_containers, *pod.spec.containers):
        for use in container.resources.claims:
            source, spec = specs.get(use.name, ("", None))
            if spec is None or not use.request:
                continue
            requests = [request.name for request in spec.devices.requests]
            if use.request not in requests:
                yield missing_request_text(f"{container.name} of {owner}", use.request, source, requests)
