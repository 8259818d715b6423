"""V303: an attribute or capacity that the driver renamed, or whose meaning it changed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from allotment.engine.diagnosis.published_names import published_names
from allotment.model.editing.edits import SetValue
from allotment.model.resource import ResourceSlice
from allotment.phrases import quoted
from allotment.tools.check import examples
from allotment.tools.check.bundle import Bundle
from allotment.tools.check.hardware.sample_devices import cluster_samples, selected_by, selected_by_class
from allotment.tools.check.names.known_names import vocabulary_of
from allotment.tools.check.rule import Fix, Rule, RuleMatch
from allotment.tools.check.selectors.edits import rename_access as renamed_access
from allotment.tools.check.selectors.expressions import DeviceAccess, Expression, parsed_selectors
from allotment.tools.check.selectors.necessary_conditions import is_necessary
from allotment.tools.views import ClaimView, ConstraintView, SelectorView
from allotment.vocabulary import Renamed, Vocabulary, vocabulary


def _find(bundle: Bundle) -> Iterator[RuleMatch]:
    for view, expr in parsed_selectors(bundle):
        reported: set[str] = set()
        for access in expr.accesses:
            vocab = vocabulary_of(bundle, access.domain)
            kind = "attribute" if access.kind == "attributes" else "capacity"
            renaming = vocab.renaming(f"{access.domain}/{access.name}", kind) if vocab is not None else None
            if vocab is not None and renaming is not None and _uses_old_meaning(bundle, expr, access, renaming):
                match = _in_selector(bundle, view, expr, access, vocab, renaming)
                # Without a fix, one report per name is enough.
                if match.fix is not None or renaming.name not in reported:
                    yield match
                reported.add(renaming.name)
    for claim in bundle.claims:
        for constraint in claim.constraints:
            domain, _, name = constraint.attribute.rpartition("/")
            vocab = vocabulary_of(bundle, domain)
            renaming = vocab.renaming(constraint.attribute) if vocab is not None else None
            if vocab is None or renaming is None:
                continue
            offered = _names_of_requests(bundle, claim, constraint, domain) or _published_names(bundle, domain)
            if (
                offered is None
                or name not in offered
                or (renaming.redefined and _offered_replacement(renaming, offered))
            ):
                yield _in_constraint(claim, constraint, vocab, renaming, offered)


def _uses_old_meaning(bundle: Bundle, expr: Expression, access: DeviceAccess, renaming: Renamed) -> bool:
    """Whether the old meaning is intended and the cluster's driver does not have it."""
    offered = _published_names(bundle, access.domain)
    if offered is not None and access.name in offered and not renaming.redefined:
        return False
    if renaming.redefined:
        # The new meaning is a PCI ID (0x74a1), the old one a long number.
        literals = [literal for c in expr.comparisons if c.access == access for literal in c.literals]
        return any(isinstance(literal.value, str) and literal.value.isdigit() for literal in literals)
    return True


def _in_selector(
    bundle: Bundle, view: SelectorView, expr: Expression, access: DeviceAccess, vocab: Vocabulary, renaming: Renamed
) -> RuleMatch:
    offered = _published_names(bundle, access.domain)
    target = renaming.becomes if offered is None else _offered_replacement(renaming, offered)
    fix = None
    if target and _has_same_type(vocab, renaming):
        fix = Fix(
            f"read {target.removeprefix(f'{access.domain}/')}",
            ((view.document, renamed_access(view, access, target)),),
            safe=False,
        )
    return RuleMatch(
        view.document,
        view.path,
        _message(access.name, vocab, renaming),
        help=_help(renaming, f'"{access.name}" in device.attributes["{access.domain}"] ? … : …'),
        fix=fix,
        span=access.name_extent,
        level="note" if access.is_optional else "error" if offered is not None and is_necessary(expr, access) else None,
    )


def _in_constraint(
    claim: ClaimView, constraint: ConstraintView, vocab: Vocabulary, renaming: Renamed, offered: frozenset[str] | None
) -> RuleMatch:
    path = (*constraint.path, constraint.field)
    target = (
        renaming.becomes
        if offered is None
        else _offered_replacement(renaming, offered) or _offered_alternative(vocab, renaming, offered)
    )
    fix = None
    if target:
        edit = SetValue(path, target)
        fix = Fix(f"set {constraint.field}: {target}", ((claim.document, edit),), safe=False)
    name = constraint.attribute.rpartition("/")[2]
    return RuleMatch(claim.document, path, _message(name, vocab, renaming), help=_help(renaming, ""), fix=fix)


def _message(name: str, vocab: Vocabulary, renaming: Renamed) -> str:
    domain = renaming.name.rpartition("/")[0] or vocab.domain
    since = f"since release {renaming.release}"
    if renaming.redefined:
        return f"{quoted(name)} of {domain} has had a different meaning {since}: it was {renaming.meaning}"
    replacement = renaming.becomes.removeprefix(f"{domain}/")
    now = f"it is now {replacement}" if _has_same_type(vocab, renaming) else f"{replacement} is the closest replacement"
    consequence = now if renaming.becomes else "it has no replacement"
    return f"{domain} has not published {quoted(name)} {since}: {consequence}"


