"""The changes to make in the author's manifests after commands have made them in the cluster.

Otherwise the next ``kubectl apply`` reverts them; if the field is immutable, or if the object is applied on the server,
it fails instead.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from allotment.engine.refusal import SuggestedChange
from allotment.explanation.fixes import path_steps
from allotment.explanation.replacement import named
from allotment.explanation.stale_claims import RECREATE
from allotment.model.editing.formatting import TextStyle, flow_text
from allotment.phrases import listed

#: Kinds of objects that administrators change with commands.
_WITHOUT_MANIFEST: Final = frozenset({"Node", "Namespace"})
_STYLE: Final = TextStyle()
#: Maximum length of a value that is quoted; the answer contains longer ones already.
_MAX_TEXT: Final = 60


def change_in_manifests(changes: Iterable[SuggestedChange]) -> str:
    """The fields and values to change in manifests, by object, as a sentence without a period; empty without any.

    >>> change = SuggestedChange("use web", "ResourceClaim ml/a", "spec.devices.requests[0].exactly.count", 2)
    >>> change_in_manifests([change])
    'make the same change in the manifest, or the next kubectl apply reverts it or fails: count: 2 in ResourceClaim a'
    """
    fields: dict[str, list[str]] = {}
    for change in changes:
        kind, key = named(change.object)
        if change.path and change.remedy not in ("wait", RECREATE) and kind not in _WITHOUT_MANIFEST:
            fields.setdefault(f"{kind} {key.name}", []).append(_field(change))
    if not fields:
        return ""
    places = [f"{listed(texts)} in {name}" for name, texts in fields.items()]
    manifests = "manifest" if len(fields) == 1 else "manifests"
    return (
        f"make the same change in the {manifests}, or the next kubectl apply reverts it or fails: {'; '.join(places)}"
    )


def _field(change: SuggestedChange) -> str:
    """The last field of the path with its new value, unless that is long."""
    steps = path_steps(change.path)
    name = next(step for step in reversed(steps) if isinstance(step, str))
    if change.becomes is None:
        return f"remove {name}"
    text = flow_text(change.becomes, _STYLE, flow=True)
    return f"{name}: {text}" if len(text) <= _MAX_TEXT else name
