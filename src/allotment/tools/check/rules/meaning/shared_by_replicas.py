"""M407: all replicas on one device, where each was to have its own."""

from __future__ import annotations

from collections.abc import Iterator

from allotment.tools.check import examples
from allotment.tools.check.bundle import Bundle
from allotment.tools.check.claims.references import Target, named, targets
from allotment.tools.check.claims.sharing import is_exclusive, shares
from allotment.tools.check.rule import Found, Rule
from allotment.tools.views import ClaimView


def _find(bundle: Bundle) -> Iterator[Found]:
    for target in targets(bundle):
        pod, claim = target.pod, target.view
        if target.entry.kind != "ResourceClaim" or claim is None:
            continue
        everywhere = pod.kind == "DaemonSet"
        if (pod.replicas < 2 and not everywhere) or shares(bundle, claim) or _says_so(target, claim):
            continue
        if not any(is_exclusive(request) for request in claim.requests):
            continue
        if everywhere:
            message = f"{named(pod)} has a pod on every node, but claim {claim.key.name} is allocated on one"
        else:
            message = f"all {pod.replicas} pods of {named(pod)} get the same devices, those of claim {claim.key.name}"
        yield Found(
            pod.document,
            target.entry.name_path,
            f"{message}: only a template gives each pod its own",
            help="make it a ResourceClaimTemplate, or say in the claim's config how the device is shared",
        )


def _says_so(target: Target, claim: ClaimView) -> bool:
    """Whether a name tells that sharing is meant."""
    return any("share" in name.lower() for name in (claim.key.name, target.entry.name, target.pod.key.name))


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
    bad=examples.together(
        _EXAMPLE.format(kind="ResourceClaim", spec=_DEVICES),
        examples.deployment("server", "resourceClaimName: server-gpu", 3),
    ),
    good=examples.together(
        _EXAMPLE.format(kind="ResourceClaimTemplate", spec=f"spec: {{{_DEVICES}}}"),
        examples.deployment("server", "resourceClaimTemplateName: server-gpu", 3),
    ),
    find=_find,
    see="https://kubernetes.io/docs/concepts/scheduling-eviction/dynamic-resource-allocation/",
)
