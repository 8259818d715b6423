"""Alerts about a cluster's devices, claims and pods."""

from __future__ import annotations

from typing import Final

from allotment.exporter.alerts.alert import alert

CLUSTER: Final = (
    alert(
        "AllotmentPodsPending", "warning",
        '(time() - allotment_oldest_pending_pod_timestamp_seconds{cause!~"none|gated|unexamined"}) > 900', "5m",
        "Pods have been waiting for devices for over 15 minutes: {{ $labels.cause }}",
        "The oldest pod with cause {{ $labels.cause }} has been waiting for {{ $value | humanizeDuration }}.",
        "`allot explain` shows why each pod is pending and what would help; [reasons.md](reasons.md) lists the codes. "
        "If the devices are in use, `allot free` lists the claims that hold them, and `allot plan` proposes machines.",
    ),
    alert(
        "AllotmentNoFreeDevices", "info",
        'sum by (device_class) (allotment_class_devices{state=~"free|shared"}) == 0', "15m",
        "No device of class {{ $labels.device_class }} is free",
        "All devices that class {{ $labels.device_class }} selects are held, tainted or blocked. New pods of the "
        "class stay pending.",
        "If the cluster is meant to be full, no action is needed. Otherwise `allot free` lists the claims that hold "
        "the devices; claims in state allocated have no consumer (`allotment_claims{state=\"allocated\"}`).",
    ),
    alert(
        "AllotmentPoolNotUsable", "warning",
        'sum by (node, driver, state) (allotment_pools{state!="usable"}) > 0', "10m",
        "A pool of {{ $labels.driver }} on {{ $labels.node }} is {{ $labels.state }}",
        "Kubernetes ignores {{ $value }} pool(s) of {{ $labels.driver }} on node {{ $labels.node }}: their devices are "
        "not allocated.",
        "In an incomplete pool, slices are missing or left over: check the driver's log, and delete the slices of "
        "drivers that were removed. In an invalid pool, slices contradict each other (`allot doctor` names them): "
        "report this to the driver's authors.",
    ),
    alert(
        "AllotmentDeviceTainted", "warning",
        'sum by (node, driver, effect) (allotment_tainted_devices{effect=~"NoSchedule|NoExecute"}) > 0', "5m",
        "{{ $value }} device(s) on {{ $labels.node }} have taints with effect {{ $labels.effect }}",
        "Devices of {{ $labels.driver }} on node {{ $labels.node }} are tainted with effect {{ $labels.effect }}, by "
        "the driver or by a DeviceTaintRule.",
        "`allot free -o wide` shows the taints. A driver taints devices with faults (an NVIDIA GPU after an Xid "
        "error); an administrator taints devices with rules (`kubectl get devicetaintrules`).",
    ),
    alert(
        "AllotmentDeviceAllocatedTwice", "critical", "allotment_devices_allocated_twice > 0", "1m",
        "{{ $value }} device(s) of {{ $labels.driver }} are allocated twice",
        "Several claims hold the same device although it cannot be shared: their pods run on the same hardware.",
        "Delete one of the pods and its claim; `allot free` shows both claims. Possible causes are two schedulers "
        "that saw different states, or a claim status that was edited manually; please report this if neither "
        "applies.",
    ),
    alert(
        "AllotmentDevicesMissing", "warning", "allotment_devices_missing > 0", "15m",
        "Claims hold {{ $value }} device(s) of {{ $labels.driver }} that are no longer published",
        "No ResourceSlice contains the devices: the driver is down, or the node or the hardware was removed.",
        "`allot free` lists the devices with their claims. Restart the driver, or delete the pods.",
    ),
    alert(
        "AllotmentAllocationSlow", "warning",
        "histogram_quantile(0.95, sum by (le, device_class)"
        ' (rate(allotment_claim_allocation_seconds_bucket{origin="template"}[15m]))) > 60', "15m",
        "Claims of {{ $labels.device_class }} wait over a minute for devices",
        "5 % of the claims made from templates waited {{ $value | humanizeDuration }} or longer.",
        "If devices are missing, AllotmentPodsPending fires, too, and shows the cause. Otherwise the scheduler is "
        "slow: see AllotmentSchedulerSlow, or the metrics of kube-scheduler.",
    ),
)  # fmt: skip
