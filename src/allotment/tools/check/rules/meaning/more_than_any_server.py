"""M412: a claim or pod requests more devices of one kind than any known machine has."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache
from typing import NamedTuple

from allotment.fleet.profiles import accelerators, servers
from allotment.model.loading import Document
from allotment.tools.check import examples
from allotment.tools.check.bundle import Bundle
from allotment.tools.check.claims.references import references_of_pod
from allotment.tools.check.claims.requested_devices import class_selectors, requested_types, required_comparisons
from allotment.tools.check.rule import Rule, RuleMatch
from allotment.tools.views import ClaimView, RequestView

#: The maximum number of devices in a claim (AllocationResultsMaxSize); the allocator rejects requests for more.
_CLAIM_MAX = 32
#: GPUs in machines that are larger than the known ones: DGX-2 with 16 V100, eight MI250X with two GPUs each.
_LARGER_MACHINES = {"nvidia": 16, "amd": 16}


class _DeviceKind(NamedTuple):
    """A kind of device, its name in messages, and the maximum number that a machine has."""

    vendor: str
    words: str
    most: int


def _find(bundle: Bundle) -> Iterator[RuleMatch]:
    reported: set[Document] = set()
    for claim in bundle.claims:
        if (match := _over_claim_limit(claim)) is not None:
            reported.add(claim.document)
            yield match
            continue
        for kind, requests in _by_kind(bundle, claim).items():
            requested = sum(request.count for request in requests)
            if requested <= kind.most:
                continue
            reported.add(claim.document)
            last = requests[-1]
            whose = f"request {last.name}: " if len(requests) == 1 else ""
            yield RuleMatch(
                claim.document,
                (*last.body, "count") if last.count > 1 else last.path,
                f"{whose}{requested} {kind.words} requested; no known machine has more than {kind.most}, and all "
                "devices of a claim come from one node",
                help="request fewer devices per pod and run more pods",
            )
    for pod in bundle.pods:
        views = (t.view for t in references_of_pod(bundle, pod) if t.view is not None)
        claims = [view for view in views if view.document not in reported]
        sums: dict[_DeviceKind, int] = {}
        for view in claims if len(claims) > 1 else ():
            for kind, requests in _by_kind(bundle, view).items():
                sums[kind] = sums.get(kind, 0) + sum(request.count for request in requests)
        for kind, requested in sums.items():
            if requested > kind.most:
                yield RuleMatch(
                    pod.document,
                    (*pod.spec, "resourceClaims"),
                    f"{requested} {kind.words} requested by the pod's claims; no known machine has more than "
                    f"{kind.most}, and a pod runs on one node",
                    help="request fewer devices per pod and run more pods",
                    at_key=True,
                )


def _over_claim_limit(claim: ClaimView) -> RuleMatch | None:
    """A claim with more devices than any claim can have."""
    exact = [r for r in claim.requests if r.mode == "ExactCount" and "/" not in r.name]
    requested = sum(request.count for request in exact)
    if requested <= _CLAIM_MAX:
        return None
    largest = max(exact, key=lambda request: request.count)
    return RuleMatch(
        claim.document,
        (*largest.body, "count") if largest.count > 1 else largest.path,
        f"{requested} devices requested in one claim; the maximum is {_CLAIM_MAX}",
        help="split the claim",
        level="error",
    )


def _by_kind(bundle: Bundle, claim: ClaimView) -> dict[_DeviceKind, list[RequestView]]:
    """The requests of a claim for devices of their own, by kind of device."""
    requests_by_kind: dict[_DeviceKind, list[RequestView]] = {}
    for request in claim.requests:
        # Only one alternative is used, and shares of one device may satisfy many requests.
        if request.mode == "ExactCount" and "/" not in request.name and not request.capacity:
            kind = _kind(bundle, request)
            if kind is not None:
                requests_by_kind.setdefault(kind, []).append(request)
    return requests_by_kind


def _kind(bundle: Bundle, request: RequestView) -> _DeviceKind | None:
    types = requested_types(bundle, request)
    if types is None or types.vocabulary.driver not in ("gpu.nvidia.com", "gpu.amd.com"):
        return None
    vendor, domain = types.vocabulary.vendor, types.vocabulary.domain
    max_gpus = _max_gpus(vendor)
    if types.types <= {"gpu", "amdgpu"}:
        return _DeviceKind(vendor, "whole GPUs", max_gpus)
    if types.types == {"mig"}:
        selectors = (*class_selectors(bundle, request.class_name), *request.selectors)
        comparisons = required_comparisons(bundle, selectors, "attributes", domain, "profile")
        profiles = {
            literal.value
            for comparison in comparisons
            if comparison.operator == "=="
            for literal in comparison.literals
        }
        if len(profiles) == 1 and (instances := _max_instances(str(*profiles))):
            return _DeviceKind(vendor, f"MIG devices of profile {str(*profiles)}", max_gpus * instances)
    return None


@cache
def _max_gpus(vendor: str) -> int:
    accelerator_ids = {accelerator.id for accelerator in accelerators().values() if accelerator.vendor == vendor}
    counts: Iterable[int] = (len(server.gpus) for server in servers().values() if server.accelerator in accelerator_ids)
    return max(_LARGER_MACHINES.get(vendor, 0), *counts)


@cache
def _max_instances(profile: str) -> int:
    """The maximum number of MIG devices of a profile on one GPU; 0 if no known GPU has the profile."""
    layouts = (accelerator.mig for accelerator in accelerators().values() if accelerator.mig is not None)
    return max((p.max_instances for layout in layouts for p in layout.profiles if p.name == profile), default=0)


RULE = Rule(
    code="M412",
    name="more-than-any-server",
    family="meaning",
    level="warning",
    summary="a claim or pod requests more devices of one kind than any known machine has",
    why=(
        "All devices of a claim are on one node, unless they are network-attached, and a pod runs on one node. Most "
        "servers have up to eight GPUs, and the largest have sixteen. A request for more devices is valid, but the "
        "pod stays pending; no claim can have more than 32 devices. A workload that needs more devices must use "
        "several pods, each with its own claim."
    ),
    bad=examples.template("training", request="gpus", request_extra="count: 32"),
    good=examples.template("training", request="gpus", request_extra="count: 8"),
    find=_find,
    see="https://kubernetes.io/docs/concepts/scheduling-eviction/dynamic-resource-allocation/",
)
