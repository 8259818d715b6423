"""Creation and deletion of a workload's pods: written, noted in the cache, and recorded as events of the owner."""

from __future__ import annotations

from typing import Any

from allotment.cluster.cache import Cache
from allotment.cluster.cached_item import CachedItem
from allotment.cluster.client import Client
from allotment.cluster.errors import StatusError
from allotment.cluster.recorder import Recorder
from allotment.cluster.resources import PODS
from allotment.model.trees import Tree


class OwnPods:
    """Creates and deletes the pods of one controller."""

    def __init__(self, pods: Cache[Any], client: Client, recorder: Recorder) -> None:
        self._pods = pods
        self._client = client
        self._recorder = recorder

    async def create(self, owner: CachedItem[Any], pod: Tree) -> None:
        """Create a pod for its owner."""
        try:
            made = await self._client.create(PODS, pod, owner.namespace)
        except StatusError as error:
            self._recorder.event(owner.tree, "Warning", "FailedCreate", f"Error creating: {error}")
            raise
        self._pods.record_write(made)
        text = f"Created pod: {made['metadata']['name']}"
        self._recorder.event(owner.tree, "Normal", "SuccessfulCreate", text)

    async def delete(self, owner: CachedItem[Any], pod: CachedItem[Any]) -> None:
        """Delete a pod of an owner. A pod that is already deleted is no error; another one of its name is kept."""
        try:
            gone = await self._client.delete(PODS, pod.name, pod.namespace, uid=pod.uid)
        except StatusError as error:
            if error.code == 404:
                self._pods.record_deletion(pod.tree)
                return
            self._recorder.event(owner.tree, "Warning", "FailedDelete", f"Error deleting: {error}")
            raise
        metadata = gone.get("metadata") or {}
        if metadata.get("uid") == pod.uid and "deletionTimestamp" in metadata:
            self._pods.record_write(gone)
        else:
            self._pods.record_deletion(pod.tree)
        self._recorder.event(owner.tree, "Normal", "SuccessfulDelete", f"Deleted pod: {pod.name}")
