"""Pods that run on devices with a NoExecute taint that they do not tolerate."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import timedelta

from allotment.engine.cluster.identity import DeviceID
from allotment.engine.cluster.taints import rule_applies, tolerates
from allotment.model.resource import DeviceRequestAllocationResult, DeviceTaint, ResourceClaim
from allotment.tools.doctor.check import ClusterCheck, Symptom
from allotment.tools.doctor.cluster_index import GRACE_PERIOD, ClusterIndex
from allotment.tools.doctor.object_state import is_finished, name_of
from allotment.tools.doctor.wording import kubectl_args, remedy
from allotment.tools.doctor.workload_groups import pods_text


def find(cluster: ClusterIndex) -> Iterable[Symptom]:
    """All such pods as one symptom."""
    if not cluster.features.enabled("DRADeviceTaints"):
        return
    staying: dict[str, str] = {}
    for id, results in cluster.results.items():
        for taint in _taints(cluster, id):
            for claim, result in results:
                if _is_due(cluster, taint, result):
                    for name in _running(cluster, claim):
                        staying.setdefault(name, f"{taint.key} on {id.device}")
    if not staying:
        return
    names = list(staying)
    verb, they = ("uses", "it does") if len(names) == 1 else ("use", "they do")
    text = f"{pods_text(cluster, names)} {verb} devices with a NoExecute taint that {they} not tolerate"
    text += f" ({staying[names[0]]})"
    help_ = remedy(
        "The device taint eviction controller of kube-controller-manager evicts such pods: check whether it is running."
        " To delete a pod now (its work is lost):",
        f"kubectl delete pod {kubectl_args(names[0])}",
    )
    yield Symptom.of("pod", names, text, help_)


def _taints(cluster: ClusterIndex, id: DeviceID) -> Iterator[DeviceTaint]:
    published = cluster.devices.get(id)
    taints = list(published.device.taints) if published is not None else []
    if cluster.features.enabled("DRADeviceTaintRules"):
        taints += (rule.spec.taint for rule in cluster.rules if rule_applies(rule, id))
    return (taint for taint in taints if taint.effect == "NoExecute")


def _is_due(cluster: ClusterIndex, taint: DeviceTaint, result: DeviceRequestAllocationResult) -> bool:
    """Whether the eviction is overdue by the grace period."""
    matching = [toleration for toleration in result.tolerations if tolerates(toleration, taint)]
    if any(toleration.toleration_seconds is None for toleration in matching):
        return False
    wait = min((max(toleration.toleration_seconds or 0, 0) for toleration in matching), default=0)
    return cluster.is_old(taint.time_added, GRACE_PERIOD + timedelta(seconds=wait))


def _running(cluster: ClusterIndex, claim: ResourceClaim) -> Iterator[str]:
    for consumer in claim.status.reserved_for:
        pod = cluster.pods_by_uid.get(consumer.uid)
        if pod and pod.spec.node_name and not is_finished(pod) and pod.metadata.deletion_timestamp is None:
            yield name_of(pod)


CHECK = ClusterCheck(
    code="D307",
    severity="error",
    summary="pods use devices whose NoExecute taint they do not tolerate",
    why="The taint eviction controller deletes such pods immediately, or when their tolerationSeconds have passed. "
    "If such pods remain, the controller is not running, and the pods continue to run on hardware that is known to "
    "be faulty.",
    find=find,
    needs=("resourceslices", "resourceclaims", "pods"),
)
