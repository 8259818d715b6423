"""M412: more devices of a kind than any machine has."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache
from typing import NamedTuple

from allotment.fleet.profiles import accelerators, servers
from allotment.model.loading import Document
from allotment.tools.check import examples
from allotment.tools.check.bundle import Bundle
from allotment.tools.check.claims.references import targets_of
from allotment.tools.check.claims.requested_devices import class_selectors, comparisons, kinds_of
from allotment.tools.check.rule import Found, Rule
from allotment.tools.views import ClaimView, RequestView

#: What one claim can be given at all (AllocationResultsMaxSize); more than that the allocator refuses to look for.
_CLAIM_MAX = 32
#: Machines that are larger than those whose profile we have: DGX-2 with 16 V100, eight MI250X with two GPUs each.
_KNOWN_LARGER = {"nvidia": 16, "amd": 16}


class _Kind(NamedTuple):
    """Devices of which a machine has a certain number at most, in words."""

    vendor: str
    words: str
    most: int


def _find(bundle: Bundle) -> Iterator[Found]:
    told: set[Document] = set()
    for claim in bundle.claims:
        if (found := _beyond_claims(claim)) is not None:
            told.add(claim.document)
            yield found
            continue
        for kind, requests in _by_kind(bundle, claim).items():
            asked = sum(request.count for request in requests)
            if asked <= kind.most:
                continue
            told.add(claim.document)
            last = requests[-1]
            whose = f"request {last.name} asks" if len(requests) == 1 else "its requests ask"
            yield Found(
                claim.document,
                (*last.body, "count") if last.count > 1 else last.path,
                f"{whose} for {asked} {kind.words}: no known machine has more than {kind.most}, and all devices of a "
                "claim come from one node",
                help="ask for fewer, and run more pods",
            )
    for pod in bundle.pods:
        named = (t.view for t in targets_of(bundle, pod) if t.view is not None)
        claims = [view for view in named if view.document not in told]
        sums: dict[_Kind, int] = {}
        for view in claims if len(claims) > 1 else ():
            for kind, requests in _by_kind(bundle, view).items():
                sums[kind] = sums.get(kind, 0) + sum(request.count for request in requests)
        for kind, asked in sums.items():
            if asked > kind.most:
                yield Found(
                    pod.document,
                    (*pod.spec, "resourceClaims"),
                    f"the claims ask for {asked} {kind.words}: no known machine has more than {kind.most}, and a pod "
                    "runs on one node",
                    help="ask for fewer, and run more pods",
                    key=True,
                )


def _beyond_claims(claim: ClaimView) -> Found | None:
    """More devices than any claim can be given."""
    counted = [r for r in claim.requests if r.mode == "ExactCount" and "/" not in r.name]
    asked = sum(request.count for request in counted)
    if asked <= _CLAIM_MAX:
        return None
    most = max(counted, key=lambda request: request.count)
    return Found(
        claim.document,
        (*most.body, "count") if most.count > 1 else most.path,
        f"{asked} devices are asked for in one claim, which can be given {_CLAIM_MAX}",
        help="split the claim",
        level="error",
    )


def _by_kind(bundle: Bundle, claim: ClaimView) -> dict[_Kind, list[RequestView]]:
    """The requests of a claim that must be given devices of their own, by what they ask for."""
    found: dict[_Kind, list[RequestView]] = {}
    for request in claim.requests:
        # Alternatives are tried one after the other, and shares of one device may serve many requests.
        if request.mode == "ExactCount" and "/" not in request.name and not request.capacity:
            kind = _kind(bundle, request)
            if kind is not None:
                found.setdefault(kind, []).append(request)
    return found


def _kind(bundle: Bundle, request: RequestView) -> _Kind | None:
    known = kinds_of(bundle, request)
    if known is None or known.words.driver not in ("gpu.nvidia.com", "gpu.amd.com"):
        return None
    vendor, domain = known.words.vendor, known.words.domain
    whole = _most_gpus(vendor)
    if known.types <= {"gpu", "amdgpu"}:
        return _Kind(vendor, "whole GPUs", whole)
    if known.types == {"mig"}:
        selectors = (*class_selectors(bundle, request.class_name), *request.selectors)
        told = comparisons(bundle, selectors, "attributes", domain, "profile")
        profiles = {literal.value for one in told if one.operator == "==" for literal in one.literals}
        if len(profiles) == 1 and (instances := _instances(str(*profiles))):
            return _Kind(vendor, f"MIG devices {str(*profiles)}", whole * instances)
    return None


@cache
def _most_gpus(vendor: str) -> int:
    mine = {one.id for one in accelerators().values() if one.vendor == vendor}
    counts: Iterable[int] = (len(server.gpus) for server in servers().values() if server.accelerator in mine)
    return max(_KNOWN_LARGER.get(vendor, 0), *counts)


@cache
def _instances(profile: str) -> int:
    """How many MIG devices of a profile one GPU can have; 0 for a profile that no known GPU has."""
    migs = (one.mig for one in accelerators().values() if one.mig is not None)
    return max((p.max_instances for mig in migs for p in mig.profiles if p.name == profile), default=0)


RULE = Rule(
    code="M412",
    name="more-than-any-server",
    family="meaning",
    level="warning",
    summary="a claim or pod asks for more devices of one kind than any known machine has",
    why=(
        "The devices of a claim are those of one node, unless they are reached over a network, and a pod runs on one "
        "node. GPUs are in the node: eight in most servers, sixteen in the largest. A request for more is valid, and "
        "its pod waits for ever; more than 32 devices no claim can be given at all. Work that needs more "
        "takes several pods, each with its own claim."
    ),
    bad=examples.template("training", request="gpus", more="count: 32"),
    good=examples.template("training", request="gpus", more="count: 8"),
    find=_find,
    see="https://kubernetes.io/docs/concepts/scheduling-eviction/dynamic-resource-allocation/",
)
