"""The audiences of service account tokens that a node can request for its pods."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from allotment.apiserver.access.authorization import Authorizer
from allotment.apiserver.admission.attributes import Attributes
from allotment.apiserver.kinds.kind import StoreReader
from allotment.model.features import Features
from allotment.model.pod_volume_claims import ephemeral_claim_name
from allotment.model.quoting import quote
from allotment.model.trees import Tree

_VERB = "request-serviceaccounts-token-audience"


def audience_problem(
    attributes: Attributes, audiences: Sequence[str], pod: Tree, reader: StoreReader, authorizer: Authorizer,
    features: Features,
) -> str:  # fmt: skip
    """The reason for which a node may not request a token for a pod with these audiences; empty if it may.

    A volume of the pod has the audience, or its CSI driver requests tokens with it, or a role permits the node to
    request it.
    """
    if len(audiences) > 1:
        return "node may only request 0 or 1 audiences"
    audience = audiences[0] if audiences else ""
    if audience in _audiences_of(pod, reader):
        return ""
    group = attributes.kind.group
    if authorizer(attributes.user, _VERB, group, audience, "", attributes.namespace, attributes.name) is None:
        return ""
    user = attributes.user.name
    if not features.since("1.37"):
        problem = f"{user} is not authorized to request tokens for this audience"
        return f"audience {quote(audience)} not found in pod spec volume, {problem}"
    return f"{user} is not authorized to request tokens for audience {quote(audience)}"


def _audiences_of(pod: Tree, reader: StoreReader) -> Iterator[str]:
    namespace = pod["metadata"]["namespace"]
    for volume in pod["spec"].get("volumes") or ():
        for source in (volume.get("projected") or {}).get("sources") or ():
            if source.get("serviceAccountToken") is not None:
                yield source["serviceAccountToken"].get("audience") or ""
        driver = (volume.get("csi") or {}).get("driver") or ""
        claim = (volume.get("persistentVolumeClaim") or {}).get("claimName") or ""
        if volume.get("ephemeral") is not None:
            claim = ephemeral_claim_name(pod, volume)
        if claim:
            driver = _driver_of_claim(namespace, claim, reader)
        entry = reader.get("csidrivers.storage.k8s.io", "", driver) if driver else None
        for request in ((entry.tree.get("spec") or {}) if entry is not None else {}).get("tokenRequests") or ():
            yield request.get("audience") or ""


def _driver_of_claim(namespace: str, name: str, reader: StoreReader) -> str:
    claim = reader.get("persistentvolumeclaims", namespace, name)
    volume_name = (claim.tree.get("spec") or {}).get("volumeName") if claim is not None else None
    volume = reader.get("persistentvolumes", "", volume_name) if volume_name else None
    return str(((volume.tree.get("spec") or {}).get("csi") or {}).get("driver") or "") if volume is not None else ""
