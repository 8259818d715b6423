"""The fields of a Pod that refer to claims, and its containers' resources. Others are not validated here."""

from __future__ import annotations

from collections.abc import Set as AbstractSet

from allotment.model.core import ContainerResourceClaim, Pod, PodResourceClaim
from allotment.model.meta import ObjectMeta
from allotment.model.validation import names
from allotment.model.validation.container_resources import container_resources
from allotment.model.validation.errors import Errors, duplicate, forbidden, invalid, not_found, required

MIRROR = "kubernetes.io/config.mirror"


def pod_claims(pod: Pod) -> Errors:
    """Validate ``spec.resourceClaims`` and the containers' references to it."""
    yield from resource_claims(pod.spec.resource_claims, pod.metadata)
    claim_names = {claim.name for claim in pod.spec.resource_claims if claim.name}
    for name, containers in (("containers", pod.spec.containers), ("initContainers", pod.spec.init_containers)):
        for index, container in enumerate(containers):
            yield from container_claims(
                container.resources.claims, claim_names, f"spec.{name}[{index}].resources.claims"
            )
    if pod.spec.resources is not None and pod.spec.resources.claims:
        yield forbidden("spec.resources.claims", "claims may not be set for Resources at pod-level")


def pod_resources(pod: Pod) -> Errors:
    """Validate the names and amounts of the containers' resources."""
    for name, containers in (("initContainers", pod.spec.init_containers), ("containers", pod.spec.containers)):
        for index, container in enumerate(containers):
            resources = container.resources
            yield from container_resources(resources.limits, resources.requests, f"spec.{name}[{index}].resources")


def resource_claims(claims: tuple[PodResourceClaim, ...], meta: ObjectMeta, spec: str = "spec") -> Errors:
    """Validate the claims of a pod or of a pod template; ``spec``: the path to its PodSpec."""
    seen: set[str] = set()
    for index, claim in enumerate(claims):
        path = f"{spec}.resourceClaims[{index}]"
        if MIRROR in meta.annotations:
            yield forbidden("", "static pods do not support resource claims")
            continue
        if not claim.name:
            yield required(f"{path}.name")
        elif claim.name in seen:
            yield duplicate(f"{path}.name", claim.name)
        else:
            yield from names.label(claim.name, f"{path}.name")
            seen.add(claim.name)
        by_name, by_template = claim.resource_claim_name, claim.resource_claim_template_name
        if by_name is not None and by_template is not None:
            yield invalid(
                path, claim, "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified"
            )
        if by_name is None and by_template is None:
            yield invalid(path, claim, "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`")
        if by_name is not None:
            yield from names.subdomain(by_name, f"{path}.resourceClaimName")
        if by_template is not None:
            yield from names.subdomain(by_template, f"{path}.resourceClaimTemplateName")


def container_claims(uses: tuple[ContainerResourceClaim, ...], claim_names: AbstractSet[str], path: str) -> Errors:
    """Validate that a container refers to each claim or request once; a claim includes its requests.

    Whether the claim has the request is not checked.
    """
    seen: set[str] = set()
    for index, use in enumerate(uses):
        item_path = f"{path}[{index}]"
        if not use.name:
            yield required(item_path)
            continue
        if use.name in seen:
            yield duplicate(item_path, use.name)
        else:
            key = use.name
            if use.request:
                yield from names.label(use.request, f"{item_path}.request")
                key += f"/{use.request}"
            if key in seen:
                yield duplicate(item_path, key)
            elif not use.request:
                # One error for each earlier reference to a request of the claim.
                for other in seen:
                    if other.partition("/")[0] == use.name:
                        yield duplicate(item_path, use.name)
            seen.add(key)
        if use.name not in claim_names:
            listed = f": {', '.join(sorted(claim_names))}" if claim_names else " which is empty"
            yield not_found(item_path, use.name, f"must be one of the names in pod.spec.resourceClaims{listed}")


def pod_claim_statuses(pod: Pod) -> Errors:
    """Validate the claim statuses that controller and scheduler write to a pod."""
    path, seen = "status.resourceClaimStatuses", set[str]()
    claim_names = {claim.name for claim in pod.spec.resource_claims}
    for index, status in enumerate(pod.status.resource_claim_statuses):
        item_path = f"{path}[{index}]"
        if status.name not in claim_names:
            yield invalid(f"{item_path}.name", status.name, "must match the name of an entry in `spec.resourceClaims`")
        if status.name in seen:
            yield duplicate(f"{item_path}.name", status.name)
        seen.add(status.name)
        if status.resource_claim_name is not None:
            yield from names.subdomain(status.resource_claim_name, f"{item_path}.resourceClaimName")
    yield from _extended_resources(pod)


def _extended_resources(pod: Pod) -> Errors:
    status = pod.status.extended_resource_claim_status
    if status is None:
        return
    path = "status.extendedResourceClaimStatus"
    if not status.request_mappings:
        yield required(f"{path}.requestMappings", "at least one request mapping is required")
    containers = {c.name: c for c in (*pod.spec.init_containers, *pod.spec.containers)}
    seen: set[tuple[str, str, str]] = set()
    for index, mapping in enumerate(status.request_mappings):
        item_path = f"{path}.requestMappings[{index}]"
        container = containers.get(mapping.container_name)
        if container is None:
            yield invalid(
                f"{item_path}.containerName",
                mapping.container_name,
                "must match the name of an entry in spec.initContainers.name or spec.containers.name",
            )
        elif mapping.resource_name not in container.resources.requests:
            yield invalid(
                f"{item_path}.resourceName",
                mapping.resource_name,
                "must match the extended resource name of an entry in spec.initContainers.resources.requests or "
                "spec.containers.resources.requests",
            )
        yield from names.label(mapping.request_name, f"{path}.requestName")
        key = (mapping.container_name, mapping.resource_name, mapping.request_name)
        if key in seen:
            for name, value in zip(("containerName", "resourceName", "requestName"), key, strict=True):
                yield duplicate(f"{item_path}.{name}", value)
        seen.add(key)
    if not status.resource_claim_name:
        yield required(f"{path}.resourceClaimName")
    else:
        yield from names.subdomain(status.resource_claim_name, f"{path}.resourceClaimName")
