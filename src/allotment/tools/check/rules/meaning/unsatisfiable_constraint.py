"""M403: a constraint that devices cannot meet: no such attribute, no domain in its name, or all values are unique."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from allotment.engine.claims.constraints import find_attribute
from allotment.engine.diagnosis.published_names import did_you_mean, similar_qualified_names
from allotment.model.editing.edits import SetValue
from allotment.phrases import either, quoted
from allotment.tools.check.bundle import Bundle
from allotment.tools.check.claims.requested_devices import RequestedTypes, requested_types
from allotment.tools.check.hardware.cluster_devices import ClusterDevices, cluster_devices
from allotment.tools.check.names.known_names import STANDARD_DOMAIN
from allotment.tools.check.rule import Fix, Rule, RuleMatch
from allotment.tools.views import ClaimView, ConstraintView, RequestView, at, items
from allotment.vocabulary import Attribute

#: Attributes that are unique to each device of these types; without types, of all types.
_UNIQUE_ATTRIBUTES: dict[str, frozenset[str]] = {"uuid": frozenset(), "pciBusID": frozenset(("gpu", "amdgpu", "vfio"))}


def _find(bundle: Bundle) -> Iterator[RuleMatch]:
    devices = cluster_devices(bundle)
    for claim in bundle.claims:
        for constraint in claim.constraints:
            requests = [r for r in _constrained_requests(claim, constraint) if not _derives(claim, r, constraint)]
            types = [types for request in requests if (types := requested_types(bundle, request)) is not None]
            if "/" not in constraint.attribute:
                yield _without_domain(claim, constraint, types)
                continue
            if any(_is_renamed(request_types, constraint.attribute) for request_types in types):
                continue  # V303
            match = None
            if devices is not None:
                match = _check_slices(devices, claim, constraint, requests)
            if match is None and requests and len(types) == len(requests):
                match = _check_vocabulary(claim, constraint, requests, types)
            if match is not None:
                yield match


def _constrained_requests(claim: ClaimView, constraint: ConstraintView) -> list[RequestView]:
    """The requests that a constraint applies to; a request's name includes all of its alternatives."""
    names = constraint.requests
    return [r for r in claim.requests if not names or r.name in names or r.name.partition("/")[0] in names]


def _derives(claim: ClaimView, request: RequestView, constraint: ConstraintView) -> bool:
    """Whether the request itself defines the attribute that a constraint compares: no driver must publish it."""
    derived = items(at(claim.document.tree, (*request.body, "derivedAttributes")))
    return any(attribute.get("name") == constraint.attribute for _, attribute in derived)


def _is_renamed(types: RequestedTypes, attribute: str) -> bool:
    domain, _, name = attribute.partition("/")
    is_own_domain = domain == types.vocabulary.domain
    return any(
        renaming.kind == "attribute" and (renaming.name == attribute or (is_own_domain and renaming.name == name))
        for renaming in types.vocabulary.renamed
    )


def _without_domain(claim: ClaimView, constraint: ConstraintView, types: list[RequestedTypes]) -> RuleMatch:
    path = (*constraint.path, constraint.field)
    name = constraint.attribute
    candidates = {
        f"{request_types.vocabulary.domain}/{name}"
        for request_types in types
        if request_types.vocabulary.attribute(request_types.vocabulary.domain, name)
    }
    candidates |= {
        f"{STANDARD_DOMAIN}/{name}"
        for request_types in types
        if request_types.vocabulary.attribute(STANDARD_DOMAIN, name)
    }
    fix = None
    if len(candidates) == 1:
        full_name = candidates.pop()
        fix = Fix(f"write {full_name}", ((claim.document, SetValue(path, full_name)),), safe=True)
    message = f"{constraint.field} {name} has no domain: write DOMAIN/NAME, even for the driver's own attributes"
    return RuleMatch(claim.document, path, message, fix=fix)


def _check_slices(
    devices: ClusterDevices, claim: ClaimView, constraint: ConstraintView, requests: list[RequestView]
) -> RuleMatch | None:
    """Checks the attribute against the given slices, for each request that has matching devices."""
    for request in requests:
        selected = devices.selected_by_request(request)
        if not selected or any(
            find_attribute(devices.by_id[device_id], device_id.driver, constraint.attribute) for device_id in selected
        ):
            continue
        drivers = either(sorted({device_id.driver for device_id in selected}))
        names = {
            name if "/" in name else f"{device_id.driver}/{name}"
            for device_id in selected
            for name in devices.by_id[device_id].attributes
        }
        subject = (
            f"of the {len(selected)} {drivers} devices that match request {request.name}, none has attribute"
            if len(selected) > 1
            else f"the only {drivers} device that matches request {request.name} has no attribute"
        )
        message = f"{subject} {constraint.attribute}: devices without it are never allocated"
        return _unpublished(claim, constraint, message, names)
    return None


