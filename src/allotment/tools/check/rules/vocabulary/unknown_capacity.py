"""V302: a capacity that the driver does not publish."""

from __future__ import annotations

from collections.abc import Iterator

from allotment.engine.diagnosis.published_names import near
from allotment.model.editing.edits import RenameKey
from allotment.tools.check import examples
from allotment.tools.check.bundle import Bundle
from allotment.tools.check.names.known_names import words_of
from allotment.tools.check.rule import Fix, Found, Rule
from allotment.tools.check.selectors.reachability import sorts_of_class
from allotment.tools.check.selectors.unpublished_names import unpublished
from allotment.tools.views import ClaimView, RequestView, at


def _find(bundle: Bundle) -> Iterator[Found]:
    yield from unpublished(bundle, "capacity")
    for claim in bundle.claims:
        for request in claim.requests:
            if request.capacity:
                yield from _requested(bundle, claim, request)


def _requested(bundle: Bundle, claim: ClaimView, request: RequestView) -> Iterator[Found]:
    """Amounts that a request asks for of devices that several share (KEP-5075)."""
    drivers = {sort.driver for sort in sorts_of_class(bundle, claim.document, request.class_name) or ()}
    driver = drivers.pop() if len(drivers) == 1 else ""
    words = words_of(bundle, driver)
    given = bundle.published.capacities.get(driver) if bundle.published is not None else None
    if words is None and given is None:
        return  # nobody told us of it
    if given is not None:
        known = set(given)
    else:
        known = {name.rpartition("/")[2] for name in words.capacities_by_name} if words is not None else set()
    for key in request.capacity:
        name = key.removeprefix(f"{driver}/")
        path = (*request.body, "capacity", "requests", key)
        if name in known or "/" in name or at(claim.document.tree, path) is None:
            continue
        meant = near(name, known)
        message = f'{driver} publishes no capacity "{name}", so no device has enough of it'
        fix = None
        if len(meant) == 1 and meant[0] not in request.capacity:
            message += f': did you mean "{meant[0]}"?'
            fix = Fix(f"ask for {meant[0]}", ((claim.document, RenameKey(path, meant[0])),), safe=False)
        yield Found(claim.document, path, message, fix=fix, level="error" if given is not None else "warning", key=True)


RULE = Rule(
    code="V302",
    name="unknown-capacity",
    family="vocabulary",
    level="warning",
    summary="a selector or request names a capacity that the driver does not publish",
    why=(
        "As with attributes, the API server takes any name of a capacity, and a device without it makes the selector "
        "fail when it runs: the pod is not scheduled and the attempt is repeated (KEP-4381). A warning, because a "
        "driver may publish more than is known here; against the slices of a cluster an error."
    ),
    bad=examples.template(
        "large-gpu", selector='device.capacity["gpu.nvidia.com"].vram.isGreaterThan(quantity("30Gi"))\n'
    ),
    good=examples.template(
        "large-gpu", selector='device.capacity["gpu.nvidia.com"].memory.isGreaterThan(quantity("30Gi"))\n'
    ),
    find=_find,
    fixable="unsafe",
    see="https://kep.k8s.io/4381",
)
