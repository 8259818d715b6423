"""The kubelet's events about pods and containers, with the kubelet's texts."""

from __future__ import annotations

from typing import NamedTuple

from allotment.cluster.recorder import EventType, Recorder
from allotment.model.trees import Tree
from allotment.node.image_names import INVALID_NAME, NEVER, PULL_FAILED


class PodEvents(NamedTuple):
    """Records events of one pod. ``tree``: any version of the pod."""

    recorder: Recorder
    tree: Tree

    def pod(self, type: EventType, reason: str, message: str) -> None:
        """Record an event about the pod."""
        self._record("", type, reason, message)

    def container(self, spec: Tree, type: EventType, reason: str, message: str) -> None:
        """Record an event about one of its containers."""
        kind = "containers"
        for other in ("initContainers", "ephemeralContainers"):
            if any(each["name"] == spec["name"] for each in self.tree["spec"].get(other) or ()):
                kind = other
        self._record(f"spec.{kind}{{{spec['name']}}}", type, reason, message)

    def pulled(self, spec: Tree) -> None:
        """Record that a container's image is present."""
        image = spec.get("image", "")
        message = f'Container image "{image}" already present on machine and can be accessed by the pod'
        self.container(spec, "Normal", "Pulled", message)

    def started(self, spec: Tree) -> None:
        """Record that a container was created and started."""
        self.container(spec, "Normal", "Created", "Container created")
        self.container(spec, "Normal", "Started", "Container started")

    def not_started(self, spec: Tree, reason: str, message: str) -> None:
        """Record why a container was not started, in the steps of the kubelet: pull the image, create, start."""
        image = spec.get("image", "")
        if reason == PULL_FAILED:
            self.container(spec, "Normal", "Pulling", f'Pulling image "{image}"')
            self.container(spec, "Warning", "Failed", f'Failed to pull image "{image}": {message}')
        elif reason == NEVER:
            self.container(spec, "Warning", NEVER, message)
        elif reason == INVALID_NAME:
            self.container(spec, "Warning", "InspectFailed", message)
        else:
            self.pulled(spec)
        is_image = reason in (PULL_FAILED, NEVER, INVALID_NAME)
        self.container(spec, "Warning", "Failed", f"Error: {reason if is_image else message}")

    def back_off_pulling(self, spec: Tree) -> None:
        """Record the back-off before an image is pulled again."""
        self.container(spec, "Normal", "BackOff", f'Back-off pulling image "{spec.get("image", "")}"')
        self.container(spec, "Warning", "Failed", "Error: ImagePullBackOff")

    def restarting(self, spec: Tree) -> None:
        """Record the back-off before a failed container restarts."""
        meta = self.tree["metadata"]
        where = f"{meta['name']}_{meta.get('namespace', '')}({meta.get('uid', '')})"
        message = f"Back-off restarting failed container {spec['name']} in pod {where}"
        self.container(spec, "Warning", "BackOff", message)

    def _record(self, field: str, type: EventType, reason: str, message: str) -> None:
        about = {"kind": "Pod", "apiVersion": "v1", "metadata": self.tree["metadata"], "fieldPath": field}
        self.recorder.event(about, type, reason, message)
