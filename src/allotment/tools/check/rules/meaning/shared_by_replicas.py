"""M407: all replicas on one device, where each was to have its own."""

from __future__ import annotations

from collections.abc import Iterator

from allotment.tools.check import examples
from allotment.tools.check.bundle import Bundle
from allotment.tools.check.claims.references import ClaimReference, qualified_name, claim_references
from allotment.tools.check.claims.sharing import is_exclusive, allows_sharing
from allotment.tools.check.rule import RuleMatch, Rule
from allotment.tools.views import ClaimView


def _find(bundle: Bundle) -> Iterator[RuleMatch]:
    for reference in claim_references(bundle):
        pod, claim = reference.pod, reference.view
        if reference.entry.kind != "ResourceClaim" or claim is None:
            continue
        is_daemon_set = pod.kind == "DaemonSet"
        if (pod.replicas < 2 and not is_daemon_set) or allows_sharing(bundle, claim) or _name_mentions_sharing(reference, claim):
            continue
        if not any(is_exclusive(request) for request in claim.requests):
            continue
        if is_daemon_set:
            message = f"{qualified_name(pod)} has a pod on every node, but claim {claim.key.name} is allocated on one"
        else:
            message = f"all {pod.replicas} pods of {qualified_name(pod)} get the same devices, those of claim {claim.key.name}"
        yield RuleMatch(
            pod.document,
            reference.entry.name_path,
            f"{message}: only a template gives each pod its own",
            help="make it a ResourceClaimTemplate, or say in the claim's config how the device is shared",
        )


def _name_mentions_sharing(reference: ClaimReference, claim: ClaimView) -> bool:
    """Whether a name tells that sharing is meant."""
    return any("share" in name.lower() for name in (claim.key.name, reference.entry.name, reference.pod.key.name))


_EXAMPLE = """\
apiVersion: resource.k8s.io/v1
kind: {kind}
metadata:
  name: server-gpu
spec:
  {spec}
"""

_DEVICES = "devices: {requests: [{name: gpu, exactly: {deviceClassName: gpu.nvidia.com}}]}"

RULE = Rule(
    code="M407",
    name="shared-by-replicas",
    family="meaning",
    level="warning",
    summary="several replicas name one claim, which has no parameters for sharing: all get the same device",
    why=(
        "A ResourceClaim is allocated once. Every pod that names it gets the same devices, must run on their node, and "
        "no driver keeps the programs apart unless the claim's parameters say how (time-slicing, MPS). A claim for "
        "each pod is what a ResourceClaimTemplate makes. The rule is silent where a name speaks of sharing."
    ),
    bad=examples.join_documents(
        _EXAMPLE.format(kind="ResourceClaim", spec=_DEVICES),
        examples.deployment("server", "resourceClaimName: server-gpu", 3),
    ),
    good=examples.join_documents(
        _EXAMPLE.format(kind="ResourceClaimTemplate", spec=f"spec: {{{_DEVICES}}}"),
        examples.deployment("server", "resourceClaimTemplateName: server-gpu", 3),
    ),
    find=_find,
    see="https://kubernetes.io/docs/concepts/scheduling-eviction/dynamic-resource-allocation/",
)