def _help(renaming: Renamed, guard: str) -> str:
    if renaming.redefined:
        return f"use {renaming.becomes} for its former meaning" if renaming.becomes else ""
    advice = f"; to support old and new releases, test for it: {guard}" if guard and renaming.becomes else ""
    return f"it was {renaming.meaning}{advice}"


def _has_same_type(vocab: Vocabulary, renaming: Renamed) -> bool:
    """Whether the new name has values of the same type, so that comparisons remain valid."""
    new = vocab.attributes_by_name.get(renaming.becomes)
    if new is None:
        return renaming.becomes in vocab.capacities_by_name
    for release in reversed(vocab.releases):
        earlier = vocabulary(vocab.driver, release)
        old = earlier.attributes_by_name.get(renaming.name) if earlier is not None else None
        if old is not None:
            return old.kind == new.kind and not new.shared
    return False


# --- against slices ----------------------------------------------------------------------------------------------


def _published_names(bundle: Bundle, domain: str) -> frozenset[str] | None:
    """The attributes of a driver's devices in the given slices, both with and without the driver's domain."""
    return bundle.cached(_names_by_driver).get(domain)


def _names_of_requests(bundle: Bundle, claim: ClaimView, constraint: ConstraintView, driver: str) -> frozenset[str]:
    """The attributes of those devices in the given slices that the constraint's requests can get."""
    names: set[str] = set()
    request_names = {name.partition("/")[0] for name in constraint.requests}
    for request in claim.requests:
        if request_names and request.name.partition("/")[0] not in request_names:
            continue
        devices = bundle.cached(cluster_samples).get(driver, ())
        for selector in request.selectors:
            devices = selected_by(bundle, selector, devices)
        if not request.selectors:
            devices = selected_by_class(bundle, request.class_name, devices)
        names.update(name for sample in devices for name in sample.device.attributes)
    return _with_and_without_domain(driver, names)


def _with_and_without_domain(driver: str, names: Iterable[str]) -> frozenset[str]:
    """Names with the driver's domain and without it, as both may be written."""
    prefix = f"{driver}/"
    return frozenset(form for name in names for form in (name, name.removeprefix(prefix), _full_name(name, driver)))


def _full_name(name: str, driver: str) -> str:
    return name if "/" in name else f"{driver}/{name}"


def _names_by_driver(bundle: Bundle) -> dict[str, frozenset[str]]:
    # Standard names are collected per driver: another driver's do not count.
    by_driver: dict[str, list[ResourceSlice]] = {}
    for resource_slice in bundle.slices or ():
        by_driver.setdefault(resource_slice.spec.driver, []).append(resource_slice)
    names_by_driver: dict[str, frozenset[str]] = {}
    for driver, slices in by_driver.items():
        attributes = published_names(slices).attributes
        names_by_driver[driver] = _with_and_without_domain(
            driver, (f"{d}/{name}" for d, names in attributes.items() for name in names)
        )
    return names_by_driver


def _offered_replacement(renaming: Renamed, offered: frozenset[str]) -> str:
    return renaming.becomes if renaming.becomes in offered else ""


def _offered_alternative(vocab: Vocabulary, renaming: Renamed, offered: frozenset[str]) -> str:
    """The name that an older driver publishes among those that were merged into one: a GPU's and a partition's."""
    names = (
        candidate.name for candidate in vocab.renamed if renaming.becomes and candidate.becomes == renaming.becomes
    )
    return next((name for name in names if name in offered), "")


RULE = Rule(
    code="V303",
    name="renamed-name",
    family="vocabulary",
    level="warning",
    summary="the driver renamed the attribute or capacity, or changed its meaning",
    why=(
        "Drivers have renamed attributes, both when Kubernetes defined standard names (resource.kubernetes.io) and "
        "before the drivers became stable. A selector with an old name fails on every device, and no device "
        "satisfies a constraint with an old name. Before release 1.0 of AMD's driver, deviceID was unique to each "
        "GPU; since then, it has been the PCI ID of the model, so a selector for one GPU silently became a selector "
        "for one model."
    ),
    bad=examples.claim(
        "two-parts-of-one-gpu",
        class_name="gpu.amd.com",
        request="parts",
        request_extra="count: 2",
        devices_extra="constraints:\n- matchAttribute: gpu.amd.com/deviceID",
    ),
    good=examples.claim(
        "two-parts-of-one-gpu",
        class_name="gpu.amd.com",
        request="parts",
        request_extra="count: 2",
        devices_extra="constraints:\n- matchAttribute: resource.kubernetes.io/pciBusID",
    ),
    find=_find,
    fixable="unsafe",
    see="https://github.com/ROCm/k8s-gpu-dra-driver/pull/36",
)