def _unpublished(claim: ClaimView, constraint: ConstraintView, message: str, names: Iterable[str]) -> RuleMatch:
    """The match for an attribute that is not among the published ``names``."""
    path, known = (*constraint.path, constraint.field), set(names)
    intended = _same_name(constraint.attribute, known) or similar_qualified_names(constraint.attribute, known)
    if not intended:
        return RuleMatch(claim.document, path, message, help=did_you_mean(constraint.attribute, known).strip())
    edit = SetValue(path, intended[0])
    return RuleMatch(
        claim.document,
        path,
        message,
        help=f"did you mean {either(map(quoted, intended))}?",
        fix=Fix(f"use {intended[0]}", ((claim.document, edit),), safe=False),
    )


def _same_name(attribute: str, names: Iterable[str]) -> tuple[str, ...]:
    """The names that differ from an attribute only in their domain."""
    return tuple(sorted(name for name in names if name.rpartition("/")[2] == attribute.rpartition("/")[2]))


def _check_vocabulary(
    claim: ClaimView, constraint: ConstraintView, requests: list[RequestView], types: list[RequestedTypes]
) -> RuleMatch | None:
    """Checks the attribute against the drivers' vocabularies."""
    document, path = claim.document, (*constraint.path, constraint.field)
    domain, _, name = constraint.attribute.partition("/")
    terms: list[tuple[RequestedTypes, Attribute | None]] = [
        (request_types, request_types.vocabulary.attribute(domain, name)) for request_types in types
    ]
    for request, (request_types, term) in zip(requests, terms, strict=True):
        publishing = request_types.types & set(term.on) if term is not None else set[str]()
        if not publishing:
            names = [t.name for t in request_types.vocabulary.attributes if request_types.types & set(t.on)]
            is_own = domain in (STANDARD_DOMAIN, request_types.vocabulary.domain)
            if not is_own and not _same_name(constraint.attribute, names):
                continue  # an administrator may add such attributes
            problem = f"{request_types.vocabulary.driver} is not known to publish {constraint.attribute}"
            problem += (
                f" on devices of type {either(sorted(request_types.types))}"
                if term is not None and any(request_types.types)
                else ""
            )
            problem += f": devices without it are never allocated, so request {request.name} cannot be satisfied"
            return _unpublished(claim, constraint, problem, names)._replace(level="warning")
    if constraint.field == "matchAttribute" and sum(request.count for request in requests) > 1:
        unique_on = _UNIQUE_ATTRIBUTES.get(name)
        if unique_on is not None and all(not unique_on or request_types.types <= unique_on for request_types in types):
            message = f"no two devices have the same {constraint.attribute}: the constraint cannot be satisfied"
            return RuleMatch(document, path, message, level="warning")
    unsure = [
        request_types
        for request_types, term in terms
        if term is not None and not _is_always_published(request_types, term)
    ]
    # Drivers publish Kubernetes' own attributes wherever the machine has such a value.
    if unsure and domain != STANDARD_DOMAIN:
        message = (
            f"{unsure[0].vocabulary.driver} publishes {constraint.attribute} only on some machines or in some modes"
        )
        return RuleMatch(document, path, message, help="devices without it are never allocated", level="note")
    return None


def _is_always_published(types: RequestedTypes, term: Attribute) -> bool:
    """Whether a device that can satisfy the request certainly has the attribute."""
    return any(term.on.get(device_type) == "always" for device_type in types.types)


_EXAMPLE = """\
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata:
  name: two-slices
spec:
  spec:
    devices:
      requests:
      - name: large
        exactly:
          deviceClassName: mig.nvidia.com
      - name: small
        exactly:
          deviceClassName: mig.nvidia.com
      constraints:
      - matchAttribute: {attribute}
"""

RULE = Rule(
    code="M403",
    name="constraint-nobody-publishes",
    family="meaning",
    level="error",
    summary="a constraint names an attribute that the devices lack, or that is unique to each device",
    why=(
        "The allocator reads the constraint's attribute on each device and never allocates a device without it. If no "
        "driver publishes the attribute, the claim therefore waits indefinitely. The same happens if matchAttribute "
        "names an attribute that is unique to each device, such as a UUID. The name must include its domain, even for "
        "the driver's own attributes; otherwise the API server rejects it. If ResourceSlices are given, a missing "
        "attribute is an error. Otherwise, the finding is a warning, based on known drivers, or a note if an "
        "attribute of the driver's own is published only on some machines."
    ),
    bad=_EXAMPLE.format(attribute="parentUUID"),
    good=_EXAMPLE.format(attribute="gpu.nvidia.com/parentUUID"),
    find=_find,
    fixable="safe or unsafe",
    see="https://kep.k8s.io/4381",
)
