"""``gpu.example.com``: GPUs of 80Gi; whole or cut into equal parts, for one claim each or shared, ready or not."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, Literal, NamedTuple

import msgspec

from allotment.drivers.driver import Granted, Offer, Refused, Tree
from allotment.drivers.example.imaginary import Imaginary, facts
from allotment.model.quantity import Quantity
from allotment.model.resource import (
    CapacityRequestPolicy,
    CapacityRequestPolicyRange,
    Counter,
    CounterSet,
    Device,
    DeviceAttribute,
    DeviceCapacity,
    DeviceCounterConsumption,
)
from allotment.model.trees import to_tree

NAME: Final = "gpu.example.com"
CONFIG: Final = ("gpu.resource.example.com/v1alpha1", "GpuConfig")
#: What a scheduler waits for before it binds a pod to a GPU that is not ready yet (KEP-5007).
READY: Final = "BindingConditions"
FAILED: Final = "BindingFailureConditions"

_MEMORY: Final = Quantity.parse("80Gi")
_COMPUTE: Final = Quantity.parse("100")
_STEPS: Final = {"memory": Quantity.parse("1Gi"), "compute": Quantity.parse("1")}


class TimeSlicingConfig(msgspec.Struct, frozen=True, rename="camel"):
    """How long a program computes before it is another's turn."""

    interval: Literal["Default", "Short", "Medium", "Long"] = "Default"


class SpacePartitioningConfig(msgspec.Struct, frozen=True, rename="camel"):
    """Into how many equal parts a GPU is divided."""

    partition_count: int = 1


class GpuSharing(msgspec.Struct, frozen=True, rename="camel"):
    """How the programs of a claim share its GPUs."""

    strategy: Literal["TimeSlicing", "SpacePartitioning"]
    time_slicing_config: TimeSlicingConfig | None = None
    space_partitioning_config: SpacePartitioningConfig | None = None


class GpuConfig(msgspec.Struct, frozen=True, rename="camel"):
    """The parameters; programs take turns unless told otherwise."""

    sharing: GpuSharing | None = None


class Options(NamedTuple):
    """How GPUs are published. ``partitions``: of each GPU, 0 for none; ``shared``: for several claims (KEP-5075).

    ``binding``: pods wait until something says that their GPU is ready; ``status``: claims are told of their GPUs.
    """

    gpus: int = 8
    partitions: int = 0
    shared: bool = False
    binding: bool = False
    status: bool = False


USUAL: Final = Options()


class ExampleGpus(Imaginary):
    """The driver of a node."""

    def __init__(self, node: str, options: Options = USUAL) -> None:
        super().__init__(NAME, "GPU", node, offer(node, options))
        self._tells = options.status

    @property
    def configs(self) -> Mapping[tuple[str, str], type]:
        """One kind."""
        return {CONFIG: GpuConfig}

    def validate(self, config: Any) -> None:
        """The settings must be those of the strategy."""
        sharing = config.sharing
        if sharing is None:
            return
        other = "space_partitioning_config" if sharing.strategy == "TimeSlicing" else "time_slicing_config"
        if getattr(sharing, other) is not None:
            name = "spacePartitioningConfig" if sharing.strategy == "TimeSlicing" else "timeSlicingConfig"
            raise Refused(
                f"sharing.{name}: not with strategy {sharing.strategy}; leave one of them out", permanent=True
            )
        parts = sharing.space_partitioning_config
        if parts is not None and parts.partition_count < 0:
            found = parts.partition_count
            path = "sharing.spacePartitioningConfig.partitionCount"
            raise Refused(f"{path}: wanted 0 or more, found {found}", permanent=True)

    def variables(self, granted: Granted) -> Sequence[str]:
        """Which GPU, how it is shared, and how much of it."""
        return tuple(self._variables(granted))

    def _variables(self, granted: Granted) -> Iterator[str]:
        name = f"GPU_DEVICE_{granted.device.removeprefix('gpu-').upper().replace('-', '_')}"
        yield f"{name}={granted.device}"
        if not granted.admin:  # who only looks on has no say in how others share
            config = granted.config or GpuConfig()
            sharing = config.sharing or GpuSharing("TimeSlicing")
            yield f"{name}_SHARING_STRATEGY={sharing.strategy}"
            if sharing.strategy == "TimeSlicing":
                yield f"{name}_TIMESLICE_INTERVAL={(sharing.time_slicing_config or TimeSlicingConfig()).interval}"
            else:
                parts = sharing.space_partitioning_config or SpacePartitioningConfig()
                yield f"{name}_PARTITION_COUNT={parts.partition_count}"
        for capacity in ("memory", "compute"):
            if capacity in granted.consumed:
                yield f"{name}_{capacity.upper()}={granted.consumed[capacity]}"

    def data(self, device: Device) -> Tree | None:
        """Facts that stay known when the device is gone."""
        if not self._tells:
            return None
        return {name: to_tree(device.attributes[name]) for name in ("uuid", "model", "driverVersion")}


def offer(node: str, options: Options) -> Offer:
    """The GPUs of a node."""
    groups = [tuple(_gpu(node, index, options)) for index in range(options.gpus)]
    sets = [CounterSet(name=_counters(index), counters=_whole()) for index in range(options.gpus)]
    return Offer(groups, sets if options.partitions else ())


def _gpu(node: str, index: int, options: Options) -> Iterator[Device]:
    attributes = facts("gpu", node, index)
    if not options.partitions:
        yield _device(f"gpu-{index}", attributes, _MEMORY, _COMPUTE, options)
        return
    attributes["partitionable"] = DeviceAttribute(bool_=True)
    memory = Quantity.binary(_MEMORY.as_integer() // options.partitions)
    compute = Quantity.of_int(_COMPUTE.as_integer() // options.partitions)
    for part in range(options.partitions):
        own = attributes | {"partition": DeviceAttribute(int_=part)}
        yield _device(f"gpu-{index}-partition-{part}", own, memory, compute, options, index)
    yield _device(
        f"gpu-{index}-full", attributes | {"full": DeviceAttribute(bool_=True)}, _MEMORY, _COMPUTE, options, index
    )


def _device(
    name: str, attributes: Mapping[str, DeviceAttribute], memory: Quantity, compute: Quantity, options: Options,
    counted: int | None = None,
) -> Device:  # fmt: skip
    amounts = {"memory": memory, "compute": compute}
    taken = {key: Counter(value=value) for key, value in amounts.items()}
    return Device(
        name=name,
        attributes=dict(attributes),
        capacity={key: _capacity(key, value, options.shared) for key, value in amounts.items()},
        allow_multiple_allocations=True if options.shared else None,
        binding_conditions=(READY,) if options.binding else (),
        binding_failure_conditions=(FAILED,) if options.binding else (),
        consumes_counters=()
        if counted is None
        else (DeviceCounterConsumption(counter_set=_counters(counted), counters=taken),),
    )


def _capacity(name: str, value: Quantity, shared: bool) -> DeviceCapacity:
    if not shared:
        return DeviceCapacity(value=value)
    # Who asks for nothing gets all of it.
    steps = CapacityRequestPolicyRange(min=_STEPS[name], step=_STEPS[name], max=value)
    return DeviceCapacity(value=value, request_policy=CapacityRequestPolicy(default=value, valid_range=steps))


def _counters(index: int) -> str:
    return f"gpu-{index}-counters"


def _whole() -> dict[str, Counter]:
    return {"memory": Counter(value=_MEMORY), "compute": Counter(value=_COMPUTE)}
