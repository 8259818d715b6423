"""M401: every device of the node, where one was meant."""

from __future__ import annotations

import re
from collections.abc import Iterator

from allotment.model.editing.edits import Remove
from allotment.tools.check import examples
from allotment.tools.check.bundle import Bundle
from allotment.tools.check.rule import Fix, RuleMatch, Rule
from allotment.tools.views import ClaimView, RequestView, at

_WORD = re.compile(r"[A-Z]?[a-z]+|[0-9]+")
#: Words in the name of a request or claim whose author knows that All takes the whole node.
_ALL_WORDS = frozenset(("all", "every", "each", "any", "whole", "entire", "full", "node", "host", "machine", "exclusive"))
#: Words that speak of one device, whatever else the name says.
_SINGLE_WORDS = frozenset(("single", "one", "1", "a"))


def _find(bundle: Bundle) -> Iterator[RuleMatch]:
    for claim in bundle.claims:
        for request in claim.requests:
            path = (*request.body, "allocationMode")
            if request.mode != "All" or request.admin_access or at(claim.document.tree, path) is None:
                continue
            if _is_intended(claim, request):
                continue
            name = request.name or "without a name"
            yield RuleMatch(
                claim.document,
                path,
                f"request {name} takes every matching device of a node, and none while one of them is in use",
                help="without allocationMode it takes one; if all are meant, say so in its name (all-gpus)",
                fix=Fix("take one device", ((claim.document, Remove(path)),), safe=False),
            )


def _is_intended(claim: ClaimView, request: RequestView) -> bool:
    """Whether the names speak of several devices: ``all-gpus``, ``whole-node``, ``gpus``. The request's goes first."""
    for name in (request.name, claim.key.name):
        words = {word.lower() for word in _WORD.findall(name)}
        if words & _SINGLE_WORDS:
            return False
        if words & _ALL_WORDS or any(word.endswith("s") and len(word) > 3 for word in words):
            return True
    return False


RULE = Rule(
    code="M401",
    name="all-devices",
    family="meaning",
    level="warning",
    summary="allocationMode All takes every matching device of a node, where one seems to be meant",
    why=(
        "With allocationMode All a claim gets all devices of one node that match, however many these are, and it gets "
        "nothing on a node where any of them is allocated already (KEP-4381). It is meant for node agents and for jobs "
        "that own their node. Who copies it for a single GPU holds eight, and the next pod waits. The rule is silent "
        "where the name of the request or claim says that all are meant, and for admin access, which shares devices."
    ),
    bad=examples.template("inference", request_extra="allocationMode: All"),
    good=examples.template("inference"),
    find=_find,
    fixable="unsafe",
    see="https://kep.k8s.io/4381",
)
