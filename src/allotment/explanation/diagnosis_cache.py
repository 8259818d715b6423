"""``DiagnosisCache``: diagnoses by the specs of claims, valid until devices are allocated.

Replicas, and the same template in many namespaces, have equal requests; only the names in the diagnosis differ. Claims
are therefore diagnosed under placeholder names, which are replaced by the actual names in each result.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from allotment.engine.diagnosis.diagnoser import Diagnoser
from allotment.engine.diagnosis.reader import EVERYTHING, Reader
from allotment.engine.diagnosis.scenario import claim_name
from allotment.engine.refusal import Diagnosis
from allotment.model.resource import ResourceClaim

#: Placeholder names in private Unicode characters, which no object name contains.
_NAME: Final = re.compile("\ue000([0-9]+)\ue001")


class DiagnosisCache:
    """The diagnoses since the last allocation."""

    def __init__(self, diagnoser: Diagnoser) -> None:
        self._diagnoser = diagnoser
        self._answers: dict[tuple[str, tuple[str, ...], Reader], Diagnosis] = {}

    def clear(self) -> None:
        """Drop all diagnoses after the cluster changed."""
        self._answers.clear()

    def diagnose(self, claims: Sequence[ResourceClaim], nodes: Sequence[str], reader: Reader = EVERYTHING) -> Diagnosis:
        """The reasons why claims together fit none of the nodes, as the reader may see them."""
        key = (repr([claim.spec for claim in claims]), tuple(nodes), self._diagnoser.relevant(reader))
        if key not in self._answers:
            nameless = [
                replace(claim, metadata=replace(claim.metadata, namespace="", name=f"\ue000{number}\ue001"))
                for number, claim in enumerate(claims)
            ]
            self._answers[key] = self._diagnoser.diagnose(nameless, nodes, reader)
        named: Diagnosis = _with_names(self._answers[key], [claim_name(claim) for claim in claims])
        return named


def _with_names(value: Any, names: list[str]) -> Any:
    if isinstance(value, str):
        return _NAME.sub(lambda found: names[int(found[1])], value) if "\ue000" in value else value
    if isinstance(value, tuple):
        items = [_with_names(item, names) for item in value]
        return tuple(items) if any(new is not old for new, old in zip(items, value, strict=True)) else value
    if isinstance(value, msgspec.Struct):
        written = {name: getattr(value, name) for name in value.__struct_fields__}
        changed = {name: new for name, old in written.items() if (new := _with_names(old, names)) is not old}
        return replace(value, **changed) if changed else value
    return value
