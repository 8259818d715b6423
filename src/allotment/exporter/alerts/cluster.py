"""What may be wrong with a cluster's devices, claims and pods."""

from __future__ import annotations

from typing import Final

from allotment.exporter.alerts.alert import alert

CLUSTER: Final = (
    alert(
        "AllotmentPodsPending", "warning",
        '(time() - allotment_oldest_pending_pod_timestamp_seconds{cause!~"none|gated|unexamined"}) > 900', "5m",
        "Pods have waited for devices for over 15 minutes: {{ $labels.cause }}",
        "The oldest pod that waits for {{ $labels.cause }} has done so for {{ $value | humanizeDuration }}.",
        "`allot explain` says of each pod what it lacks and what would help; [reasons.md](reasons.md) has the codes. "
        "Where it is devices that others hold, `allot free` names them, and `allot plan` the machines that would do.",
    ),
    alert(
        "AllotmentNoFreeDevices", "info",
        'sum by (device_class) (allotment_class_devices{state=~"free|shared"}) == 0', "15m",
        "No device of class {{ $labels.device_class }} is free",
        "All devices that class {{ $labels.device_class }} selects are held, tainted or blocked; the next pod waits.",
        "Nothing, if that is how much was bought. `allot free` says who has them; claims that are allocated and not "
        "reserved hold devices for nobody (`allotment_claims{state=\"allocated\"}`).",
    ),
    alert(
        "AllotmentPoolNotUsable", "warning",
        'sum by (node, driver, state) (allotment_pools{state!="usable"}) > 0', "10m",
        "A pool of {{ $labels.driver }} on {{ $labels.node }} is {{ $labels.state }}",
        "Kubernetes ignores {{ $value }} pool(s) of {{ $labels.driver }} on node {{ $labels.node }}: nobody gets their "
        "devices.",
        "incomplete: the driver has not published all slices, or left old ones behind; look at its log, and delete "
        "slices of drivers that are gone. invalid: the slices contradict each other; report it to the driver's author. "
        "`allot doctor` says which slices.",
    ),
    alert(
        "AllotmentDeviceTainted", "warning",
        'sum by (node, driver, effect) (allotment_tainted_devices{effect=~"NoSchedule|NoExecute"}) > 0', "5m",
        "{{ $value }} device(s) on {{ $labels.node }} are tainted {{ $labels.effect }}",
        "Driver {{ $labels.driver }} or a DeviceTaintRule taints devices on node {{ $labels.node }} with effect "
        "{{ $labels.effect }}.",
        "`allot free -o wide` shows the taints. One of the driver's is a fault that it has found (of an NVIDIA GPU: an "
        "XID); one of a rule is somebody's decision (`kubectl get devicetaintrules`).",
    ),
    alert(
        "AllotmentDeviceAllocatedTwice", "critical", "allotment_devices_allocated_twice > 0", "1m",
        "{{ $value }} device(s) of {{ $labels.driver }} are allocated twice",
        "Several claims hold the same device, though it cannot be shared: their pods run on the same hardware.",
        "`allot free` names both claims. Delete one of the pods with its claim. It must not happen: two schedulers "
        "decided from different states, or a claim's status was written by hand. Please report it.",
    ),
    alert(
        "AllotmentDevicesMissing", "warning", "allotment_devices_missing > 0", "15m",
        "Claims hold {{ $value }} device(s) of {{ $labels.driver }} that are gone",
        "No slice publishes the devices any more: the driver is down, the node is gone, or the hardware is.",
        "`allot free` lists them with their claims. Bring the driver back, or delete the pods.",
    ),
    alert(
        "AllotmentAllocationSlow", "warning",
        "histogram_quantile(0.95, sum by (le, device_class)"
        ' (rate(allotment_claim_allocation_seconds_bucket{origin="template"}[15m]))) > 60', "15m",
        "Claims of {{ $labels.device_class }} wait over a minute for devices",
        "One of twenty claims made from templates waited {{ $value | humanizeDuration }} or longer.",
        "Where pods wait for devices, AllotmentPodsPending says for which cause. Else the scheduler is slow: "
        "AllotmentSchedulerSlow, or kube-scheduler's own metrics.",
    ),
)  # fmt: skip
