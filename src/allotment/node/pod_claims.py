"""A pod's claims, and the requests that each of its containers uses.

A pod has its own names for its claims; the object names of generated claims are in the pod's status. A container gets
only what its ``resources.claims`` list, or, for extended resources, what the scheduler wrote to the pod's status
(KEP-4381, KEP-5004).
"""

from __future__ import annotations

from collections.abc import Iterator

from allotment.model.pod_groups import owning_group
from allotment.model.trees import Tree


class ClaimsError(Exception):
    """Raised when claims cannot be prepared or unprepared; the text is the kubelet's."""


def claim_names(pod: Tree) -> Iterator[tuple[str, str, bool]]:
    """The pod's claims: name in the pod, object name (empty: none was needed), and whether it was generated.

    The claim for extended resources comes last, with an empty name. Raises ClaimsError if a claim is not created yet.
    """
    status = pod.get("status") or {}
    generated = {
        entry["name"]: entry.get("resourceClaimName") or "" for entry in status.get("resourceClaimStatuses") or ()
    }
    where = f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
    for entry in pod["spec"].get("resourceClaims") or ():
        if entry.get("resourceClaimName"):
            yield entry["name"], entry["resourceClaimName"], False
        elif entry["name"] not in generated:
            raise ClaimsError(f'pod "{where}": ResourceClaim not created yet')
        else:
            yield entry["name"], generated[entry["name"]], True
    if extended := status.get("extendedResourceClaimStatus"):
        yield "", extended["resourceClaimName"], False


def requests_of(pod: Tree, container: Tree) -> Iterator[tuple[str, str]]:
    """The claims that a container uses: object name and request (empty: all requests)."""
    try:
        entries = tuple(claim_names(pod))
    except ClaimsError:
        return
    resources = container.get("resources") or {}
    for entry, name, _ in entries:
        if name and entry:
            for used in resources.get("claims") or ():
                if used["name"] == entry:
                    yield name, used.get("request") or ""
    extended = (pod.get("status") or {}).get("extendedResourceClaimStatus")
    if extended:
        amounts = resources.get("requests") or resources.get("limits") or {}
        for mapping in extended.get("requestMappings") or ():
            if mapping["containerName"] == container["name"] and amounts.get(mapping["resourceName"], "0") not in (
                "0",
                0,
            ):
                yield extended["resourceClaimName"], mapping["requestName"]


def is_made_for(pod_uid: str, claim: Tree, group: str = "") -> bool:
    """Whether a claim was generated for a pod, or for its ``group`` if given."""
    if group and owning_group(claim) == group:
        return True
    owners = claim["metadata"].get("ownerReferences") or ()
    return any(owner.get("controller") and owner.get("uid") == pod_uid for owner in owners)
