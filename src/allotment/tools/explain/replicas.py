"""Pods that wait for devices which pods of their own workload hold: those do not end, so to wait is no remedy.

Either there are more replicas than devices for them; or a Deployment's new pod waits for the devices of the one that it
is to replace, which goes only when the new one is ready.
"""

from __future__ import annotations

import re
from typing import Final

from msgspec.structs import replace

from allotment.engine.refusal import Change, Diagnosis
from allotment.model.core import Pod

#: Workloads whose pods run until somebody ends them.
_ENDLESS: Final = frozenset({"Deployment", "ReplicaSet", "StatefulSet", "ReplicationController"})
_HASH: Final = "pod-template-hash"
#: How a Deployment replaces pods where there are no devices for one more.
_IN_TURN: Final = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}}


def with_replicas(diagnosis: Diagnosis, pod: Pod) -> Diagnosis:
    """The reasons; where the pod was told to wait for its own kind, with what to do instead."""
    owner = next((one for one in pod.metadata.owner_references if one.controller), None)
    first = next(iter(diagnosis.headline.changes), None)
    if owner is None or owner.kind not in _ENDLESS or first is None or first.remedy != "wait":
        return diagnosis
    before, namespace = f"ResourceClaim {pod.metadata.namespace}/", pod.metadata.namespace
    hash_ = pod.metadata.labels.get(_HASH, "")
    deployment = owner.name.removesuffix(f"-{hash_}")
    if first.object.startswith(f"{before}{owner.name}-"):
        whose = f"{owner.kind} {namespace}/{owner.name}"
        text = f"run fewer replicas of {whose}, or add a node: its other pods hold devices, and do not end"
        instead = Change(text=text, remedy="replicas")
    elif hash_ and re.match(rf"{re.escape(before + deployment)}-[a-z0-9]+-[a-z0-9]{{5}}-", first.object):
        instead = Change(
            text="let the Deployment end an old pod before it starts a new one, for the old ones hold the devices",
            object=f"Deployment {namespace}/{deployment}",
            path="spec.strategy",
            becomes=_IN_TURN,
            node=first.node,
            remedy="rollout",
        )
    else:
        return diagnosis
    headline = replace(diagnosis.headline, changes=(instead,))
    rows = tuple(
        replace(row, refused=headline) if row.refused == diagnosis.headline else row for row in diagnosis.nodes
    )
    return replace(diagnosis, headline=headline, nodes=rows)
