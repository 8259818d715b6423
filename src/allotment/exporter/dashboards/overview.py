"""The dashboard of all devices, their holders, and pending pods."""

from __future__ import annotations

from typing import Final

from allotment.exporter.panels import Dashboard, PanelRow, Variable, lines, quantile, stat, table
from allotment.exporter.queries import query

_NOW: Final = (
    stat("Devices", "Published devices in any state.", "sum(allotment_devices)"),
    stat("Free", "Devices that can be allocated.", 'sum(allotment_devices{state="free"})'),
    stat(
        "Held", "Devices that claims hold, as a whole or in shares.",
        'sum(allotment_devices{state=~"in-use|shared|full"})',
    ),
    stat(
        "Tainted or unusable", "Devices with taints, or in pools that Kubernetes ignores.",
        'sum(allotment_devices{state=~"tainted|unusable"}) or vector(0)', bad=True,
    ),
    stat("Pending pods", "Pods without the devices that they request.", "sum(allotment_pending_pods) or vector(0)"),
    stat(
        "Allocated twice", "Devices that two claims hold although they cannot be shared.",
        "sum(allotment_devices_allocated_twice)", bad=True,
    ),
)  # fmt: skip
_WHO: Final = (
    lines(
        "By class", "Held and free devices. A device may belong to several classes.",
        query('sum by (device_class) (allotment_class_devices{state=~"in-use|shared|full"})', "{{device_class}} held"),
        query('sum by (device_class) (allotment_class_devices{state="free"})', "{{device_class}} free"),
    ),
    lines(
        "By state", "Partitions that exclude each other are all counted.",
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
        "By cause", "The causes are the codes of `allot explain`. none: devices are available.",
        query('sum by (cause) (allotment_pending_pods{namespace=~"$namespace"})', "{{cause}}"), stacked=True,
    ),
    lines(
        "By namespace", "Pods that request devices and have no node yet.",
        query('sum by (namespace) (allotment_pending_pods{namespace=~"$namespace"})', "{{namespace}}"), stacked=True,
    ),
    lines(
        "Oldest pending pod", "Time since its creation, by cause.",
        query("time() - allotment_oldest_pending_pod_timestamp_seconds", "{{cause}}"), unit="s",
    ),
    lines(
        "Time to allocation", "Claims generated from templates.",
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
        "allocated: devices but no consumer. contested: detached, because another scheduler allocated the same "
        "devices.",
        query('sum by (state) (allotment_claims{namespace=~"$namespace"})', "{{state}}"), stacked=True,
    ),
    lines(
        "Allocations", "Allocated claims per second, by class.",
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
    "Devices of a cluster: free devices, held devices, and the causes of pending pods.",
    (PanelRow("Now", _NOW), PanelRow("Devices", _WHO), PanelRow("Pending pods", _WHY), PanelRow("Claims", _CLAIMS)),
    (Variable("namespace", "Namespace", "allotment_claims"),),
)
