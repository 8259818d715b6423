"""M407: several replicas reference one claim without sharing parameters, so all get the same device."""

from __future__ import annotations

from collections.abc import Iterator

from allotment.tools.check import examples
from allotment.tools.check.bundle import Bundle
from allotment.tools.check.claims.references import ClaimReference, claim_references, qualified_name
from allotment.tools.check.claims.sharing import allows_sharing, is_exclusive
from allotment.tools.check.rule import Rule, RuleMatch
from allotment.tools.views import ClaimView


def _find(bundle: Bundle) -> Iterator[RuleMatch]:
    for reference in claim_references(bundle):
        pod, claim = reference.pod, reference.view
        if reference.entry.kind != "ResourceClaim" or claim is None:
            continue
        is_daemon_set = pod.kind == "DaemonSet"
        if (
            (pod.replicas < 2 and not is_daemon_set)
            or allows_sharing(bundle, claim)
            or _name_mentions_sharing(reference, claim)
        ):
            continue
        if not any(is_exclusive(request) for request in claim.requests):
            continue
        if is_daemon_set:
            message = (
                f"{qualified_name(pod)} has a pod on every node, but claim {claim.key.name} is allocated on "
                "only one node"
            )
        else:
            message = (
                f"all {pod.replicas} pods of {qualified_name(pod)} get the same devices from claim {claim.key.name}"
            )
        yield RuleMatch(
            pod.document,
            reference.entry.name_path,
            f"{message}; a ResourceClaimTemplate gives each pod its own claim",
            help="use a ResourceClaimTemplate, or configure sharing in the claim's config",
        )


def _name_mentions_sharing(reference: ClaimReference, claim: ClaimView) -> bool:
    """Whether a name indicates that sharing is intended."""
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
    summary="several replicas reference the same claim without sharing parameters: all get the same device",
    why=(
        "A ResourceClaim is allocated once. Every pod that references the claim gets the same devices and must run "
        "on the node that has them. Drivers do not isolate the programs from each other unless the claim's "
        "parameters configure it, for example with time-slicing or MPS. With a ResourceClaimTemplate, each pod gets "
        "its own claim. The rule does not report claims whose names mention sharing."
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
