"""V315: MIG devices are requested, but no node of the given cluster has any."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from allotment.engine.diagnosis.mig_profiles import memory_of_profile
from allotment.model.editing.edits import Edit, SetValue
from allotment.model.loading import Document
from allotment.tools.check import examples
from allotment.tools.check.bundle import Bundle
from allotment.tools.check.claims.claim_for_container import RequestedDevices, claim_instead_of, memory_condition
from allotment.tools.check.claims.requested_devices import requested_types
from allotment.tools.check.hardware.mig_devices import DRIVER, lacks_mig_devices, whole_gpu_with
from allotment.tools.check.objects.container_resources import ContainerResource, container_resources, provided_resources
from allotment.tools.check.rule import Fix, Rule, RuleMatch
from allotment.tools.check.selectors.edits import replace_extent
from allotment.tools.check.selectors.expressions import parse_selector
from allotment.tools.check.selectors.necessary_conditions import necessary_comparisons
from allotment.tools.views import ClaimView, PodView, RequestView, SelectorView, at

_RESOURCE: Final = re.compile(r"nvidia\.com/mig-(.+)")
#: Attributes of MIG devices that whole GPUs lack, or have with another value.
_OF_MIG: Final = ("type", "parentUUID", "parentIndex", "profile")


def _find(bundle: Bundle) -> Iterator[RuleMatch]:
    if not lacks_mig_devices(bundle):
        return
    for claim in bundle.claims:
        for request in claim.requests:
            if "/" not in request.name:  # another alternative may be available
                yield from _check_request(bundle, claim, request)
    provided = bundle.cached(provided_resources)
    for pod in bundle.pods:
        for found in container_resources(pod):
            profile = _RESOURCE.fullmatch(found.name)
            if profile is not None and found.name not in provided:
                yield _check_resource(bundle, pod, found, profile[1])


def _check_request(bundle: Bundle, claim: ClaimView, request: RequestView) -> Iterator[RuleMatch]:
    profiles = [
        (view, comparison.extent, str(comparison.literals[0].value))
        for view in request.selectors
        for comparison in necessary_comparisons(parse_selector(bundle, view))
        if (comparison.access.domain, comparison.access.name, comparison.operator) == (DRIVER, "profile", "==")
    ]
    types = requested_types(bundle, request)
    if not profiles and (types is None or types.vocabulary.driver != DRIVER or types.types != {"mig"}):
        return
    memory = memory_of_profile(profiles[0][2]) if profiles else ""
    path = (*request.body, "deviceClassName")
    place = (claim.document, path if at(claim.document.tree, path) is not None else request.path)
    yield RuleMatch(
        *place,
        _message(profiles[0][2] if profiles else ""),
        help=_help(memory),
        fix=_request_fix(bundle, claim, request, profiles, memory),
    )


def _request_fix(
    bundle: Bundle,
    claim: ClaimView,
    request: RequestView,
    profiles: list[tuple[SelectorView, tuple[int, int], str]],
    memory: str,
) -> Fix | None:
    """The fix that requests a whole GPU with the memory; none if other conditions are about MIG devices."""
    extents = [extent for _, extent, _ in profiles]
    accesses = [access for view in request.selectors for access in parse_selector(bundle, view).accesses]
    of_mig = [access for access in accesses if access.domain == DRIVER and access.name in _OF_MIG]
    if len(of_mig) != len(extents) or len(profiles) > 1 or not whole_gpu_with(bundle, memory):
        return None
    edits: list[tuple[Document, Edit]] = []
    if request.class_name != DRIVER:
        edits.append((claim.document, SetValue((*request.body, "deviceClassName"), DRIVER)))
    for view, extent, _ in profiles:
        edits.append((claim.document, replace_extent(view, extent, memory_condition(DRIVER, memory))))
    return Fix(_fix_text(memory), tuple(edits), safe=False)


def _check_resource(bundle: Bundle, pod: PodView, found: ContainerResource, profile: str) -> RuleMatch:
    memory, number = memory_of_profile(profile), str(at(pod.document.tree, found.path))
    fix = None
    if memory and number.isdecimal() and whole_gpu_with(bundle, memory):
        devices = RequestedDevices(DRIVER, int(number), memory_condition(DRIVER, memory))
        edits = claim_instead_of(bundle, pod, found.container, (found.name,), devices)
        fix = Fix(f"{_fix_text(memory)} by a claim", edits, safe=False)
    fleet_only = bundle.cluster is not None and bundle.cluster.fleet_only
    # Hardware alone does not define the resources of device plugins.
    return RuleMatch(
        pod.document,
        found.path,
        _message(profile),
        help=_help(memory),
        fix=fix,
        level="warning" if fleet_only else None,
        at_key=True,
    )


def _message(profile: str) -> str:
    what = f'a MIG device of profile "{profile}"' if profile else "a MIG device"
    return f"no node of the cluster has MIG devices, so {what} cannot be allocated"


def _help(memory: str) -> str:
    gpu = f"a whole GPU with at least {memory} is the nearest" if memory else "a whole GPU is the nearest"
    return f"enable MIG on a node (NVIDIA A100, H100 and later); {gpu}"


def _fix_text(memory: str) -> str:
    return f"request a whole GPU with at least {memory}" if memory else "request a whole GPU"


RULE = Rule(
    code="V315",
    name="no-mig-devices",
    family="vocabulary",
    level="error",
    summary="a MIG device is requested, but no node of the given cluster has one",
    why=(
        "A GPU has MIG devices only if an administrator enables MIG on its node and creates them, or if the driver "
        "creates them on demand (gate DynamicMIG); T4, L4 and other small cards do not support MIG. Without MIG "
        "devices the pod stays pending. The profile states the intended memory: 1g.10gb has 10 GB. The nearest "
        "device of such a cluster is a whole GPU with at least this memory, which no other pod can use."
    ),
    bad=examples.template(
        "notebook", class_name="mig.nvidia.com", selector='device.attributes["gpu.nvidia.com"].profile == "1g.10gb"'
    ),
    good=examples.template("notebook", selector=memory_condition(DRIVER, "10G")),
    find=_find,
    fixable="unsafe",
    see="https://docs.nvidia.com/datacenter/tesla/mig-user-guide/",
    fleet="t4",
)
