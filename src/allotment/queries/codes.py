"""``explain-code``: what the code of a reason, a rule or a check of doctor means."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, Final

from allotment.engine.refusal import CODES
from allotment.errors import InputError
from allotment.fleet.errors import suggestion
from allotment.queries.requests import CodeRequest
from allotment.reference.check_rules import rules
from allotment.reference.cluster_checks import checks
from allotment.watched.view import ClusterView

_HINT: Final = "codes are those of answers: of reasons (devices-in-use), rules (M401) and checks of doctor (D301)"


def explain_code(view: ClusterView, request: CodeRequest) -> dict[str, Any]:
    """Return the meaning of a code, with the keys that ``allot rule`` and ``allot doctor --list`` print.

    Raises InputError for an unknown code.
    """
    wanted = request.code.strip()
    found = meanings().get(wanted.lower())
    if found is not None:
        return dict(found)
    hint = suggestion(wanted, [each["code"] for each in meanings().values()]) if wanted else ""
    raise InputError(f"unknown code {wanted!r}", hint or _HINT, argument="code")


@cache
def meanings() -> Mapping[str, Mapping[str, Any]]:
    """Return all codes by their lower-case form: reasons in the order of their table, then rules and checks."""
    every = (
        *({"code": code, "kind": "reason", **reason._asdict()} for code, reason in CODES.items()),
        *({"code": rule["code"], "kind": "rule", **rule} for rule in rules()),
        *({"code": check["code"], "kind": "check", **check} for check in checks()),
    )
    return {each["code"].lower(): each for each in every}
