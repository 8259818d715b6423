"""The kinds of ``resource.k8s.io`` in their v1 shape, the hub that every other version converts to and from.

Sources: Kubernetes 1.36 and 1.37, KEP-4381 (structured parameters), 4815 (partitions), 4816 (firstAvailable), 5007
(binding conditions), 5055 (taints), 5075 (consumable capacity), 5491 (list attributes). Fields of all modelled releases
are present; a field that a release does not have is unknown there. Where Go distinguishes nil from empty and validation
depends on it, the field is ``tuple | None``; otherwise absent and empty are the same value.
The whole API group is in one file because its types refer to each other.
"""

from __future__ import annotations

from typing import Any, Final

from msgspec import field

from allotment.model.meta import Condition, Object, ObjectMeta, Value
from allotment.model.node_selectors import NodeSelector
from allotment.model.quantity import Quantity

#: The finalizer that keeps an allocated claim until its devices are released.
FINALIZER: Final = "resource.kubernetes.io/delete-protection"

# --- ResourceSlice -----------------------------------------------------------------------------------------------


class DeviceAttribute(Value, frozen=True):
    """Exactly one field is set. ``version`` holds semver 2.0.0 text."""

    int_: int | None = field(name="int", default=None)
    bool_: bool | None = field(name="bool", default=None)
    string: str | None = None
    version: str | None = None
    bools: tuple[bool, ...] | None = None
    ints: tuple[int, ...] | None = None
    strings: tuple[str, ...] | None = None
    versions: tuple[str, ...] | None = None


class CapacityRequestPolicyRange(Value, frozen=True):
    """Valid requests: ``min``, ``min + step``, … up to ``max`` (or the capacity's value)."""

    min: Quantity | None = None
    max: Quantity | None = None
    step: Quantity | None = None


class CapacityRequestPolicy(Value, frozen=True):
    """The amounts of a shareable capacity that one request may consume."""

    default: Quantity | None = None
    valid_values: tuple[Quantity, ...] = ()
    valid_range: CapacityRequestPolicyRange | None = None


class DeviceCapacity(Value, frozen=True):
    """A capacity and, on devices that allow multiple allocations, its request policy."""

    value: Quantity = Quantity.ZERO
    request_policy: CapacityRequestPolicy | None = None


class Counter(Value, frozen=True):
    """One counter of a counter set, or the amount of it that a device consumes."""

    value: Quantity = Quantity.ZERO


class CounterSet(Value, frozen=True):
    """Counters that the devices of one pool share (KEP-4815)."""

    name: str = ""
    counters: dict[str, Counter] = {}


class DeviceCounterConsumption(Value, frozen=True):
    """The counters of one counter set that a device consumes while it is allocated.

    Devices that consume counters of one set are allocated together only if they have a compatibility group in common,
    or none of them has any (1.37).
    """

    counter_set: str = ""
    counters: dict[str, Counter] = {}
    compatibility_groups: tuple[str, ...] = ()


class DeviceTaint(Value, frozen=True):
    """Effects: None, NoSchedule, NoExecute; an unknown effect counts as None."""

    key: str = ""
    value: str = ""
    effect: str = ""
    time_added: str | None = None

    def __str__(self) -> str:
        """As kubectl writes it: ``key=value:effect``."""
        return f"{self.key}{f'={self.value}' if self.value else ''}:{self.effect}"


class NodeAllocatableResourceMapping(Value, frozen=True):
    """The cpu, memory or huge pages of the node that a device represents (alpha in 1.36, not in 1.37)."""

    capacity_key: str | None = None
    allocation_multiplier: Quantity | None = None


class NodeAllocatableMapping(Value, frozen=True):
    """The amount that an allocation takes: a multiple of a consumed capacity, or a fixed amount per device."""

    capacity_key: str | None = None
    capacity_multiplier: Quantity | None = None
    device_multiplier: Quantity | None = None


class NodeAllocatableOverhead(Value, frozen=True):
    """The amount that each pod, and each of its containers that references the claim, takes in addition."""

    per_pod: Quantity | None = None
    per_container: Quantity | None = None


