"""Devices with taints that prevent their allocation."""

from __future__ import annotations

from collections.abc import Iterable

from allotment.engine.cluster.identity import DeviceID
from allotment.engine.cluster.taints import BLOCKING, rule_applies
from allotment.phrases import counted, first_few
from allotment.tools.doctor.check import ClusterCheck, Symptom
from allotment.tools.doctor.cluster_index import ClusterIndex
from allotment.tools.doctor.wording import kubectl_args, remedy, unique


def find(cluster: ClusterIndex) -> Iterable[Symptom]:
    """Tainted devices by taint."""
    if not cluster.features.enabled("DRADeviceTaints"):
        return
    groups: dict[str, list[DeviceID]] = {}
    by_rule: dict[str, str] = {}
    for id, found in cluster.devices.items():
        for taint in found.device.taints:
            if taint.effect in BLOCKING:
                groups.setdefault(str(taint), []).append(id)
    if cluster.features.enabled("DRADeviceTaintRules"):
        for rule in cluster.rules:
            taint = rule.spec.taint
            hit = [id for id in cluster.devices if rule_applies(rule, id)] if taint.effect in BLOCKING else []
            if hit:
                groups.setdefault(str(taint), []).extend(hit)
                by_rule[str(taint)] = rule.metadata.name
    for tainted, ids in groups.items():
        distinct = list(dict.fromkeys(ids))
        nodes = unique(str(cluster.devices[id].slice.spec.node_name or id.pool) for id in distinct)
        used = sum(id in cluster.results for id in distinct)
        where = f"{counted(len(nodes), 'node')} ({first_few(nodes)})"
        have = "has" if len(distinct) == 1 else "have"
        text = f"{counted(len(distinct), 'device')} on {where} {have} taint {tainted}"
        text += f", {used} in use" if used else ""
        text += f": {first_few([id.device for id in distinct])} of {distinct[0].driver}"
        if name := by_rule.get(tainted):
            words = (
                f"DeviceTaintRule {name} adds the taint. Delete the rule when its reason no longer applies; pods can "
                "then use the devices again."
            )
            help_ = remedy(words, f"kubectl describe devicetaintrule {kubectl_args(name)}")
        else:
            help_ = remedy(
                "The driver adds the taint, usually because of failing hardware: check its log and the kernel log of"
                " the node. It removes the taint when the device is healthy.",
                "allot free -o wide",
            )
        names = tuple(f"{id.driver}/{id.pool}/{id.device}" for id in distinct)
        yield Symptom(counted(len(distinct), "device"), text, help_, objects=names)


CHECK = ClusterCheck(
    code="D305",
    severity="warning",
    summary="devices are tainted, so they are not allocated",
    why="Drivers taint unhealthy devices, and administrators taint devices that they reserve (KEP-5055). Pods without "
    "a toleration do not get them; NoExecute also evicts pods that use them.",
    find=find,
    needs=("resourceslices",),
)
