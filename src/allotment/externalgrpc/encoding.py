"""Conversion between the messages of both protocols and the values of `cloud_provider` and `expander`."""

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

#: The full names of the services in method paths.
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
#: cluster-autoscaler's error classes.
OUT_OF_RESOURCES, _OTHER = 1, 99

#: Field numbers that protobuf reserves.
_RESERVED_NUMBERS: Final = range(19_000, 20_000)
_MAX_NUMBER: Final = 2**29 - 1


# --- the cloud provider -----------------------------------------------------------------------------------------------


def encode_node_group(group: CloudNodeGroup | None) -> cloud_wire.NodeGroup:
    """Return the message of a group, or one without id for None."""
    if group is None:
        return cloud_wire.NodeGroup()
    return cloud_wire.NodeGroup(id=group.id, minSize=group.min_size, maxSize=group.max_size, debug=group.debug)


def decode_node(message: cloud_wire.ExternalGrpcNode) -> NodeRef:
    return NodeRef(message.providerID, message.name, dict(message.labels), dict(message.annotations))


def encode_instance(instance: CloudInstance) -> cloud_wire.Instance:
    error = instance.error
    info = None
    if error is not None:
        number = OUT_OF_RESOURCES if error.out_of_resources else _OTHER
        info = cloud_wire.InstanceErrorInfo(errorCode=error.code, errorMessage=error.message, instanceErrorClass=number)
    status = cloud_wire.InstanceStatus(instanceState=INSTANCE_STATES[instance.state], errorInfo=info)
    return cloud_wire.Instance(id=instance.id, status=status)


def encode_options(options: NodeGroupOptions | None) -> cloud_wire.NodeGroupAutoscalingOptions | None:
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
    """Return a response with the types as keys; cluster-autoscaler ignores the values."""
    return cloud_wire.GetAvailableGPUTypesResponse(gpuTypes={name: AnyMessage() for name in types})


def hours_between(start: Timestamp, end: Timestamp) -> float:
    return (_nanoseconds(end) - _nanoseconds(start)) / _HOUR


def validate_slices_field(number: int) -> int:
    """Return ``number`` if it can be the field number of a template's slices; 0 means none. Raises ValueError."""
    used_numbers = {field.number for field in cloud_wire.NodeGroupTemplateNodeInfoResponse.DESCRIPTOR.fields}
    if not 0 <= number <= _MAX_NUMBER or number in _RESERVED_NUMBERS or number in used_numbers:
        raise ValueError(f"{number} is not available as a field number of NodeGroupTemplateNodeInfoResponse")
    return number


def encode_template(template: TemplateNode, slices_field: int = 0) -> bytes:
    """Return a template, with its slices if the autoscaler has a field for them; others ignore unknown fields."""
    node = objects.to_bytes(objects.NODE, template.node)
    data = grpc_codec.encode(cloud_wire.NodeGroupTemplateNodeInfoResponse(nodeBytes=node))
    if not slices_field:
        return data
    tag = _varint(slices_field << 3 | 2)
    bodies = (objects.to_bytes(objects.SLICE, slice_) for slice_ in template.slices)
    slices = b"".join(tag + _varint(len(body)) + body for body in bodies)
    # Ordered by field number, as generated code does.
    return slices + data if slices_field < 2 else data + slices


def _varint(number: int) -> bytes:
    varint = bytearray()
    while number > 127:
        varint.append(number & 127 | 128)
        number >>= 7
    return bytes((*varint, number))


def _duration(nanoseconds: int | None) -> Duration | None:
    if nanoseconds is None:
        return None
    # Both parts have the same sign.
    seconds, rest = divmod(abs(nanoseconds), _SECOND)
    sign = -1 if nanoseconds < 0 else 1
    return Duration(seconds=sign * seconds, nanos=sign * rest)


def _nanoseconds(message: Duration | Timestamp) -> int:
    return message.seconds * _SECOND + message.nanos


# --- the expander -----------------------------------------------------------------------------------------------------


def decode_expander_request(
    request: expander_wire.BestOptionsRequest,
) -> tuple[tuple[ExpansionOption, ...], dict[str, Tree]]:
    """Return the options, and the template nodes by group. Raises `objects.InvalidObject`."""
    pods: dict[bytes, Tree] = {}

    def pod(data: bytes) -> Tree:
        # A pod that fits several groups is sent with each of them.
        if data not in pods:
            pods[data] = objects.from_bytes(objects.POD, data)
        return pods[data]

    options = tuple(
        ExpansionOption(option.nodeGroupId, option.nodeCount, option.debug, tuple(map(pod, option.podBytes)))
        for option in request.options
    )
    return options, {group: objects.from_bytes(objects.NODE, data) for group, data in request.nodeBytesMap.items()}


def encode_best_options(options: Sequence[ExpansionOption], best: Iterable[str]) -> expander_wire.BestOptionsResponse:
    """Return the options of the groups ``best``, without the pods, which cluster-autoscaler does not read."""
    by_group = {option.group: option for option in options}
    return expander_wire.BestOptionsResponse(
        options=[
            expander_wire.Option(nodeGroupId=group, nodeCount=by_group[group].nodes, debug=by_group[group].debug)
            for group in best
        ]
    )
