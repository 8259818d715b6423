"""Reasons that are known already: claims that ask alike fail alike as long as nobody is given devices in between.

Replicas, and the same template in many namespaces, ask for the same; only the names in the answer differ. So claims are
asked about under names that nobody has, which are then written as those of whoever asks.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from allotment.engine.diagnosis.diagnoser import Diagnoser
from allotment.engine.diagnosis.scenario import claim_name
from allotment.engine.refusal import Diagnosis
from allotment.model.resource import ResourceClaim

#: Names in private characters of Unicode, which no object has.
_NAME: Final = re.compile("\ue000([0-9]+)\ue001")


class Known:
    """What a diagnoser has answered since the last change of the cluster."""

    def __init__(self, diagnoser: Diagnoser) -> None:
        self._diagnoser = diagnoser
        self._answers: dict[tuple[str, tuple[str, ...]], Diagnosis] = {}

    def forget(self) -> None:
        """The cluster has changed."""
        self._answers.clear()

    def diagnose(self, claims: Sequence[ResourceClaim], nodes: Sequence[str]) -> Diagnosis:
        """Why claims, together, fit none of the nodes."""
        asked = (repr([claim.spec for claim in claims]), tuple(nodes))
        if asked not in self._answers:
            nameless = [
                replace(claim, metadata=replace(claim.metadata, namespace="", name=f"\ue000{number}\ue001"))
                for number, claim in enumerate(claims)
            ]
            self._answers[asked] = self._diagnoser.diagnose(nameless, nodes)
        named: Diagnosis = _named(self._answers[asked], [claim_name(claim) for claim in claims])
        return named


def _named(value: Any, names: list[str]) -> Any:
    if isinstance(value, str):
        return _NAME.sub(lambda found: names[int(found[1])], value) if "\ue000" in value else value
    if isinstance(value, tuple):
        items = [_named(item, names) for item in value]
        return tuple(items) if any(new is not old for new, old in zip(items, value, strict=True)) else value
    if isinstance(value, msgspec.Struct):
        written = {name: getattr(value, name) for name in value.__struct_fields__}
        changed = {name: new for name, old in written.items() if (new := _named(old, names)) is not old}
        return replace(value, **changed) if changed else value
    return value
