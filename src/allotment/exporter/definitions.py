"""Every metric: its name, its labels and what bounds them. Dashboards, alerts and ``docs/metrics.md`` are made of this.

No label names a pod or a claim, except in ``CLAIM_COST``, which somebody must ask for. Amounts are in base units:
bytes, seconds, devices. Money is US dollars per hour, as the catalogue has it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from allotment.exporter.definition import Metric

#: States of devices, as ``allot free`` has them, and one more: published in a pool that Kubernetes ignores.
UNUSABLE: Final = "unusable"
#: States that are always told, so that none of it is a zero. Others are told where there is any.
ALWAYS: Final = ("free", "in-use")

_PER_PRODUCT = "one per node, driver and product"

DEVICES: Final = Metric(
    "allotment_devices", "gauge",
    "Devices that are published, by what has become of them. Each is in one state; of partitions that exclude each "
    "other every possible one is counted.",
    ("node", "driver", "product", "state"),
    f"{_PER_PRODUCT}, times the states that there are (free and in-use always, of seven)",
)  # fmt: skip
CLASS_DEVICES: Final = Metric(
    "allotment_class_devices", "gauge",
    "Devices that a DeviceClass selects, by what has become of them. A device may be of several classes.",
    ("node", "device_class", "state"),
    "one per node and class that selects a device there, times the states that there are",
)  # fmt: skip
TAINTED_DEVICES: Final = Metric(
    "allotment_tainted_devices", "gauge",
    "Devices with a taint of their driver or of a DeviceTaintRule, whether they are in use or not.",
    ("node", "driver", "effect"), "one per node, driver and effect of a taint (three)",
)  # fmt: skip
TWICE: Final = Metric(
    "allotment_devices_allocated_twice", "gauge",
    "Devices that several claims hold though they cannot be shared. It must be zero.",
    ("driver",), "one per driver",
)  # fmt: skip
MISSING_DEVICES: Final = Metric(
    "allotment_devices_missing", "gauge",
    "Devices that claims hold and no slice publishes any more.",
    ("driver",), "one per driver",
)  # fmt: skip
POOLS: Final = Metric(
    "allotment_pools", "gauge",
    "Pools of devices, by whether Kubernetes uses them: usable, incomplete (slices are missing or too many) or "
    "invalid (they contradict each other).",
    ("node", "driver", "state"), "one per node and driver, times the states that there are (usable always, of three)",
)  # fmt: skip
SLICES: Final = Metric(
    "allotment_resource_slices", "gauge",
    "ResourceSlices, by whether they are of the newest generation of their pool.",
    ("node", "driver", "generation"), "one per node and driver, twice where there are old ones",
)  # fmt: skip

SHARES: Final = Metric(
    "allotment_device_shares", "gauge",
    "Shares of devices that several claims may hold.",
    ("node", "driver", "product"), f"{_PER_PRODUCT} that can be shared",
)  # fmt: skip
MEMORY: Final = Metric(
    "allotment_device_memory_bytes", "gauge",
    "Memory of devices, without those that draw on counters: their memory is a counter.",
    ("node", "driver", "product"), f"{_PER_PRODUCT} that has a capacity called memory",
)  # fmt: skip
MEMORY_USED: Final = Metric(
    "allotment_device_memory_used_bytes", "gauge",
    "Of that memory, what claims hold: all of a device that is not shared, of a shared one what its shares consume.",
    MEMORY.labels, MEMORY.most,
)  # fmt: skip
CAPACITY: Final = Metric(
    "allotment_shared_capacity", "gauge",
    "Capacity of devices that several claims may hold, in the capacity's own base unit.",
    ("node", "driver", "product", "capacity"), f"{_PER_PRODUCT} that can be shared, and capacity",
)  # fmt: skip
CAPACITY_USED: Final = Metric(
    "allotment_shared_capacity_used", "gauge",
    "Of that capacity, what shares consume.",
    CAPACITY.labels, CAPACITY.most,
)  # fmt: skip
COUNTERS: Final = Metric(
    "allotment_counters", "gauge",
    "What partitions of the same hardware draw on, over the node's counter sets, in the counter's own base unit; those "
    "that differ in a number at their end (memory-slice-3) are one.",
    ("node", "driver", "counter"), "one per node, driver and name of a counter",
)  # fmt: skip
COUNTERS_USED: Final = Metric(
    "allotment_counters_used", "gauge",
    "Of those counters, what allocated devices draw.",
    COUNTERS.labels, COUNTERS.most,
)  # fmt: skip

CLAIMS: Final = Metric(
    "allotment_claims", "gauge",
    "ResourceClaims: pending (no devices yet), allocated (devices, and nobody who uses them), reserved (used), "
    "contested (set aside by Allotment's scheduler, for another one gave the devices away, too) or deleting.",
    ("namespace", "state"), "one per namespace with claims, times five",
)  # fmt: skip
PENDING_CLAIMS: Final = Metric(
    "allotment_pending_claims", "gauge",
    "Claims without devices, by the cause for which the pod that names them waits; no-pod: no pod that waits names it, "
    "so nobody allocates it.",
    ("namespace", "cause"), "one per namespace with such claims and cause (a closed set; see Causes)",
)  # fmt: skip
PENDING_PODS: Final = Metric(
    "allotment_pending_pods", "gauge",
    "Pods that ask for devices and have no node, by cause.",
    ("namespace", "cause"), "one per namespace with such pods and cause (a closed set; see Causes)",
)  # fmt: skip
OLDEST_PENDING: Final = Metric(
    "allotment_oldest_pending_pod_timestamp_seconds", "gauge",
    "When the oldest pod was created that asks for devices and has no node, by cause.",
    ("cause",), "one per cause (a closed set; see Causes)",
)  # fmt: skip
LATENCY: Final = Metric(
    "allotment_claim_allocation_seconds", "histogram",
    "From a claim's creation to its allocation; each claim once, none from before the exporter started. origin: claims "
    "made from a template for a pod, or by somebody, which may wait for a pod to come.",
    ("device_class", "origin"), "one per class of the first request, times two, each with twelve buckets",
)  # fmt: skip

NODE_COST: Final = Metric(
    "allotment_node_cost_dollars_per_hour", "gauge",
    "Price of a node by the catalogue; region is where that price is from. Nodes without a price are not here.",
    ("node", "instance_type", "capacity_type", "region"), "one per node",
)  # fmt: skip
NODES_PRICED: Final = Metric(
    "allotment_nodes", "gauge",
    "Nodes with devices, by what is known of their price: region (of its own region), elsewhere (of another region) or "
    "unknown.",
    ("price",), "three",
)  # fmt: skip
CLAIMS_COST: Final = Metric(
    "allotment_claims_cost_dollars_per_hour", "gauge",
    "Price of the parts of nodes that claims hold. Claims whose price is not known are not in it.",
    ("namespace", "device_class"), "one per namespace and class of a request that holds devices",
)  # fmt: skip
CLAIMS_PRICED: Final = Metric(
    "allotment_claims_priced", "gauge",
    "Claims that hold devices which have a part in a node's price, by whether that price is known.",
    ("namespace", "price"), "one per namespace with such claims, times two",
)  # fmt: skip
IDLE_COST: Final = Metric(
    "allotment_idle_cost_dollars_per_hour", "gauge",
    "Price of the parts of a node's devices that no claim holds.",
    ("node",), "one per node with a known price",
)  # fmt: skip
CLAIM_COST: Final = Metric(
    "allotment_claim_cost_dollars_per_hour", "gauge",
    "Price of the parts of nodes that one claim holds; only with --per-claim.",
    ("namespace", "claim"), "one per claim that holds devices, the dearest first, up to --most-series",
)  # fmt: skip

LAST_CONTACT: Final = Metric(
    "allotment_exporter_last_contact_timestamp_seconds", "gauge",
    "When the exporter last heard from the API server of the kind of which it has not heard for longest.",
    (), "one",
)  # fmt: skip
BUILD_SECONDS: Final = Metric(
    "allotment_exporter_build_seconds", "gauge",
    "How long it took to make the values that are served.",
    (), "one",
)  # fmt: skip
BUILDS: Final = Metric(
    "allotment_exporter_builds_total", "counter",
    "How often values were made.",
    (), "one",
)  # fmt: skip
DIAGNOSIS_SECONDS: Final = Metric(
    "allotment_exporter_diagnosis_seconds", "gauge",
    "How long it took to find out why pods wait, in the last round.",
    (), "one",
)  # fmt: skip
DROPPED: Final = Metric(
    "allotment_series_dropped", "gauge",
    "Series of a metric that are not served, because there are more than --most-series.",
    ("metric",), "one per metric that is cut",
)  # fmt: skip

#: What every component serves of itself (`components.metrics` makes these); without them no dashboard shows it.
WORK: Final = Metric(
    "allotment_work_duration_seconds", "histogram",
    "How long pieces of work took, by kind and how they ended.",
    ("work", "result"), "one per kind of work and result (a few words each), each with sixteen buckets",
)  # fmt: skip
RESTARTS: Final = Metric(
    "allotment_program_restarts_total", "counter",
    "How often a program crashed or ended, and was started again.",
    ("program",), "one per program",
)  # fmt: skip
REQUESTS: Final = Metric(
    "allotment_client_requests_total", "counter",
    "Requests to the API server, by method and code (0: no answer came).",
    ("method", "code"), "one per method and code",
)  # fmt: skip
REQUEST_SECONDS: Final = Metric(
    "allotment_client_request_duration_seconds", "histogram",
    "How long the API server took to begin its answers.",
    ("method",), "one per method, each with fifteen buckets",
)  # fmt: skip
LEADER: Final = Metric(
    "allotment_leader", "gauge",
    "Whether this copy leads (1) or stands by (0), by its Lease.",
    ("lease",), "one",
)  # fmt: skip
QUEUE: Final = Metric(
    "allotment_queue_depth", "gauge",
    "Keys or pods that wait, or are worked on.",
    ("queue",), "one per queue of the component",
)  # fmt: skip
BUILD_INFO: Final = Metric(
    "allotment_build_info", "gauge",
    "The version that runs, and as what.",
    ("version", "component"), "one",
)  # fmt: skip

#: In the order of the page, by what they are about.
GROUPS: Final[Mapping[str, tuple[Metric, ...]]] = {
    "Devices": (DEVICES, CLASS_DEVICES, TAINTED_DEVICES, TWICE, MISSING_DEVICES, POOLS, SLICES),
    "Shares and counters": (SHARES, MEMORY, MEMORY_USED, CAPACITY, CAPACITY_USED, COUNTERS, COUNTERS_USED),
    "Claims and pods": (CLAIMS, PENDING_CLAIMS, PENDING_PODS, OLDEST_PENDING, LATENCY),
    "Cost": (NODE_COST, NODES_PRICED, CLAIMS_COST, CLAIMS_PRICED, IDLE_COST, CLAIM_COST),
    "The exporter itself": (LAST_CONTACT, BUILD_SECONDS, BUILDS, DIAGNOSIS_SECONDS, DROPPED),
}
#: Of components, the exporter among them; what they do for a cluster is not in it.
COMPONENTS: Final[tuple[Metric, ...]] = (WORK, RESTARTS, REQUESTS, REQUEST_SECONDS, LEADER, QUEUE, BUILD_INFO)
METRICS: Final[Mapping[str, Metric]] = {metric.name: metric for group in GROUPS.values() for metric in group}
