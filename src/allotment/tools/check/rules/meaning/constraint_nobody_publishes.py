"""M403: a constraint on an attribute that the devices do not have."""

from __future__ import annotations

from collections.abc import Iterator

from allotment.engine.claims.constraints import find_attribute
from allotment.engine.diagnosis.published_names import did_you_mean
from allotment.model.editing.edits import SetValue
from allotment.tools.check.bundle import Bundle
from allotment.tools.check.claims.requested_devices import Kinds, kinds_of
from allotment.tools.check.hardware.cluster_devices import Devices, devices_of
from allotment.tools.check.names.known_names import STANDARD
from allotment.tools.check.rule import Fix, Found, Rule
from allotment.tools.sentences import either
from allotment.tools.views import ClaimView, ConstraintView, RequestView
from allotment.vocabulary import Attribute

#: Attributes that no two devices of these types have in common; without types, no two of any.
_OWN: dict[str, frozenset[str]] = {"uuid": frozenset(), "pciBusID": frozenset(("gpu", "amdgpu", "vfio"))}


def _find(bundle: Bundle) -> Iterator[Found]:
    devices = devices_of(bundle)
    for claim in bundle.claims:
        for constraint in claim.constraints:
            requests = _bound(claim, constraint)
            kinds = [kinds for request in requests if (kinds := kinds_of(bundle, request)) is not None]
            if "/" not in constraint.attribute:
                yield _without_domain(claim, constraint, kinds)
                continue
            if any(_is_renamed(one, constraint.attribute) for one in kinds):
                continue  # V303
            found = None
            if devices is not None:
                found = _against(devices, claim, constraint, requests)
            if found is None and len(kinds) == len(requests):
                found = _by_words(claim, constraint, requests, kinds)
            if found is not None:
                yield found


def _bound(claim: ClaimView, constraint: ConstraintView) -> list[RequestView]:
    """The requests that a constraint is for; ``main`` stands for all of its alternatives."""
    names = constraint.requests
    return [r for r in claim.requests if not names or r.name in names or r.name.partition("/")[0] in names]


def _is_renamed(kinds: Kinds, attribute: str) -> bool:
    domain, _, name = attribute.partition("/")
    own = domain == kinds.words.domain
    return any(
        one.kind == "attribute" and (one.name == attribute or (own and one.name == name)) for one in kinds.words.renamed
    )


def _without_domain(claim: ClaimView, constraint: ConstraintView, kinds: list[Kinds]) -> Found:
    path = (*constraint.path, constraint.field)
    name = constraint.attribute
    full = {f"{one.words.domain}/{name}" for one in kinds if one.words.attribute(one.words.domain, name)}
    full |= {f"{STANDARD}/{name}" for one in kinds if one.words.attribute(STANDARD, name)}
    fix = None
    if len(full) == 1:
        meant = full.pop()
        fix = Fix(f"write {meant}", ((claim.document, SetValue(path, meant)),), safe=True)
    message = f"{constraint.field} {name} has no domain: the API server wants DOMAIN/NAME, also for the driver's own"
    return Found(claim.document, path, message, fix=fix)


def _against(
    devices: Devices, claim: ClaimView, constraint: ConstraintView, requests: list[RequestView]
) -> Found | None:
    """What the given slices publish of it, for each request that has devices at all."""
    for request in requests:
        left = devices.of_request(request)
        if not left or any(find_attribute(devices.by_id[one], one.driver, constraint.attribute) for one in left):
            continue
        drivers = either(sorted({one.driver for one in left}))
        names = {
            name if "/" in name else f"{one.driver}/{name}" for one in left for name in devices.by_id[one].attributes
        }
        return Found(
            claim.document,
            (*constraint.path, constraint.field),
            f"none of the {len(left)} devices of {drivers} for request {request.name} has attribute "
            f"{constraint.attribute}: a constraint takes no device without it",
            help=did_you_mean(constraint.attribute, names).strip(),
        )
    return None


def _by_words(
    claim: ClaimView, constraint: ConstraintView, requests: list[RequestView], kinds: list[Kinds]
) -> Found | None:
    """What drivers are known to publish of it."""
    document, path = claim.document, (*constraint.path, constraint.field)
    domain, _, name = constraint.attribute.partition("/")
    terms: list[tuple[Kinds, Attribute | None]] = [(one, one.words.attribute(domain, name)) for one in kinds]
    for request, (one, term) in zip(requests, terms, strict=True):
        having = one.types & set(term.on) if term is not None else set[str]()
        if not having:
            if domain not in (STANDARD, one.words.domain):
                continue  # an administrator may have had it added
            what = f"{one.words.driver} does not publish {constraint.attribute}"
            what += f" on devices of type {either(sorted(one.types))}" if term is not None and any(one.types) else ""
            names = [t.name for t in one.words.attributes if one.types & set(t.on)]
            return Found(
                document,
                path,
                f"{what}, as far as known, and a constraint takes no device without it: request {request.name} never "
                "fits",
                help=did_you_mean(constraint.attribute, names).strip(),
                level="warning",
            )
    if constraint.field == "matchAttribute" and sum(request.count for request in requests) > 1:
        own = _OWN.get(name)
        if own is not None and all(not own or one.types <= own for one in kinds):
            message = f"no two devices have the same {constraint.attribute}: the constraint can never hold"
            return Found(document, path, message, level="warning")
    unsure = [one for one, term in terms if term is not None and not _always(one, term)]
    if unsure:
        message = f"{unsure[0].words.driver} publishes {constraint.attribute} only on some machines or in some modes"
        return Found(document, path, message, help="devices without it are never taken", level="note")
    return None


def _always(kinds: Kinds, term: Attribute) -> bool:
    """Whether a device that the driver may have for the request has the attribute for sure."""
    return any(term.on.get(kind) == "always" for kind in kinds.types)


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
    summary="a constraint names an attribute that the devices do not have, or that no two have in common",
    why=(
        "A constraint first looks its attribute up on each device. A device without it is never taken, so an attribute "
        "that nobody publishes makes the claim wait for ever; so does matchAttribute on what tells devices apart, such "
        "as a UUID. The name needs its domain here, also where a selector would do without: the API server refuses "
        "others. Against given slices a missing attribute is an error; what is known of drivers makes it a warning, "
        "and a note where it depends on the machine."
    ),
    bad=_EXAMPLE.format(attribute="parentUUID"),
    good=_EXAMPLE.format(attribute="gpu.nvidia.com/parentUUID"),
    find=_find,
    fixable="safe",
    see="https://kep.k8s.io/4381",
)