class NodeAllocatableResource(Value, frozen=True):
    """The cpu, memory or huge pages of the node that an allocation of a device takes (1.37)."""

    mapping: NodeAllocatableMapping | None = None
    overhead: NodeAllocatableOverhead | None = None


class Device(Value, frozen=True):
    """One device; its identity is driver, pool and name."""

    name: str = ""
    attributes: dict[str, DeviceAttribute] = {}
    capacity: dict[str, DeviceCapacity] = {}
    consumes_counters: tuple[DeviceCounterConsumption, ...] = ()
    node_name: str | None = None
    node_selector: NodeSelector | None = None
    all_nodes: bool | None = None
    taints: tuple[DeviceTaint, ...] = ()
    binds_to_node: bool | None = None
    binding_conditions: tuple[str, ...] = ()
    binding_failure_conditions: tuple[str, ...] = ()
    allow_multiple_allocations: bool | None = None
    node_allocatable_resource_mappings: dict[str, NodeAllocatableResourceMapping] = {}
    node_allocatable_resources: dict[str, NodeAllocatableResource] = {}


class ResourcePool(Value, frozen=True, omit_defaults=False):
    """The pool a slice belongs to; only the highest generation counts."""

    name: str = ""
    generation: int = 0
    resource_slice_count: int = 0


class ResourceSliceSpec(Value, frozen=True):
    """Devices or shared counters of one pool, and the nodes that can use them."""

    driver: str = ""
    pool: ResourcePool = ResourcePool()
    node_name: str | None = None
    node_selector: NodeSelector | None = None
    all_nodes: bool | None = None
    devices: tuple[Device, ...] | None = None
    per_device_node_selection: bool | None = None
    shared_counters: tuple[CounterSet, ...] | None = None
    partition_type_attribute: str | None = None
    skip_node_operations: tuple[str, ...] = ()


class ResourceSlice(Object, frozen=True):
    """Devices that a driver publishes."""

    spec: ResourceSliceSpec = ResourceSliceSpec()


# --- DeviceClass -------------------------------------------------------------------------------------------------


class CELDeviceSelector(Value, frozen=True):
    """A CEL expression over ``device``."""

    expression: str = ""


class DeviceSelector(Value, frozen=True):
    """A selector; only CEL exists."""

    cel: CELDeviceSelector | None = None


class OpaqueDeviceConfiguration(Value, frozen=True):
    """Parameters for one driver: a JSON object, opaque to Kubernetes. Unset parameters are ``None``."""

    driver: str = ""
    parameters: Any = None


class DeviceClassConfiguration(Value, frozen=True):
    """Driver parameters that apply to every request for the class."""

    opaque: OpaqueDeviceConfiguration | None = None


class DeviceClassSpec(Value, frozen=True):
    """Selectors are ANDed; a class without any matches every device."""

    selectors: tuple[DeviceSelector, ...] = ()
    config: tuple[DeviceClassConfiguration, ...] = ()
    extended_resource_name: str | None = None


class DeviceClass(Object, frozen=True):
    """A category of devices that an administrator defines."""

    spec: DeviceClassSpec = DeviceClassSpec()


# --- ResourceClaim -----------------------------------------------------------------------------------------------


class DeviceToleration(Value, frozen=True):
    """Tolerates taints; operators Exists and Equal (default); an empty key or effect matches all."""

    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""
    toleration_seconds: int | None = None


class CapacityRequirements(Value, frozen=True):
    """Amounts of a device's capacities, by capacity name."""

    requests: dict[str, Quantity] = {}


class DeviceDerivedAttribute(Value, frozen=True):
    """An attribute, fully qualified, whose value for a device is that of a CEL expression over ``device`` (1.37).

    Only the constraints of the claim read it, for devices of the request that defines it.
    """

    name: str = ""
    expression: str = ""


