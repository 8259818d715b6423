"""Evicts the victims of preemption: sets their DisruptionTarget condition, then deletes them."""

from __future__ import annotations

import logging
from typing import Any

from allotment.cluster.cache import Cache
from allotment.cluster.client import Client
from allotment.cluster.clock import Clock
from allotment.cluster.errors import StatusError, Unreachable
from allotment.cluster.recorder import Recorder
from allotment.cluster.resources import PODS
from allotment.model.meta import ObjectKey
from allotment.node_fit.assigned_pod import AssignedPod
from allotment.scheduler.reporting.reporter import StatusReporter

_log = logging.getLogger(__name__)


class PreemptionEvictor:
    """Evicts the victims that `select_victims` returned."""

    def __init__(
        self, client: Client, reporter: StatusReporter, clock: Clock, recorder: Recorder, pods: Cache[Any], name: str
    ) -> None:
        self._client = client
        self._reporter = reporter
        self._clock = clock
        self._recorder = recorder
        self._pods = pods
        self._name = name

    async def preempt(self, victim: AssignedPod, uid: str, node: str, kind: str = "pod") -> bool:
        """Mark a pod as preempted by another one, or by a group, and delete it.

        ``uid``, ``kind``: of the preemptor. ``node``: where it will run, ``cluster`` for a group. Return False if that
        failed and must be retried.
        """
        item = self._pods.item(victim.namespace, victim.name)
        if item is None or item.uid != victim.uid or item.deleting:
            return True
        now = self._clock.now()
        condition = {
            "type": "DisruptionTarget",
            "status": "True",
            "reason": "PreemptionByScheduler",
            "message": f"{self._name}: preempting to accommodate a higher priority {kind}",
            "lastProbeTime": None,
            "lastTransitionTime": now,
        }
        key = ObjectKey(victim.namespace, victim.name)
        await self._reporter.patch(key, victim.uid, {"conditions": [condition]})
        try:
            await self._client.delete(PODS, victim.name, victim.namespace, uid=victim.uid)
        except StatusError as error:
            if error.code not in (404, 409):
                _log.warning("pod %s could not be preempted: %s", key, error)
                return False
            return True
        except Unreachable as error:
            _log.info("pod %s could not be preempted: %s", key, error)
            return False
        self._recorder.event(
            item.tree, "Normal", "Preempted", f"Preempted by {kind} {uid} on node {node}", "Preempting"
        )
        return True
