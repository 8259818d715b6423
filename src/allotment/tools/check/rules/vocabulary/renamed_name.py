"""V303: a name of another release of the driver."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from allotment.engine.diagnosis.published_names import published
from allotment.model.editing.edits import SetValue
from allotment.model.resource import ResourceSlice
from allotment.tools.check import examples
from allotment.tools.check.bundle import Bundle
from allotment.tools.check.hardware.sample_devices import given_specimens, let_through, of_class
from allotment.tools.check.names.known_names import words_of
from allotment.tools.check.rule import Fix, Found, Rule
from allotment.tools.check.selectors.edits import renamed as renamed_access
from allotment.tools.check.selectors.expressions import Access, Expression, read_selectors
from allotment.tools.check.selectors.necessary_conditions import is_certain
from allotment.tools.sentences import quoted
from allotment.tools.views import ClaimView, ConstraintView, SelectorView
from allotment.vocabulary import Renamed, Vocabulary, vocabulary


def _find(bundle: Bundle) -> Iterator[Found]:
    for view, read in read_selectors(bundle):
        told: set[str] = set()
        for access in read.accesses:
            words = words_of(bundle, access.domain)
            kind = "attribute" if access.kind == "attributes" else "capacity"
            gone = words.renaming(f"{access.domain}/{access.name}", kind) if words is not None else None
            if words is not None and gone is not None and _matters(bundle, read, access, gone):
                found = _in_selector(bundle, view, read, access, words, gone)
                # Without a fix there is nothing to do at each of its places.
                if found.fix is not None or gone.name not in told:
                    yield found
                told.add(gone.name)
    for claim in bundle.claims:
        for constraint in claim.constraints:
            domain, _, name = constraint.attribute.rpartition("/")
            words = words_of(bundle, domain)
            gone = words.renaming(constraint.attribute) if words is not None else None
            if words is None or gone is None:
                continue
            offered = _of_requests(bundle, claim, constraint, domain) or _published(bundle, domain)
            if offered is None or name not in offered or (gone.redefined and _becomes(gone, offered)):
                yield _in_constraint(claim, constraint, words, gone, offered)


def _matters(bundle: Bundle, read: Expression, access: Access, gone: Renamed) -> bool:
    """Whether the old meaning is meant, and the cluster's driver does not have it."""
    offered = _published(bundle, access.domain)
    if offered is not None and access.name in offered and not gone.redefined:
        return False
    if gone.redefined:
        # The new meaning is a PCI id (0x74a1), the old one a long number.
        literals = [one for c in read.compared if c.access == access for one in c.literals]
        return any(isinstance(one.value, str) and one.value.isdigit() for one in literals)
    return True


def _in_selector(
    bundle: Bundle, view: SelectorView, read: Expression, access: Access, words: Vocabulary, gone: Renamed
) -> Found:
    offered = _published(bundle, access.domain)
    target = gone.becomes if offered is None else _becomes(gone, offered)
    fix = None
    if target and _alike(words, gone):
        fix = Fix(
            f"read {target.removeprefix(f'{access.domain}/')}",
            ((view.document, renamed_access(view, access, target)),),
            safe=False,
        )
    return Found(
        view.document,
        view.path,
        _message(access.name, words, gone),
        help=_advice(gone, f'"{access.name}" in device.attributes["{access.domain}"] ? … : …'),
        fix=fix,
        part=access.name_extent,
        level="note" if access.tolerant else "error" if offered is not None and is_certain(read, access) else None,
    )


def _in_constraint(
    claim: ClaimView, constraint: ConstraintView, words: Vocabulary, gone: Renamed, offered: frozenset[str] | None
) -> Found:
    path = (*constraint.path, constraint.field)
    target = gone.becomes if offered is None else _becomes(gone, offered) or _sibling(words, gone, offered)
    fix = None
    if target:
        edit = SetValue(path, target)
        fix = Fix(f"set {constraint.field}: {target}", ((claim.document, edit),), safe=False)
    name = constraint.attribute.rpartition("/")[2]
    return Found(claim.document, path, _message(name, words, gone), help=_advice(gone, ""), fix=fix)


def _message(name: str, words: Vocabulary, gone: Renamed) -> str:
    domain = gone.name.rpartition("/")[0] or words.domain
    if gone.redefined:
        return f"{quoted(name)} of {domain} has another meaning since release {gone.release}: it was {gone.meaning}"
    new = gone.becomes.removeprefix(f"{domain}/")
    now = f"it is {new} now" if _alike(words, gone) else f"{new} comes nearest now"
    after = now if gone.becomes else "nothing took its place"
    return f"{domain} publishes no {quoted(name)} since release {gone.release}: {after}"


