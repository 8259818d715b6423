"""Alerts about a cluster's devices, claims and pods."""

from __future__ import annotations

from typing import Final

from allotment.exporter.alerts.alert import alert

CLUSTER: Final = (
    alert(
        "AllotmentPodsPending", "warning",
        '(time() - allotment_oldest_pending_pod_timestamp_seconds{cause!~"none|gated|unexamined"}) > 900', "5m",
        "Pods have been waiting for devices for more than 15 minutes (cause: {{ $labels.cause }})",
        "The oldest pod with cause {{ $labels.cause }} has been waiting for {{ $value | humanizeDuration }}.",
        "`allot explain` shows why each pod is pending and what would help; [reasons.md](reasons.md) lists the codes. "
        "If all devices are in use, `allot free` lists the claims that hold them, and `allot plan` proposes additional "
        "machines.",
    ),
    alert(
        "AllotmentNoFreeDevices", "info",
        'sum by (device_class) (allotment_class_devices{state=~"free|shared"}) == 0', "15m",
        "No device of class {{ $labels.device_class }} is free",
        "All devices that class {{ $labels.device_class }} selects are in use, tainted or blocked. New pods that "
        "request this class stay pending.",
        "If the cluster is meant to be full, no action is needed. Otherwise `allot free` lists the claims that hold "
        "the devices; claims in the state `allocated` have no consumer (`allotment_claims{state=\"allocated\"}`).",
    ),
    alert(
        "AllotmentPoolNotUsable", "warning",
        'sum by (node, driver, state) (allotment_pools{state!="usable"}) > 0', "10m",
        "A pool of {{ $labels.driver }} on {{ $labels.node }} is {{ $labels.state }}",
        "Kubernetes ignores {{ $value }} pool(s) of {{ $labels.driver }} on node {{ $labels.node }}, so their "
        "devices cannot be allocated.",
        "An incomplete pool has missing or surplus slices: check the driver's log, and delete the slices of drivers "
        "that have been uninstalled. An invalid pool has contradictory slices, which `allot doctor` lists: report them "
        "to the driver's maintainers.",
    ),
    alert(
        "AllotmentDeviceTainted", "warning",
        'sum by (node, driver, effect) (allotment_tainted_devices{effect=~"NoSchedule|NoExecute"}) > 0', "5m",
        "{{ $value }} device(s) on {{ $labels.node }} have taints with effect {{ $labels.effect }}",
        "The driver or a DeviceTaintRule has tainted devices of {{ $labels.driver }} on node {{ $labels.node }} with "
        "effect {{ $labels.effect }}.",
        "`allot free -o wide` shows the taints. Drivers taint faulty devices (for example, an NVIDIA GPU after an Xid "
        "error); administrators taint devices with DeviceTaintRules (`kubectl get devicetaintrules`).",
    ),
    alert(
        "AllotmentDeviceAllocatedTwice", "critical", "allotment_devices_allocated_twice > 0", "1m",
        "{{ $value }} device(s) of {{ $labels.driver }} are allocated twice",
        "Several claims hold the same device although it cannot be shared, so their pods use the same hardware.",
        "Delete one of the pods and its claim; `allot free` shows both claims. Possible causes are two schedulers "
        "that saw different cluster states, or a claim status that was edited manually. If neither applies, please "
        "report a bug.",
    ),
    alert(
        "AllotmentDevicesMissing", "warning", "allotment_devices_missing > 0", "15m",
        "Claims hold {{ $value }} device(s) of {{ $labels.driver }} that are no longer published",
        "No ResourceSlice contains the devices. Either the driver is down, or the node or the hardware was removed.",
        "`allot free` lists the devices with their claims. Restart the driver, or delete the pods that use the "
        "devices.",
    ),
    alert(
        "AllotmentAllocationSlow", "warning",
        "histogram_quantile(0.95, sum by (le, device_class)"
        ' (rate(allotment_claim_allocation_seconds_bucket{origin="template"}[15m]))) > 60', "15m",
        "Claims of class {{ $labels.device_class }} wait more than a minute for devices",
        "5% of the claims generated from templates waited {{ $value | humanizeDuration }} or longer.",
        "If there are too few devices, AllotmentPodsPending also fires and shows the cause. Otherwise the scheduler is "
        "slow: see AllotmentSchedulerSlow or the metrics of kube-scheduler.",
    ),
)  # fmt: skip
