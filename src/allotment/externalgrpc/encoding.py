"""Messages of the two protocols as the values of `cloud_provider` and `expander`, and answers as messages."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from google.protobuf.any_pb2 import Any as AnyMessage
from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp

from allotment import grpc_codec
from allotment.externalgrpc import objects
from allotment.externalgrpc.cloud_provider import (
    CloudInstance,
    CloudNodeGroup,
    InstanceState,
    NodeGroupOptions,
    NodeRef,
    TemplateNode,
)
from allotment.externalgrpc.expander import ExpansionOption
from allotment.externalgrpc.wire import cloud_provider_pb2 as cloud_wire
from allotment.externalgrpc.wire import expander_pb2 as expander_wire
from allotment.model.trees import Tree

#: The full names of the services, as in the paths of their methods.
CLOUD_PROVIDER: Final = "clusterautoscaler.cloudprovider.v1.externalgrpc.CloudProvider"
EXPANDER: Final = "grpcplugin.Expander"

_SECOND: Final = 10**9
_HOUR: Final = 3600.0 * _SECOND

INSTANCE_STATES: Final[Mapping[InstanceState, cloud_wire.InstanceStatus.InstanceState]] = {
    "unspecified": cloud_wire.InstanceStatus.unspecified,
    "running": cloud_wire.InstanceStatus.instanceRunning,
    "creating": cloud_wire.InstanceStatus.instanceCreating,
    "deleting": cloud_wire.InstanceStatus.instanceDeleting,
}
#: cluster-autoscaler's classes of errors.
OUT_OF_RESOURCES, _OTHER = 1, 99

#: Numbers that no field can have, and the response's own.
_RESERVED_NUMBERS: Final = range(19_000, 20_000)
_MAX_NUMBER: Final = 2**29 - 1


# --- the cloud provider ----------------------------------------------------------------------------------------------


def encode_node_group(group: CloudNodeGroup | None) -> cloud_wire.NodeGroup:
    """A group; none is one without an id."""
    if group is None:
        return cloud_wire.NodeGroup()
    return cloud_wire.NodeGroup(id=group.id, minSize=group.min_size, maxSize=group.max_size, debug=group.debug)


def decode_node(message: cloud_wire.ExternalGrpcNode) -> NodeRef:
    """A node that the autoscaler speaks of."""
    return NodeRef(message.providerID, message.name, dict(message.labels), dict(message.annotations))


def encode_instance(instance: CloudInstance) -> cloud_wire.Instance:
    """A machine of a group."""
    error = instance.error
    info = None
    if error is not None:
        number = OUT_OF_RESOURCES if error.out_of_resources else _OTHER
        info = cloud_wire.InstanceErrorInfo(errorCode=error.code, errorMessage=error.message, instanceErrorClass=number)
    status = cloud_wire.InstanceStatus(instanceState=INSTANCE_STATES[instance.state], errorInfo=info)
    return cloud_wire.Instance(id=instance.id, status=status)


def encode_options(options: NodeGroupOptions | None) -> cloud_wire.NodeGroupAutoscalingOptions | None:
    """How a group is treated."""
    if options is None:
        return None
    return cloud_wire.NodeGroupAutoscalingOptions(
        scaleDownUtilizationThreshold=options.scale_down_utilization,
        scaleDownGpuUtilizationThreshold=options.scale_down_gpu_utilization,
        zeroOrMaxNodeScaling=options.zero_or_max,
        ignoreDaemonSetsUtilization=options.ignore_daemon_sets,
        scaleDownUnneededDuration=_duration(options.unneeded),
        scaleDownUnreadyDuration=_duration(options.unready),
        MaxNodeProvisionDuration=_duration(options.provisioning),
    )


def decode_options(message: cloud_wire.NodeGroupAutoscalingOptions) -> NodeGroupOptions:
    """How groups are treated that say nothing of their own."""
    return NodeGroupOptions(
        message.scaleDownUtilizationThreshold,
        message.scaleDownGpuUtilizationThreshold,
        message.zeroOrMaxNodeScaling,
        message.ignoreDaemonSetsUtilization,
        *(
            _nanoseconds(getattr(message, name)) if message.HasField(name) else None
            for name in ("scaleDownUnneededDuration", "scaleDownUnreadyDuration", "MaxNodeProvisionDuration")
        ),
    )


def encode_gpu_types(types: Iterable[str]) -> cloud_wire.GetAvailableGPUTypesResponse:
    """Types as keys; what they stand for is nobody's business."""
    return cloud_wire.GetAvailableGPUTypesResponse(gpuTypes={name: AnyMessage() for name in types})


