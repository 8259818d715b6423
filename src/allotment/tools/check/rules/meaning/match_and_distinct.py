"""M414: a constraint with both matchAttribute and distinctAttribute, of which Kubernetes only evaluates the first."""

from __future__ import annotations

from collections.abc import Iterator

from allotment.model.editing.edits import InsertItem, Remove
from allotment.tools.check import examples
from allotment.tools.check.bundle import Bundle
from allotment.tools.check.rule import Fix, Rule, RuleMatch
from allotment.tools.views import at, items


def _find(bundle: Bundle) -> Iterator[RuleMatch]:
    for claim in bundle.claims:
        where = (*claim.devices, "constraints")
        for number, constraint in items(at(claim.document.tree, where)):
            match, distinct = (constraint.get(name) for name in ("matchAttribute", "distinctAttribute"))
            if not isinstance(match, str) or not isinstance(distinct, str):
                continue
            second = {key: value for key, value in constraint.items() if key != "matchAttribute"}
            if match == distinct:
                fix = None
            else:
                edits = (
                    (claim.document, Remove((*where, number, "distinctAttribute"))),
                    (claim.document, InsertItem(where, number + 1, second)),
                )
                fix = Fix("split it into two constraints", edits, safe=False)
            yield RuleMatch(
                claim.document,
                (*where, number, "distinctAttribute"),
                "distinctAttribute is silently ignored because matchAttribute is also set",
                help="devices cannot have both equal and different values of one attribute"
                if match == distinct
                else "",
                fix=fix,
                at_key=True,
            )


_CONSTRAINTS = """\
constraints:
- matchAttribute: gpu.nvidia.com/productName
{}distinctAttribute: gpu.nvidia.com/brand
"""

RULE = Rule(
    code="M414",
    name="match-and-distinct",
    family="meaning",
    level="error",
    summary="a constraint has both matchAttribute and distinctAttribute: distinctAttribute is ignored",
    why=(
        "According to the API documentation, exactly one of the two fields may be set. However, the API server "
        "accepts a constraint with both, and the allocator then evaluates only matchAttribute: the devices may have "
        "the same value for the other attribute. Use two constraints instead (KEP-5075)."
    ),
    bad=examples.template(
        "two-gpus", request="gpus", request_extra="count: 2", devices_extra=_CONSTRAINTS.format("  ")
    ),
    good=examples.template(
        "two-gpus", request="gpus", request_extra="count: 2", devices_extra=_CONSTRAINTS.format("- ")
    ),
    find=_find,
    fixable="unsafe",
    see="https://kep.k8s.io/5075",
)