class ExactDeviceRequest(Value, frozen=True):
    """Devices of one class: a count of them, or all."""

    device_class_name: str = ""
    selectors: tuple[DeviceSelector, ...] = ()
    allocation_mode: str = ""
    count: int = 0
    admin_access: bool | None = None
    tolerations: tuple[DeviceToleration, ...] = ()
    capacity: CapacityRequirements | None = None
    derived_attributes: tuple[DeviceDerivedAttribute, ...] = ()


class DeviceSubRequest(Value, frozen=True):
    """One alternative of ``firstAvailable``."""

    name: str = ""
    device_class_name: str = ""
    selectors: tuple[DeviceSelector, ...] = ()
    allocation_mode: str = ""
    count: int = 0
    tolerations: tuple[DeviceToleration, ...] = ()
    capacity: CapacityRequirements | None = None
    derived_attributes: tuple[DeviceDerivedAttribute, ...] = ()


class DeviceRequest(Value, frozen=True):
    """Exactly one of ``exactly`` and ``firstAvailable`` is set."""

    name: str = ""
    exactly: ExactDeviceRequest | None = None
    first_available: tuple[DeviceSubRequest, ...] = ()


class DeviceConstraint(Value, frozen=True):
    """A constraint on the devices of the listed requests, or of all requests if none is listed."""

    requests: tuple[str, ...] = ()
    match_attribute: str | None = None
    distinct_attribute: str | None = None


class DeviceClaimConfiguration(Value, frozen=True):
    """Driver parameters for the listed requests, or for all of them."""

    requests: tuple[str, ...] = ()
    opaque: OpaqueDeviceConfiguration | None = None


class DeviceClaim(Value, frozen=True):
    """The requests of a claim, their constraints and driver parameters."""

    requests: tuple[DeviceRequest, ...] = ()
    constraints: tuple[DeviceConstraint, ...] = ()
    config: tuple[DeviceClaimConfiguration, ...] = ()


class ResourceClaimSpec(Value, frozen=True):
    """Immutable once created."""

    devices: DeviceClaim = DeviceClaim()


class DeviceRequestAllocationResult(Value, frozen=True):
    """One device allocated for one request (``main`` or ``main/sub``)."""

    request: str = ""
    driver: str = ""
    pool: str = ""
    device: str = ""
    admin_access: bool | None = None
    tolerations: tuple[DeviceToleration, ...] = ()
    binding_conditions: tuple[str, ...] = ()
    binding_failure_conditions: tuple[str, ...] = ()
    share_id: str | None = field(name="shareID", default=None)
    consumed_capacity: dict[str, Quantity] = {}
    skip_node_operations: tuple[str, ...] = ()


class DeviceAllocationConfiguration(Value, frozen=True):
    """Driver parameters that apply to an allocation; ``source`` is FromClass or FromClaim."""

    source: str = ""
    requests: tuple[str, ...] = ()
    opaque: OpaqueDeviceConfiguration | None = None


class DeviceAllocationResult(Value, frozen=True):
    """The devices of an allocation and the parameters for their drivers."""

    results: tuple[DeviceRequestAllocationResult, ...] = ()
    config: tuple[DeviceAllocationConfiguration, ...] = ()


class AllocationResult(Value, frozen=True):
    """The allocation of a claim; without a node selector every node can use it."""

    devices: DeviceAllocationResult = DeviceAllocationResult()
    node_selector: NodeSelector | None = None
    allocation_timestamp: str | None = None


class ResourceClaimConsumerReference(Value, frozen=True):
    """A consumer of an allocated claim, normally a pod."""

    api_group: str = ""
    resource: str = ""
    name: str = ""
    uid: str = ""


class NetworkDeviceData(Value, frozen=True):
    """Status of a network device, as reported by its driver."""

    interface_name: str = ""
    ips: tuple[str, ...] = ()
    hardware_address: str = ""


class AllocatedDeviceStatus(Value, frozen=True):
    """Status of an allocated device, as reported by its driver."""

    driver: str = ""
    pool: str = ""
    device: str = ""
    share_id: str | None = field(name="shareID", default=None)
    conditions: tuple[Condition, ...] = ()
    data: Any = None
    network_data: NetworkDeviceData | None = None


