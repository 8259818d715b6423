"""The dashboard of all devices, their holders, and pending pods."""

from __future__ import annotations

from typing import Final

from allotment.exporter.panels import Dashboard, PanelRow, Variable, lines, quantile, stat, table
from allotment.exporter.queries import query

_NOW: Final = (
    stat("Devices", "Published devices in any state.", "sum(allotment_devices)"),
    stat("Free", "Devices that can be allocated.", 'sum(allotment_devices{state="free"})'),
    stat(
        "Held", "Devices that are held by claims, either entirely or in shares.",
        'sum(allotment_devices{state=~"in-use|shared|full"})',
    ),
    stat(
        "Tainted or unusable", "Devices that are tainted or belong to a pool that Kubernetes ignores.",
        'sum(allotment_devices{state=~"tainted|unusable"}) or vector(0)', bad=True,
    ),
    stat(
        "Pending pods", "Pods that request devices and are not yet assigned to a node.",
        "sum(allotment_pending_pods) or vector(0)",
    ),
    stat(
        "Allocated twice", "Devices that are allocated to several claims although they cannot be shared.",
        "sum(allotment_devices_allocated_twice)", bad=True,
    ),
)  # fmt: skip
_WHO: Final = (
    lines(
        "By class", "Held and free devices. A device can belong to several classes.",
        query('sum by (device_class) (allotment_class_devices{state=~"in-use|shared|full"})', "{{device_class}} held"),
        query('sum by (device_class) (allotment_class_devices{state="free"})', "{{device_class}} free"),
    ),
    lines(
        "By state", "Devices by state. Overlapping partitions are all counted.",
        query("sum by (state) (allotment_devices)", "{{state}}"), stacked=True,
    ),
    table(
        "By product", "Total and free devices.",
        query("sum by (driver, product) (allotment_devices)", "devices"),
        query('sum by (driver, product) (allotment_devices{state="free"})', "free"),
    ),
    table(
        "By node", "Total, free and held devices.",
        query("sum by (node) (allotment_devices)", "devices"),
        query('sum by (node) (allotment_devices{state="free"})', "free"),
        query('sum by (node) (allotment_devices{state=~"in-use|shared|full"})', "held"),
    ),
)  # fmt: skip
_WHY: Final = (
    lines(
        "By cause", "The causes are the reason codes of `allot explain`. none: matching devices are available.",
        query('sum by (cause) (allotment_pending_pods{namespace=~"$namespace"})', "{{cause}}"), stacked=True,
    ),
    lines(
        "By namespace", "Pods that request devices and are not yet assigned to a node.",
        query('sum by (namespace) (allotment_pending_pods{namespace=~"$namespace"})', "{{namespace}}"), stacked=True,
    ),
    lines(
        "Oldest pending pod", "Time since the creation of the oldest pending pod, by cause.",
        query("time() - allotment_oldest_pending_pod_timestamp_seconds", "{{cause}}"), unit="s",
    ),
    lines(
        "Time to allocation", "Time from creation to allocation, for claims generated from templates.",
        *(
            query(quantile(of, "allotment_claim_allocation_seconds", where='origin="template"'), f"p{of * 100:.0f}")
            for of in (0.5, 0.95, 0.99)
        ),
        unit="s",
    ),
)  # fmt: skip
_CLAIMS: Final = (
    lines(
        "By state",
        "allocated: has devices but no consumer. contested: detached because another scheduler allocated the same "
        "devices.",
        query('sum by (state) (allotment_claims{namespace=~"$namespace"})', "{{state}}"), stacked=True,
    ),
    lines(
        "Allocations", "Claims allocated per second, by class.",
        query(
            "sum by (device_class) (rate(allotment_claim_allocation_seconds_count[$__rate_interval]))",
            "{{device_class}}",
        ),
        unit="ops",
    ),
)  # fmt: skip

OVERVIEW: Final = Dashboard(
    "allotment-overview",
    "Allotment / Devices",
    "The devices of a cluster: how many are free or held, and why pods are pending.",
    (PanelRow("Now", _NOW), PanelRow("Devices", _WHO), PanelRow("Pending pods", _WHY), PanelRow("Claims", _CLAIMS)),
    (Variable("namespace", "Namespace", "allotment_claims"),),
)
