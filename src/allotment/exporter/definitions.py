"""The definitions of all metrics: name, help, labels and cardinality. Dashboards, alerts and the page
``docs/reference/metrics.md`` use them.

No label names a pod or a claim, except in ``CLAIM_COST``, which is exported only on request. Amounts are in base units:
bytes, seconds, devices. Money is in US dollars per hour, from the catalog.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from allotment.exporter.metric import Metric

#: In addition to the device states of ``allot free``: published in a pool that Kubernetes ignores.
UNUSABLE: Final = "unusable"
#: States that are exported even if their value is zero. Others are exported if there is any such device.
ALWAYS_EXPORTED: Final = ("free", "in-use")

_PER_PRODUCT = "one per node, driver and product"

DEVICES: Final = Metric(
    "allotment_devices", "gauge",
    "Published devices by state; each device has exactly one state. Overlapping partitions are all counted.",
    ("node", "driver", "product", "state"),
    f"{_PER_PRODUCT}, for each state that occurs (at most eight; free and in-use are always exported)",
)  # fmt: skip
CLASS_DEVICES: Final = Metric(
    "allotment_class_devices", "gauge",
    "Devices that a DeviceClass selects, by state. A device can belong to several classes.",
    ("node", "device_class", "state"),
    "one per node and class that selects a device on the node, for each state that occurs",
)  # fmt: skip
TAINTED_DEVICES: Final = Metric(
    "allotment_tainted_devices", "gauge",
    "Devices that are tainted by their driver or by a DeviceTaintRule, whether or not they are in use.",
    ("node", "driver", "effect"), "one per node, driver and taint effect (at most three)",
)  # fmt: skip
ALLOCATED_TWICE: Final = Metric(
    "allotment_devices_allocated_twice", "gauge",
    "Devices that are allocated to several claims although they cannot be shared. Should always be zero.",
    ("driver",), "one per driver",
)  # fmt: skip
MISSING_DEVICES: Final = Metric(
    "allotment_devices_missing", "gauge",
    "Devices that are allocated to claims but not published in any ResourceSlice.",
    ("driver",), "one per driver",
)  # fmt: skip
POOLS: Final = Metric(
    "allotment_pools", "gauge",
    "Device pools by state: usable, incomplete (missing or surplus slices) or invalid (contradictory slices). "
    "Kubernetes allocates devices only from usable pools.",
    ("node", "driver", "state"),
    "one per node and driver, for each state that occurs (at most three; usable is always exported)",
)  # fmt: skip
SLICES: Final = Metric(
    "allotment_resource_slices", "gauge",
    "ResourceSlices by generation: current (the latest generation of the pool) or old (an outdated generation).",
    ("node", "driver", "generation"), "one per node and driver, or two if outdated slices exist",
)  # fmt: skip

SHARES: Final = Metric(
    "allotment_device_shares", "gauge",
    "Allocated shares of devices that several claims can use at the same time.",
    ("node", "driver", "product"), "one per node, driver and shareable product",
)  # fmt: skip
MEMORY: Final = Metric(
    "allotment_device_memory_bytes", "gauge",
    "Total memory of the devices. Partitions that consume shared counters are excluded; see allotment_counters.",
    ("node", "driver", "product"), f"{_PER_PRODUCT} that has a capacity named memory",
)  # fmt: skip
MEMORY_USED: Final = Metric(
    "allotment_device_memory_used_bytes", "gauge",
    "Memory held by claims: all memory of an exclusively allocated device, or the consumed part of a shared device.",
    MEMORY.labels, MEMORY.cardinality,
)  # fmt: skip
CAPACITY: Final = Metric(
    "allotment_shared_capacity", "gauge",
    "Total capacity of the devices that several claims can use at the same time, in base units.",
    ("node", "driver", "product", "capacity"), "one per node, driver, shareable product and capacity",
)  # fmt: skip
CAPACITY_USED: Final = Metric(
    "allotment_shared_capacity_used", "gauge",
    "The part of allotment_shared_capacity that allocated shares consume.",
    CAPACITY.labels, CAPACITY.cardinality,
)  # fmt: skip
COUNTERS: Final = Metric(
    "allotment_counters", "gauge",
    "Total of the counters that partitions of the same hardware share, over all counter sets of a node, in base units. "
    "Counters whose names differ only in a trailing number (such as memory-slice-3) are added together.",
    ("node", "driver", "counter"), "one per node, driver and counter name",
)  # fmt: skip
COUNTERS_USED: Final = Metric(
    "allotment_counters_used", "gauge",
    "The part of allotment_counters that allocated devices consume.",
    COUNTERS.labels, COUNTERS.cardinality,
)  # fmt: skip

CLAIMS: Final = Metric(
    "allotment_claims", "gauge",
    "ResourceClaims by state: pending (no devices yet), allocated (has devices but no consumer), reserved (in use), "
    "contested (detached because another scheduler allocated the same devices) or deleting.",
    ("namespace", "state"), "five per namespace with claims",
)  # fmt: skip
PENDING_CLAIMS: Final = Metric(
    "allotment_pending_claims", "gauge",
    "Claims without devices, by the reason why the pod that references them is pending. no-pod: no pending pod "
    "references the claim, so it will not be allocated.",
    ("namespace", "cause"), "one per namespace with such claims, for each cause that occurs (a fixed set; see Causes)",
)  # fmt: skip
PENDING_PODS: Final = Metric(
    "allotment_pending_pods", "gauge",
    "Pods that request devices and are not yet assigned to a node, by cause.",
    ("namespace", "cause"), "one per namespace with such pods, for each cause that occurs (a fixed set; see Causes)",
)  # fmt: skip
OLDEST_PENDING: Final = Metric(
    "allotment_oldest_pending_pod_timestamp_seconds", "gauge",
    "For each cause, the creation time of the oldest pod that requests devices and is not yet assigned to a node.",
    ("cause",), "one per cause that occurs (a fixed set; see Causes)",
)  # fmt: skip
LATENCY: Final = Metric(
    "allotment_claim_allocation_seconds", "histogram",
    "Time from a claim's creation to its allocation, for claims allocated since the exporter started. origin: template "
    "(generated for a pod) or user (created by a user, possibly before its pod).",
    ("device_class", "origin"), "two per class (the class of a claim's first request), each with twelve buckets",
)  # fmt: skip

NODE_COST: Final = Metric(
    "allotment_node_cost_dollars_per_hour", "gauge",
    "Catalog price of a node. The label region is the region for which the catalog lists the price. Nodes without a "
    "known price are excluded.",
    ("node", "instance_type", "capacity_type", "region"), "one per node",
)  # fmt: skip
NODES_PRICED: Final = Metric(
    "allotment_nodes", "gauge",
    "Nodes with devices, by the source of their price: region (price in the node's own region), elsewhere (price in "
    "another region) or unknown.",
    ("price",), "three",
)  # fmt: skip
CLAIMS_COST: Final = Metric(
    "allotment_claims_cost_dollars_per_hour", "gauge",
    "The share of node prices attributed to claims. Claims on nodes without a known price are excluded.",
    ("namespace", "device_class"), "one per namespace and class of the devices that claims hold",
)  # fmt: skip
CLAIMS_PRICED: Final = Metric(
    "allotment_claims_priced", "gauge",
    "Claims that hold devices, by whether the price of their node is known.",
    ("namespace", "price"), "two per namespace with such claims",
)  # fmt: skip
IDLE_COST: Final = Metric(
    "allotment_idle_cost_dollars_per_hour", "gauge",
    "The share of a node's price attributed to devices that no claim holds.",
    ("node",), "one per node with a known price",
)  # fmt: skip
CLAIM_COST: Final = Metric(
    "allotment_claim_cost_dollars_per_hour", "gauge",
    "The share of node prices attributed to one claim. Exported only with --per-claim.",
    ("namespace", "claim"),
    "one per claim that holds devices, at most --max-series: those of the most expensive claims",
)  # fmt: skip

LAST_CONTACT: Final = Metric(
    "allotment_exporter_last_contact_timestamp_seconds", "gauge",
    "Time of the last response from the API server, for the resource type whose last response is the oldest.",
    (), "one",
)  # fmt: skip
BUILD_SECONDS: Final = Metric(
    "allotment_exporter_build_seconds", "gauge",
    "Duration of the last computation of the metrics.",
    (), "one",
)  # fmt: skip
BUILDS: Final = Metric(
    "allotment_exporter_builds_total", "counter",
    "Number of computations of the metrics.",
    (), "one",
)  # fmt: skip
DIAGNOSIS_SECONDS: Final = Metric(
    "allotment_exporter_diagnosis_seconds", "gauge",
    "Duration of the last diagnosis of pending pods.",
    (), "one",
)  # fmt: skip
DROPPED: Final = Metric(
    "allotment_series_dropped", "gauge",
    "Series dropped from a metric because it exceeds --max-series.",
    ("metric",), "one per truncated metric",
)  # fmt: skip

#: Metrics that every component exports about itself (implemented in `components.metrics`).
WORK: Final = Metric(
    "allotment_work_duration_seconds", "histogram",
    "Duration of units of work, by kind and result.",
    ("work", "result"), "one per kind of work and result (both are small fixed sets), each with sixteen buckets",
)  # fmt: skip
RESTARTS: Final = Metric(
    "allotment_program_restarts_total", "counter",
    "Restarts of a program after a crash or an exit.",
    ("program",), "one per program",
)  # fmt: skip
REQUESTS: Final = Metric(
    "allotment_client_requests_total", "counter",
    "Requests to the API server, by method and status code (0: no response).",
    ("method", "code"), "one per method and code",
)  # fmt: skip
REQUEST_SECONDS: Final = Metric(
    "allotment_client_request_duration_seconds", "histogram",
    "Time to the first byte of the API server's response.",
    ("method",), "one per method, each with fifteen buckets",
)  # fmt: skip
LEADER: Final = Metric(
    "allotment_leader", "gauge",
    "1 if this replica is the leader, 0 if it is on standby.",
    ("lease",), "one",
)  # fmt: skip
QUEUE: Final = Metric(
    "allotment_queue_depth", "gauge",
    "Items that are waiting in a queue or being processed.",
    ("queue",), "one per queue of the component",
)  # fmt: skip
UNREAD: Final = Metric(
    "allotment_unread_resources", "gauge",
    "1 for each resource that the component needs and does not read. reason: not-served (the cluster does not serve "
    "it, so none are considered), forbidden, or unknown-version (it is served only in versions that this release of "
    "Allotment cannot read).",
    ("resource", "reason"), "one per resource that is not read",
)  # fmt: skip
BUILD_INFO: Final = Metric(
    "allotment_build_info", "gauge",
    "Version and component as labels; the value is always 1.",
    ("version", "component"), "one",
)  # fmt: skip

_CREATES_HELP = "Requests of the claim controller to create claims, by outcome and admin access"
_EXISTING_HELP = (
    "Claims by allocation, admin access and source (resource_claim_template, extended_resource, or empty if a user "
    "created the claim)"
)
_CREATES_SERIES = "one per outcome, admin access and kind of owner (Pod or PodGroup)"
_EXISTING_SERIES = "one per combination that exists, at most twelve"
#: Metrics of the claim controller under the names of kube-controller-manager, which changed in 1.37 (implemented in
#: `components.claim_metrics`).
CLAIM_CONTROLLER: Final[tuple[Metric, ...]] = (
    Metric(
        "dynamic_resource_allocation_resourceclaim_creates_total", "counter",
        f"{_CREATES_HELP}, and by the owner's API group and kind. Kubernetes 1.37.",
        ("status", "admin_access", "owner_api_group", "owner_api_kind"), _CREATES_SERIES,
    ),
    Metric(
        "dynamic_resource_allocation_resource_claims", "gauge", f"{_EXISTING_HELP}. Kubernetes 1.37.",
        ("allocated", "admin_access", "source"), _EXISTING_SERIES,
    ),
    Metric(
        "resourceclaim_controller_creates_total", "counter", f"{_CREATES_HELP}. Kubernetes 1.34 to 1.36.",
        ("status", "admin_access"), "one per outcome and admin access",
    ),
    Metric(
        "resourceclaim_controller_resource_claims", "gauge", f"{_EXISTING_HELP}. Kubernetes 1.35 and 1.36.",
        ("allocated", "admin_access", "source"), _EXISTING_SERIES,
    ),
)  # fmt: skip

#: In the order of the page.
GROUPS: Final[Mapping[str, tuple[Metric, ...]]] = {
    "Devices": (DEVICES, CLASS_DEVICES, TAINTED_DEVICES, ALLOCATED_TWICE, MISSING_DEVICES, POOLS, SLICES),
    "Shares and counters": (SHARES, MEMORY, MEMORY_USED, CAPACITY, CAPACITY_USED, COUNTERS, COUNTERS_USED),
    "Claims and pods": (CLAIMS, PENDING_CLAIMS, PENDING_PODS, OLDEST_PENDING, LATENCY),
    "Cost": (NODE_COST, NODES_PRICED, CLAIMS_COST, CLAIMS_PRICED, IDLE_COST, CLAIM_COST),
    "The exporter itself": (LAST_CONTACT, BUILD_SECONDS, BUILDS, DIAGNOSIS_SECONDS, DROPPED),
}
#: Metrics of every component, including the exporter.
COMPONENTS: Final[tuple[Metric, ...]] = (WORK, RESTARTS, REQUESTS, REQUEST_SECONDS, LEADER, QUEUE, UNREAD, BUILD_INFO)
METRICS: Final[Mapping[str, Metric]] = {metric.name: metric for group in GROUPS.values() for metric in group}
