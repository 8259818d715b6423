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
        "`allot explain` says what each pod lacks and what would help; [reasons.md](reasons.md) lists the codes. If "
        "others hold the devices, `allot free` names them, and `allot plan` the machines to add.",
    ),
    alert(
        "AllotmentNoFreeDevices", "info",
        'sum by (device_class) (allotment_class_devices{state=~"free|shared"}) == 0', "15m",
        "No device of class {{ $labels.device_class }} is free",
        "All devices that class {{ $labels.device_class }} selects are held, tainted or blocked. The next pod will "
        "wait.",
        "Nothing, if the cluster is meant to be full. `allot free` says who holds the devices; claims that are "
        "allocated but not reserved hold them without a consumer (`allotment_claims{state=\"allocated\"}`).",
    ),
    alert(
        "AllotmentPoolNotUsable", "warning",
        'sum by (node, driver, state) (allotment_pools{state!="usable"}) > 0', "10m",
        "A pool of {{ $labels.driver }} on {{ $labels.node }} is {{ $labels.state }}",
        "Kubernetes ignores {{ $value }} pool(s) of {{ $labels.driver }} on node {{ $labels.node }}: their devices are "
        "never allocated.",
        "incomplete: the driver has not published all its slices, or has left old ones behind. Check its log, and "
        "delete slices of drivers that are gone. invalid: the slices contradict each other; report it to the driver's "
        "authors. `allot doctor` names the slices.",
    ),
    alert(
        "AllotmentDeviceTainted", "warning",
        'sum by (node, driver, effect) (allotment_tainted_devices{effect=~"NoSchedule|NoExecute"}) > 0', "5m",
        "{{ $value }} device(s) on {{ $labels.node }} are tainted {{ $labels.effect }}",
        "Driver {{ $labels.driver }} or a DeviceTaintRule taints devices on node {{ $labels.node }} with effect "
        "{{ $labels.effect }}.",
        "`allot free -o wide` shows the taints. A driver's taint is a fault that it has found (on an NVIDIA GPU: an "
        "XID); a rule's is an administrator's decision (`kubectl get devicetaintrules`).",
    ),
    alert(
        "AllotmentDeviceAllocatedTwice", "critical", "allotment_devices_allocated_twice > 0", "1m",
        "{{ $value }} device(s) of {{ $labels.driver }} are allocated twice",
        "Several claims hold the same device although it cannot be shared: their pods run on the same hardware.",
        "`allot free` names both claims. Delete one of the pods and its claim. This should never happen: two "
        "schedulers saw different states, or a user wrote a claim's status by hand. Please report it.",
    ),
    alert(
        "AllotmentDevicesMissing", "warning", "allotment_devices_missing > 0", "15m",
        "Claims hold {{ $value }} device(s) of {{ $labels.driver }} that are gone",
        "No ResourceSlice publishes the devices any more: the driver is down, or the node or the hardware is gone.",
        "`allot free` lists them with their claims. Bring the driver back, or delete the pods.",
    ),
    alert(
        "AllotmentAllocationSlow", "warning",
        "histogram_quantile(0.95, sum by (le, device_class)"
        ' (rate(allotment_claim_allocation_seconds_bucket{origin="template"}[15m]))) > 60', "15m",
        "Claims of {{ $labels.device_class }} wait over a minute for devices",
        "5 % of the claims made from templates waited {{ $value | humanizeDuration }} or longer.",
        "If pods lack devices, AllotmentPodsPending says why. Otherwise the scheduler is slow: see "
        "AllotmentSchedulerSlow, or kube-scheduler's own metrics.",
    ),
)  # fmt: skip