def _advice(gone: Renamed, guard: str) -> str:
    if gone.redefined:
        return f"what it was for is {gone.becomes} now" if gone.becomes else ""
    either = f"; where clusters differ, ask for both: {guard}" if guard and gone.becomes else ""
    return f"it was {gone.meaning}{either}"


def _alike(words: Vocabulary, gone: Renamed) -> bool:
    """Whether the new name has values of the same kind, so that what was compared with the old can stay."""
    new = words.attributes_by_name.get(gone.becomes)
    if new is None:
        return gone.becomes in words.capacities_by_name
    for release in reversed(words.releases):
        earlier = vocabulary(words.driver, release)
        old = earlier.attributes_by_name.get(gone.name) if earlier is not None else None
        if old is not None:
            return old.kind == new.kind and not new.shared
    return False


# --- against slices ----------------------------------------------------------------------------------------------


def _published(bundle: Bundle, domain: str) -> frozenset[str] | None:
    """The attributes of a driver's devices in the given slices: those of its domain bare, others in full."""
    return bundle.kept(_by_driver).get(domain)


def _of_requests(bundle: Bundle, claim: ClaimView, constraint: ConstraintView, driver: str) -> frozenset[str]:
    """The attributes of those devices in the given slices that the constraint's requests can get."""
    names: set[str] = set()
    wanted = {name.partition("/")[0] for name in constraint.requests}
    for request in claim.requests:
        if wanted and request.name.partition("/")[0] not in wanted:
            continue
        devices = bundle.kept(given_specimens).get(driver, ())
        for selector in request.selectors:
            devices = let_through(bundle, selector, devices)
        if not request.selectors:
            devices = of_class(bundle, request.class_name, devices)
        names.update(name for one in devices for name in one.device.attributes)
    return _both_ways(driver, names)


def _both_ways(driver: str, names: Iterable[str]) -> frozenset[str]:
    """Names as they may be written, with the driver's domain and without."""
    own = f"{driver}/"
    return frozenset(form for name in names for form in (name, name.removeprefix(own), _full(name, driver)))


def _full(name: str, driver: str) -> str:
    return name if "/" in name else f"{driver}/{name}"


def _by_driver(bundle: Bundle) -> dict[str, frozenset[str]]:
    # A standard name that another vendor's driver publishes is none of this one's.
    by_driver: dict[str, list[ResourceSlice]] = {}
    for one in bundle.slices or ():
        by_driver.setdefault(one.spec.driver, []).append(one)
    found: dict[str, frozenset[str]] = {}
    for driver, slices in by_driver.items():
        attributes = published(slices).attributes
        found[driver] = _both_ways(driver, (f"{d}/{name}" for d, names in attributes.items() for name in names))
    return found


def _becomes(gone: Renamed, offered: frozenset[str]) -> str:
    return gone.becomes if gone.becomes in offered else ""


def _sibling(words: Vocabulary, gone: Renamed, offered: frozenset[str]) -> str:
    """What an older driver publishes of those names that became the same: a GPU's and a partition's."""
    names = (one.name for one in words.renamed if gone.becomes and one.becomes == gone.becomes)
    return next((name for name in names if name in offered), "")


RULE = Rule(
    code="V303",
    name="renamed-name",
    family="vocabulary",
    level="warning",
    summary="a name that the driver published in another release, or that means something else now",
    why=(
        "Drivers renamed attributes when Kubernetes agreed on names of its own (resource.kubernetes.io), and before "
        "they called themselves stable. A selector with an old name fails on every device, a constraint fits none. "
        "AMD's deviceID was a number of each GPU's own until 1.0 and is the PCI id of the model since, so that "
        "'of one GPU' silently became 'of one model'."
    ),
    bad=examples.claim(
        "two-parts-of-one-gpu",
        class_name="gpu.amd.com",
        request="parts",
        more="count: 2",
        beside="constraints:\n- matchAttribute: gpu.amd.com/deviceID",
    ),
    good=examples.claim(
        "two-parts-of-one-gpu",
        class_name="gpu.amd.com",
        request="parts",
        more="count: 2",
        beside="constraints:\n- matchAttribute: resource.kubernetes.io/pciBusID",
    ),
    find=_find,
    fixable="unsafe",
    see="https://github.com/ROCm/k8s-gpu-dra-driver/pull/36",
)