def hours_between(start: Timestamp, end: Timestamp) -> float:
    """Hours from one moment to another."""
    return (_nanoseconds(end) - _nanoseconds(start)) / _HOUR


def validate_slices_field(number: int) -> int:
    """A field number for the slices of a template, 0 for none. Raises ValueError for one that cannot be it."""
    taken = {field.number for field in cloud_wire.NodeGroupTemplateNodeInfoResponse.DESCRIPTOR.fields}
    if not 0 <= number <= _MAX_NUMBER or number in _RESERVED_NUMBERS or number in taken:
        raise ValueError(f"{number} cannot be the number of a field of NodeGroupTemplateNodeInfoResponse")
    return number


def encode_template(template: TemplateNode, slices_field: int = 0) -> bytes:
    """A template, with its slices if their field has a number in the autoscaler that asks; it skips what it has not."""
    node = objects.to_bytes(objects.NODE, template.node)
    data = grpc_codec.encode(cloud_wire.NodeGroupTemplateNodeInfoResponse(nodeBytes=node))
    if not slices_field:
        return data
    tag = _varint(slices_field << 3 | 2)
    bodies = (objects.to_bytes(objects.SLICE, slice_) for slice_ in template.slices)
    more = b"".join(tag + _varint(len(body)) + body for body in bodies)
    # As generated code does: by number.
    return more + data if slices_field < 2 else data + more


def _varint(number: int) -> bytes:
    found = bytearray()
    while number > 127:
        found.append(number & 127 | 128)
        number >>= 7
    return bytes((*found, number))


def _duration(nanoseconds: int | None) -> Duration | None:
    if nanoseconds is None:
        return None
    # Both parts have the sign of the whole.
    seconds, rest = divmod(abs(nanoseconds), _SECOND)
    sign = -1 if nanoseconds < 0 else 1
    return Duration(seconds=sign * seconds, nanos=sign * rest)


def _nanoseconds(message: Duration | Timestamp) -> int:
    return message.seconds * _SECOND + message.nanos


# --- the expander ----------------------------------------------------------------------------------------------------


def decode_expander_request(
    request: expander_wire.BestOptionsRequest,
) -> tuple[tuple[ExpansionOption, ...], dict[str, Tree]]:
    """Options and nodes of a question. Raises `objects.Unreadable`."""
    pods: dict[bytes, Tree] = {}

    def pod(data: bytes) -> Tree:
        # A pod that several groups would help is sent with each of them.
        if data not in pods:
            pods[data] = objects.from_bytes(objects.POD, data)
        return pods[data]

    options = tuple(
        ExpansionOption(option.nodeGroupId, option.nodeCount, option.debug, tuple(map(pod, option.podBytes)))
        for option in request.options
    )
    return options, {group: objects.from_bytes(objects.NODE, data) for group, data in request.nodeBytesMap.items()}


def encode_best_options(options: Sequence[ExpansionOption], best: Iterable[str]) -> expander_wire.BestOptionsResponse:
    """The options of these groups, without their pods, which nobody reads."""
    known = {option.group: option for option in options}
    return expander_wire.BestOptionsResponse(
        options=[
            expander_wire.Option(nodeGroupId=group, nodeCount=known[group].nodes, debug=known[group].debug)
            for group in best
        ]
    )
