"""``PreparedDevices``: the devices of a cluster, prepared once for many explanations of new objects.

Reading the slices of a thousand nodes takes longer than to explain a pod.
"""

from __future__ import annotations

from collections.abc import Iterable
from threading import Lock
from typing import Final

from allotment.explanation.input import Readers, reads_everything, sort_objects
from allotment.explanation.pod_trial import TrialScope
from allotment.explanation.report import Explanation
from allotment.explanation.run import ExplainRun
from allotment.explanation.subjects import is_relevant
from allotment.model.core import Node, Pod
from allotment.model.features import Features
from allotment.model.meta import Object
from allotment.model.resource import DeviceClass, DeviceTaintRule, ResourceClaim, ResourceSlice

#: Kinds of which new objects change the devices.
_OF_DEVICES: Final = (Node, ResourceSlice, DeviceClass, DeviceTaintRule)


class PreparedDevices:
    """The devices of a cluster with what is allocated. Threads wait for each other.

    ``cluster``: its objects; they and ``features`` must not change.
    """

    def __init__(self, cluster: Iterable[Object], features: Features) -> None:
        state = (value for value in cluster if is_relevant(value, only_state=True))
        self._features = features
        self._run = ExplainRun(sort_objects(state, features))
        self._lock = Lock()

    def explain(
        self,
        values: Iterable[Object],
        others: Iterable[Pod] = (),
        *,
        default_namespace: str = "default",
        readers: Readers = reads_everything,
    ) -> Explanation:
        """Return what `explain` returns for the cluster's objects and new ones that `are_usable`."""
        input = sort_objects(values, self._features, others, default_namespace, readers)
        with self._lock:
            run = ExplainRun(input, devices_of=self._run)
            before = run.mark()
            try:
                answers = list(run.answers(TrialScope()))
                answers += [run.claim_alone(key, TrialScope()) for key in run.unnamed()]
                return Explanation(answers=tuple(answers), notes=tuple(run.notes()))
            finally:
                run.revert(before)


def are_usable(new: Iterable[Object]) -> bool:
    """Whether new objects leave the devices of the cluster and their allocations as they are."""
    return not any(
        isinstance(value, _OF_DEVICES) or (isinstance(value, ResourceClaim) and value.status.allocation is not None)
        for value in new
    )
