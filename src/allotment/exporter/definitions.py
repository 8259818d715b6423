"""The definitions of all metrics: name, help, labels and cardinality. Dashboards, alerts and ``docs/metrics.md`` use
them.

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
    "Published devices by state; each device has exactly one. Partitions that exclude each other are all counted.",
    ("node", "driver", "product", "state"),
    f"{_PER_PRODUCT}, for each state that occurs (free and in-use always; at most seven)",
)  # fmt: skip
CLASS_DEVICES: Final = Metric(
    "allotment_class_devices", "gauge",
    "Devices that a DeviceClass selects, by state. A device may belong to several classes.",
    ("node", "device_class", "state"),
    "one per node and class that selects a device there, for each state that occurs",
)  # fmt: skip
TAINTED_DEVICES: Final = Metric(
    "allotment_tainted_devices", "gauge",
    "Devices that their driver or a DeviceTaintRule taints, whether in use or not.",
    ("node", "driver", "effect"), "one per node, driver and taint effect (three)",
)  # fmt: skip
ALLOCATED_TWICE: Final = Metric(
    "allotment_devices_allocated_twice", "gauge",
    "Devices that several claims hold although they cannot be shared. Expected to be zero.",
    ("driver",), "one per driver",
)  # fmt: skip
MISSING_DEVICES: Final = Metric(
    "allotment_devices_missing", "gauge",
    "Devices that claims hold although no ResourceSlice publishes them.",
    ("driver",), "one per driver",
)  # fmt: skip
POOLS: Final = Metric(
    "allotment_pools", "gauge",
    "Device pools by state: usable, incomplete (missing or surplus slices) or invalid (contradictory slices). "
    "Kubernetes allocates devices only from usable pools.",
    ("node", "driver", "state"), "one per node and driver, for each state that occurs (usable always; at most three)",
)  # fmt: skip
SLICES: Final = Metric(
    "allotment_resource_slices", "gauge",
    "ResourceSlices of the current and of old generations of their pools.",
    ("node", "driver", "generation"), "one per node and driver, two if old slices exist",
)  # fmt: skip

SHARES: Final = Metric(
    "allotment_device_shares", "gauge",
    "Allocated shares of devices that several claims can use at the same time.",
    ("node", "driver", "product"), f"{_PER_PRODUCT} that can be shared",
)  # fmt: skip
MEMORY: Final = Metric(
    "allotment_device_memory_bytes", "gauge",
    "Memory of devices. Partitions that consume shared counters are excluded; see allotment_counters.",
    ("node", "driver", "product"), f"{_PER_PRODUCT} that has a capacity named memory",
)  # fmt: skip
MEMORY_USED: Final = Metric(
    "allotment_device_memory_used_bytes", "gauge",
    "Memory held by claims: all memory of an unshared device, the consumed part of a shared device.",
    MEMORY.labels, MEMORY.cardinality,
)  # fmt: skip
CAPACITY: Final = Metric(
    "allotment_shared_capacity", "gauge",
    "Capacity of devices that several claims can use at the same time, in the base unit of the capacity.",
    ("node", "driver", "product", "capacity"), f"{_PER_PRODUCT} that can be shared, and capacity",
)  # fmt: skip
CAPACITY_USED: Final = Metric(
    "allotment_shared_capacity_used", "gauge",
    "The part of allotment_shared_capacity that allocated shares consume.",
    CAPACITY.labels, CAPACITY.cardinality,
)  # fmt: skip
COUNTERS: Final = Metric(
    "allotment_counters", "gauge",
    "Counters that partitions of the same hardware consume, summed over the node's counter sets, in base units. Names "
    "that differ only in a trailing number (memory-slice-3) are counted as one counter.",
    ("node", "driver", "counter"), "one per node, driver and name of a counter",
)  # fmt: skip
COUNTERS_USED: Final = Metric(
    "allotment_counters_used", "gauge",
    "The part of allotment_counters that allocated devices consume.",
    COUNTERS.labels, COUNTERS.cardinality,
)  # fmt: skip

CLAIMS: Final = Metric(
    "allotment_claims", "gauge",
    "ResourceClaims by state: pending (no devices yet), allocated (devices but no consumer), reserved (in use), "
    "contested (detached because another scheduler allocated the same devices) or deleting.",
    ("namespace", "state"), "one per namespace with claims, times five",
)  # fmt: skip
PENDING_CLAIMS: Final = Metric(
    "allotment_pending_claims", "gauge",
    "Claims without devices, by the cause of the pending pod that references them. no-pod: no pending pod references "
    "the claim, so it will not be allocated.",
    ("namespace", "cause"), "one per namespace with such claims and cause (a closed set; see Causes)",
)  # fmt: skip
PENDING_PODS: Final = Metric(
    "allotment_pending_pods", "gauge",
    "Pods that request devices and have no node yet, by cause.",
    ("namespace", "cause"), "one per namespace with such pods and cause (a closed set; see Causes)",
)  # fmt: skip
OLDEST_PENDING: Final = Metric(
    "allotment_oldest_pending_pod_timestamp_seconds", "gauge",
    "Creation time of the oldest pod that requests devices and has no node yet, by cause.",
    ("cause",), "one per cause (a closed set; see Causes)",
)  # fmt: skip
LATENCY: Final = Metric(
    "allotment_claim_allocation_seconds", "histogram",
    "Time from a claim's creation to its allocation, for claims observed since the exporter started. origin: template "
    "(generated for a pod) or user (created by a user, possibly before its pod).",
    ("device_class", "origin"), "one per class of the first request, times two, each with twelve buckets",
)  # fmt: skip

NODE_COST: Final = Metric(
    "allotment_node_cost_dollars_per_hour", "gauge",
    "Catalog price of a node; region is the region of that price. Nodes without a known price are excluded.",
    ("node", "instance_type", "capacity_type", "region"), "one per node",
)  # fmt: skip
NODES_PRICED: Final = Metric(
    "allotment_nodes", "gauge",
    "Nodes with devices, by the source of their price: region (the node's region), elsewhere (another region) or "
    "unknown.",
    ("price",), "three",
)  # fmt: skip
CLAIMS_COST: Final = Metric(
    "allotment_claims_cost_dollars_per_hour", "gauge",
    "The part of node prices that claims account for. Claims with an unknown price are excluded.",
    ("namespace", "device_class"), "one per namespace and class of a request that holds devices",
)  # fmt: skip
CLAIMS_PRICED: Final = Metric(
    "allotment_claims_priced", "gauge",
    "Claims with devices, by whether the price of their node is known.",
    ("namespace", "price"), "one per namespace with such claims, times two",
)  # fmt: skip
IDLE_COST: Final = Metric(
    "allotment_idle_cost_dollars_per_hour", "gauge",
    "Price of the devices of a node that are not held by claims.",
    ("node",), "one per node with a known price",
)  # fmt: skip
CLAIM_COST: Final = Metric(
    "allotment_claim_cost_dollars_per_hour", "gauge",
    "The part of node prices that one claim accounts for. Exported only with --per-claim.",
    ("namespace", "claim"), "one per claim that holds devices, the most expensive first, up to --max-series",
)  # fmt: skip

LAST_CONTACT: Final = Metric(
    "allotment_exporter_last_contact_timestamp_seconds", "gauge",
    "Time of the last update from the API server, for the resource that was updated least recently.",
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
    "Series dropped from a metric because it has more series than --max-series.",
    ("metric",), "one per truncated metric",
)  # fmt: skip

#: Metrics that every component exports about itself (implemented in `components.metrics`).
WORK: Final = Metric(
    "allotment_work_duration_seconds", "histogram",
    "Duration of units of work, by kind and result.",
    ("work", "result"), "one per kind of work and result (both are small closed sets), each with sixteen buckets",
)  # fmt: skip
RESTARTS: Final = Metric(
    "allotment_program_restarts_total", "counter",
    "Restarts of a program after a crash or an exit.",
    ("program",), "one per program",
)  # fmt: skip
REQUESTS: Final = Metric(
    "allotment_client_requests_total", "counter",
    "Requests to the API server, by method and status code (0: no answer).",
    ("method", "code"), "one per method and code",
)  # fmt: skip
REQUEST_SECONDS: Final = Metric(
    "allotment_client_request_duration_seconds", "histogram",
    "Time to the first byte of the API server's response.",
    ("method",), "one per method, each with fifteen buckets",
)  # fmt: skip
LEADER: Final = Metric(
    "allotment_leader", "gauge",
    "1 if this replica is the leader, 0 if it is on standby; one series per Lease.",
    ("lease",), "one",
)  # fmt: skip
QUEUE: Final = Metric(
    "allotment_queue_depth", "gauge",
    "Items that wait in a queue or are being processed.",
    ("queue",), "one per queue of the component",
)  # fmt: skip
BUILD_INFO: Final = Metric(
    "allotment_build_info", "gauge",
    "Version and component, as labels; the value is always 1.",
    ("version", "component"), "one",
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
COMPONENTS: Final[tuple[Metric, ...]] = (WORK, RESTARTS, REQUESTS, REQUEST_SECONDS, LEADER, QUEUE, BUILD_INFO)
METRICS: Final[Mapping[str, Metric]] = {metric.name: metric for group in GROUPS.values() for metric in group}
