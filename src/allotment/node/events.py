"""What a kubelet tells about its pods, in its words: the events that people read when a pod does not come up."""

from __future__ import annotations

from typing import NamedTuple

from allotment.cluster.recorder import EventType, Recorder
from allotment.model.trees import Tree


class PodEvents(NamedTuple):
    """Tells about one pod. ``tree``: any state of it."""

    recorder: Recorder
    tree: Tree

    def pod(self, type: EventType, reason: str, message: str) -> None:
        """About the pod."""
        self._record("", type, reason, message)

    def container(self, spec: Tree, type: EventType, reason: str, message: str) -> None:
        """About one of its containers."""
        inits = self.tree["spec"].get("initContainers") or ()
        kind = "initContainers" if any(each["name"] == spec["name"] for each in inits) else "containers"
        self._record(f"spec.{kind}{{{spec['name']}}}", type, reason, message)

    def pulled(self, spec: Tree) -> None:
        """Its image is there."""
        image = spec.get("image", "")
        told = f'Container image "{image}" already present on machine and can be accessed by the pod'
        self.container(spec, "Normal", "Pulled", told)

    def started(self, spec: Tree) -> None:
        """It runs."""
        self.container(spec, "Normal", "Created", "Container created")
        self.container(spec, "Normal", "Started", "Container started")

    def restarting(self, spec: Tree) -> None:
        """It failed, and is not run again at once."""
        meta = self.tree["metadata"]
        where = f"{meta['name']}_{meta.get('namespace', '')}({meta.get('uid', '')})"
        told = f"Back-off restarting failed container {spec['name']} in pod {where}"
        self.container(spec, "Warning", "BackOff", told)

    def _record(self, field: str, type: EventType, reason: str, message: str) -> None:
        about = {"kind": "Pod", "apiVersion": "v1", "metadata": self.tree["metadata"], "fieldPath": field}
        self.recorder.event(about, type, reason, message)
