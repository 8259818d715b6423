"""``PreparedDevices``: explanations of a cluster as it changes, of which everything that did not change is used again.

Reading the slices of a thousand nodes takes longer than to explain a pod.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import is_

from allotment.explanation.cluster_devices import ClusterDevices
from allotment.explanation.input import AdmittedObjects, Readers, reads_everything, sort_objects
from allotment.explanation.pending_run import PendingRun
from allotment.explanation.pod_shapes import PodShapes
from allotment.explanation.pod_trial import TrialScope
from allotment.explanation.report import Explanation
from allotment.explanation.run import ExplainRun
from allotment.model.core import Pod
from allotment.model.features import Features
from allotment.model.meta import Object


class PreparedDevices:
    """The devices of a cluster with what is allocated, as of the last explanation. Threads wait for each other.

    ``features``: those of the cluster, which do not change. Objects that did not change must be the same ones.
    """

    def __init__(self, features: Features) -> None:
        self._features = features
        self._devices = ClusterDevices(features)
        self._shapes = PodShapes()
        self._admitted = AdmittedObjects(features)
        self._last: tuple[Sequence[Object], Sequence[Pod], Readers, PendingRun] | None = None

    def explain(
        self,
        values: Iterable[Object],
        others: Iterable[Pod] = (),
        *,
        default_namespace: str = "default",
        readers: Readers = reads_everything,
    ) -> Explanation:
        """Return what `explain` returns."""
        input = sort_objects(values, self._features, others, default_namespace, readers, self._admitted)
        with self._devices.lock:
            run = ExplainRun(input, devices=self._devices)
            answers = list(run.answers(TrialScope()))
            answers += [run.claim_alone(key, TrialScope()) for key in run.unnamed()]
            return Explanation(answers=tuple(answers), notes=tuple(run.notes()))

    def pending(
        self, values: Sequence[Object], others: Sequence[Pod], readers: Readers = reads_everything
    ) -> PendingRun:
        """Return the pending pods; the same run as the last time if no object changed."""
        with self._devices.lock:
            last = self._last
            if last is None or readers != last[2] or not (_are_same(values, last[0]) and _are_same(others, last[1])):
                run = PendingRun(
                    values, self._features, others, readers=readers,
                    devices=self._devices, shapes=self._shapes, admitted=self._admitted,
                )  # fmt: skip
                self._last = last = values, others, readers, run
            return last[3]


def _are_same(some: Sequence[object], others: Sequence[object]) -> bool:
    return len(some) == len(others) and all(map(is_, some, others))
