"""V302: a capacity that the driver does not publish."""

from __future__ import annotations

from collections.abc import Iterator

from allotment.engine.diagnosis.published_names import similar_names
from allotment.model.editing.edits import RenameKey
from allotment.tools.check import examples
from allotment.tools.check.bundle import Bundle
from allotment.tools.check.names.known_names import vocabulary_of
from allotment.tools.check.rule import Fix, Rule, RuleMatch
from allotment.tools.check.selectors.reachability import categories_of_class
from allotment.tools.check.selectors.unpublished_names import unpublished_names
from allotment.tools.views import ClaimView, RequestView, at


def _find(bundle: Bundle) -> Iterator[RuleMatch]:
    yield from unpublished_names(bundle, "capacity")
    for claim in bundle.claims:
        for request in claim.requests:
            if request.capacity:
                yield from _check_request(bundle, claim, request)


def _check_request(bundle: Bundle, claim: ClaimView, request: RequestView) -> Iterator[RuleMatch]:
    """Capacities that a request requires of shareable devices (KEP-5075)."""
    drivers = {category.driver for category in categories_of_class(bundle, claim.document, request.class_name) or ()}
    driver = drivers.pop() if len(drivers) == 1 else ""
    vocab = vocabulary_of(bundle, driver)
    published = bundle.published.capacities.get(driver) if bundle.published is not None else None
    if vocab is None and published is None:
        return  # unknown driver
    if published is not None:
        known = set(published)
    else:
        known = {name.rpartition("/")[2] for name in vocab.capacities_by_name} if vocab is not None else set()
    for key in request.capacity:
        name = key.removeprefix(f"{driver}/")
        path = (*request.body, "capacity", "requests", key)
        if name in known or "/" in name or at(claim.document.tree, path) is None:
            continue
        similar = similar_names(name, known)
        message = f'{driver} publishes no capacity "{name}", so no device has enough of it'
        fix = None
        if len(similar) == 1 and similar[0] not in request.capacity:
            message += f': did you mean "{similar[0]}"?'
            fix = Fix(f"request {similar[0]}", ((claim.document, RenameKey(path, similar[0])),), safe=False)
        yield RuleMatch(
            claim.document, path, message, fix=fix, level="error" if published is not None else "warning", at_key=True
        )


RULE = Rule(
    code="V302",
    name="unknown-capacity",
    family="vocabulary",
    level="warning",
    summary="a selector or request names a capacity that the driver does not publish",
    why=(
        "As with attributes, the API server accepts any capacity name, and reading a capacity that a device does not "
        "have is an evaluation error: the pod is not scheduled, and the scheduler retries indefinitely (KEP-4381). "
        "Drivers may publish names that Allotment does not know, so the finding is a warning; if the slices of a "
        "cluster are given, it is an error."
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