class ResourceClaimStatus(Value, frozen=True):
    """The allocation, the consumers and the device statuses of a claim; a claim has no phase."""

    allocation: AllocationResult | None = None
    reserved_for: tuple[ResourceClaimConsumerReference, ...] = ()
    devices: tuple[AllocatedDeviceStatus, ...] = ()


class ResourceClaim(Object, frozen=True):
    """A request for devices, and their allocation."""

    spec: ResourceClaimSpec = ResourceClaimSpec()
    status: ResourceClaimStatus = ResourceClaimStatus()


class ResourceClaimTemplateSpec(Value, frozen=True):
    """Metadata and spec of generated claims; only labels and annotations of the metadata may be set."""

    metadata: ObjectMeta = ObjectMeta()
    spec: ResourceClaimSpec = ResourceClaimSpec()


class ResourceClaimTemplate(Object, frozen=True):
    """A template from which one claim per pod is generated."""

    spec: ResourceClaimTemplateSpec = ResourceClaimTemplateSpec()


# --- DeviceTaintRule and ResourcePoolStatusRequest ---------------------------------------------------------------


class DeviceTaintSelector(Value, frozen=True):
    """All set fields must match; without any, every device is selected."""

    driver: str | None = None
    pool: str | None = None
    device: str | None = None


class DeviceTaintRuleSpec(Value, frozen=True):
    """A taint and its devices; a rule without a selector taints no device."""

    device_selector: DeviceTaintSelector | None = None
    taint: DeviceTaint = DeviceTaint()


class DeviceTaintRuleStatus(Value, frozen=True):
    """Progress of the eviction."""

    conditions: tuple[Condition, ...] = ()


class DeviceTaintRule(Object, frozen=True):
    """A taint that an administrator adds to devices, in addition to those set by their driver."""

    spec: DeviceTaintRuleSpec = DeviceTaintRuleSpec()
    status: DeviceTaintRuleStatus = DeviceTaintRuleStatus()


class ResourcePoolStatusRequestSpec(Value, frozen=True):
    """The pools to report; ``limit`` defaults to 100."""

    driver: str = ""
    pool_name: str | None = None
    limit: int | None = None
    default_partition_type_attribute: str | None = None


class PartitionTypeStatus(Value, frozen=True):
    """The partitions of one type: those with the value ``type`` of ``attribute``."""

    attribute: str = ""
    type: str = ""
    total: int | None = None
    allocatable: int | None = None


class ShareableCapacityStatus(Value, frozen=True):
    """One capacity, summed over the shareable devices of a pool."""

    name: str = ""
    total: Quantity | None = None
    consumed: Quantity | None = None
    available: Quantity | None = None


class ShareableSummaryStatus(Value, frozen=True):
    """The shareable devices of a pool."""

    fully_available_devices: int | None = None
    partially_available_devices: int | None = None
    capacity: tuple[ShareableCapacityStatus, ...] = ()


class PoolStatus(Value, frozen=True):
    """Device counts of one pool; an unset count is unknown."""

    driver: str = ""
    pool_name: str = ""
    generation: int = 0
    resource_slice_count: int | None = None
    total_devices: int | None = None
    allocated_devices: int | None = None
    available_devices: int | None = None
    unavailable_devices: int | None = None
    node_name: str | None = None
    validation_error: str | None = None
    partition_summary: tuple[PartitionTypeStatus, ...] = ()
    shareable_summary: ShareableSummaryStatus | None = None


class ResourcePoolStatusRequestStatus(Value, frozen=True):
    """The reported pools; written once."""

    pool_count: int | None = None
    pools: tuple[PoolStatus, ...] = ()
    conditions: tuple[Condition, ...] = ()


class ResourcePoolStatusRequest(Object, frozen=True):
    """A request for the state of a driver's pools (alpha since 1.36)."""

    spec: ResourcePoolStatusRequestSpec = ResourcePoolStatusRequestSpec()
    status: ResourcePoolStatusRequestStatus | None = None
