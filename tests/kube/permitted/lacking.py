"""A part without one of its permissions: one verb on one resource of one name, everything else as it was."""

from __future__ import annotations

from collections.abc import Iterable

from allotment.tools.permissions.asking import Ask, asks
from allotment.tools.permissions.roles import NAMESPACE
from allotment.tools.permissions.rule import Part, Rule


def lacking(part: Part, ask: Ask) -> Part:
    """The part without it."""
    left = [one for one in asks(part) if one != ask]
    assert len(left) == len(asks(part)) - 1, f"{ask.verb} {ask} is granted twice"
    return part._replace(
        everywhere=_rules(one for one in left if one.namespace != NAMESPACE),
        at_home=_rules(one for one in left if one.namespace == NAMESPACE),
    )


def _rules(left: Iterable[Ask]) -> tuple[Rule, ...]:
    return tuple(
        Rule((), (), (one.verb,), one.why, paths=(one.path,))
        if one.path
        else Rule((one.group,), (_whole(one),), (one.verb,), one.why, names=(one.name,) if one.name else ())
        for one in left
    )


def _whole(one: Ask) -> str:
    return f"{one.resource}/{one.subresource}" if one.subresource else one.resource
