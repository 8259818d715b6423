"""M401: a request takes all devices of a node although one seems to be intended."""

from __future__ import annotations

import re
from collections.abc import Iterator

from allotment.model.editing.edits import Remove
from allotment.tools.check import examples
from allotment.tools.check.bundle import Bundle
from allotment.tools.check.rule import Fix, Rule, RuleMatch
from allotment.tools.views import ClaimView, RequestView, at

_WORD = re.compile(r"[A-Z]?[a-z]+|[0-9]+")
#: Words in the name of a request or claim that indicate that all devices are intended.
_ALL_WORDS = frozenset(
    ("all", "every", "each", "any", "whole", "entire", "full", "node", "host", "machine", "exclusive")
)
#: Words that indicate a single device; they take precedence.
_SINGLE_WORDS = frozenset(("single", "one", "1", "a"))


def _find(bundle: Bundle) -> Iterator[RuleMatch]:
    for claim in bundle.claims:
        for request in claim.requests:
            path = (*request.body, "allocationMode")
            if request.mode != "All" or request.admin_access or at(claim.document.tree, path) is None:
                continue
            # S109 reports a count, which says how many devices are intended.
            if at(claim.document.tree, (*request.body, "count")) is not None or _is_intended(claim, request):
                continue
            subject = f"request {request.name}" if request.name else "a request without a name"
            yield RuleMatch(
                claim.document,
                path,
                f"{subject} requests every matching device on a node, and cannot be satisfied while any of them "
                "is in use",
                help=(
                    "remove allocationMode to request one device; if all devices are intended, use a name like all-gpus"
                ),
                fix=Fix("request one device", ((claim.document, Remove(path)),), safe=False),
            )


def _is_intended(claim: ClaimView, request: RequestView) -> bool:
    """Whether the names indicate several devices: ``all-gpus``, ``whole-node``, ``gpus``. The request's name comes
    first.
    """
    for name in (request.name, claim.key.name):
        parts = {word.lower() for word in _WORD.findall(name)}
        if parts & _SINGLE_WORDS:
            return False
        if parts & _ALL_WORDS or any(word.endswith("s") and len(word) > 3 for word in parts):
            return True
    return False


RULE = Rule(
    code="M401",
    name="all-devices",
    family="meaning",
    level="warning",
    summary="allocationMode All requests every matching device on a node, but only one seems to be intended",
    why=(
        "With allocationMode All, a claim gets all matching devices on one node, however many there are. It cannot be "
        "allocated on a node where any of them is already in use (KEP-4381). This mode is intended for node agents "
        "and for jobs that use a whole node. If only one GPU was intended, the claim nevertheless occupies all GPUs "
        "of the node, and the next pod stays pending. The rule does not report requests and claims whose names "
        "indicate that all devices are intended, or requests for admin access, which does not reserve the devices."
    ),
    bad=examples.template("inference", request_extra="allocationMode: All"),
    good=examples.template("inference"),
    find=_find,
    fixable="unsafe",
    see="https://kep.k8s.io/4381",
)
