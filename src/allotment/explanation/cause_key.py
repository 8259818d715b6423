"""``CauseKey``: what the reason of a pending pod says in essence, to decide whether it must be reported again.

Amounts, node names and the pods to wait for change with every pod and node of a busy cluster; a reason that differs
only in these needs no new event. The key contains the rest: the code, the object or field, and the first remedy.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import msgspec

from allotment.engine.refusal import Diagnosis, SuggestedChange

#: Codes about an object as it is written: their summaries quote it, and neither amounts nor the use of the cluster.
_AS_WRITTEN: Final = frozenset(
    {
        "feature-off", "class-missing", "claim-missing", "claim-not-owned", "group-missing", "group-topology-missing",
        "template-missing", "extended-resource-missing", "wrong-namespace", "selector-invalid", "invalid-manifest",
    }
)  # fmt: skip
#: The code of a gang names the claim of the pod that happened to be refused.
_OF_ANY_POD: Final = "gang-incomplete"
#: Remedies whose value is an amount, and those whose value or object is that of a node.
_AMOUNTS: Final = frozenset(
    {"less", "less-memory", "more-pods", "replicas", "smaller", "smaller-gang", "smaller-share"}
)
_OF_NODES: Final = frozenset({"select", "select-model", "select-less", "uncordon", "recover"})


class RemedyKey(NamedTuple):
    """A change of the first remedy. ``becomes``: the new value as JSON, or only its fields if it is an amount or a
    node's label."""

    remedy: str
    object: str = ""
    path: str = ""
    becomes: str = ""


class CauseKey(NamedTuple):
    """A cause and its first remedy. ``subject``: what it is about if there is no code, or in addition to it."""

    code: str
    subject: str = ""
    claim: str = ""
    request: str = ""
    remedy: tuple[RemedyKey, ...] = ()

    def renamed(self, claims: Mapping[str, str]) -> CauseKey:
        """The key of an equivalent pod, whose claims have other names."""
        objects = {f"ResourceClaim {old}": f"ResourceClaim {new}" for old, new in claims.items()}
        remedy = tuple(change._replace(object=objects.get(change.object, change.object)) for change in self.remedy)
        return self._replace(claim=claims.get(self.claim, self.claim), remedy=remedy)

    def digest(self) -> str:
        """A short text that is equal for equal keys, also in other processes."""
        return hashlib.sha256(msgspec.json.encode(self)).hexdigest()[:16]


def cause_key(reasons: Diagnosis) -> CauseKey:
    """The key of a diagnosis.

    >>> from allotment.engine.refusal import AllocationRefusal
    >>> wait = SuggestedChange("wait for pod b to finish", "ResourceClaim ml/a", "status.allocation", remedy="wait")
    >>> busy = AllocationRefusal("devices-in-use", "all are in use by claim ml/a", "n", changes=(wait,))
    >>> cause_key(Diagnosis(busy))
    CauseKey(code='devices-in-use', subject='', claim='', request='', remedy=())
    """
    refused = reasons.headline
    return CauseKey(
        refused.code,
        refused.summary if refused.code in _AS_WRITTEN else "",
        "" if refused.code == _OF_ANY_POD else refused.claim,
        refused.request,
        tuple(_remedy(change) for change in refused.changes if change.remedy != "wait"),
    )


def _remedy(change: SuggestedChange) -> RemedyKey:
    if change.remedy in _AMOUNTS or change.remedy in _OF_NODES:
        object_ = "" if change.object.startswith("Node ") else change.object
        return RemedyKey(change.remedy, object_, change.path, _fields(change.becomes))
    return RemedyKey(change.remedy, change.object, change.path, _json(change.becomes))


def _fields(value: Any) -> str:
    """The names of the fields of a value, without what they contain."""
    return ",".join(sorted(value)) if isinstance(value, dict) else ""


def _json(value: Any) -> str:
    return "" if value is None else msgspec.json.encode(value, order="sorted").decode()
