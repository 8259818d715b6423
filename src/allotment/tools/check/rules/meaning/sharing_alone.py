"""M408: sharing parameters in a template whose claims have only one user each."""

from __future__ import annotations

from collections.abc import Iterator

from allotment.model.loading import Document
from allotment.tools.check import examples
from allotment.tools.check.bundle import Bundle
from allotment.tools.check.claims.references import ClaimReference, claim_references, qualified_name
from allotment.tools.check.claims.sharing import sharing_configs, sharing_strategy
from allotment.tools.check.rule import Rule, RuleMatch
from allotment.tools.views import ClaimView, ConfigView


def _find(bundle: Bundle) -> Iterator[RuleMatch]:
    users_of: dict[Document, tuple[ClaimView, list[ClaimReference]]] = {}
    for reference in claim_references(bundle):
        if reference.entry.kind == "ResourceClaimTemplate" and reference.view is not None:
            users_of.setdefault(reference.view.document, (reference.view, []))[1].append(reference)
    for claim, users in users_of.values():
        for config in sharing_configs(claim):
            if any(_count_containers(reference, config) > 1 for reference in users):
                continue
            pods = sum(reference.pod.replicas if reference.pod.kind != "DaemonSet" else 2 for reference in users)
            strategy = sharing_strategy(config) or "sharing"
            if pods > 1:
                reason = f"each pod gets its own claim and device from template {claim.key.name}"
            else:
                reason = f"only one container of {qualified_name(users[0].pod)} uses the device"
            yield RuleMatch(
                claim.document,
                (*config.path, "opaque", "parameters", "sharing"),
                f"{strategy} has no effect: {reason}",
                help="pods share a device if they reference the same ResourceClaim",
                level=None if pods > 1 else "note",
                at_key=True,
            )


def _count_containers(reference: ClaimReference, config: ConfigView) -> int:
    """The number of a pod's containers that get devices to which the configuration applies."""
    return sum(
        any(
            use.name == reference.entry.name
            and (not use.request or not config.requests or use.request in config.requests)
            for use in container.uses
        )
        for container in reference.pod.containers
    )


_SHARED = """\
apiVersion: resource.k8s.io/v1
{claim}
      config:
      - requests: [gpu]
        opaque:
          driver: gpu.example.com
          parameters:
            apiVersion: gpu.resource.example.com/v1alpha1
            kind: GpuConfig
            sharing:
              strategy: TimeSlicing
              timeSlicingConfig:
                interval: Long
"""

_TEMPLATE = """\
kind: ResourceClaimTemplate
metadata:
  name: server-gpu
spec:
  spec:
    devices:
      requests: [{name: gpu, exactly: {deviceClassName: gpu.example.com}}]"""
_CLAIM = """\
kind: ResourceClaim
metadata:
  name: server-gpu
spec:
    devices:
      requests: [{name: gpu, exactly: {deviceClassName: gpu.example.com}}]"""

RULE = Rule(
    code="M408",
    name="sharing-alone",
    family="meaning",
    level="warning",
    summary="a template has sharing parameters, but each claim created from it has only one user",
    why=(
        "Parameters such as time-slicing and MPS tell the driver how the users of one claim share its device. With a "
        "template, every pod gets its own claim with its own device, so nothing is shared between pods, and the "
        "cluster runs out of devices as if there were no sharing. To share a device between pods, let all of them "
        "reference the same ResourceClaim. With a template, only the containers of one pod can share a device."
    ),
    bad=examples.join_documents(
        _SHARED.format(claim=_TEMPLATE), examples.deployment("server", "resourceClaimTemplateName: server-gpu", 3)
    ),
    good=examples.join_documents(
        _SHARED.format(claim=_CLAIM), examples.deployment("server", "resourceClaimName: server-gpu", 3)
    ),
    find=_find,
    see="https://kubernetes.io/docs/concepts/scheduling-eviction/dynamic-resource-allocation/",
)
