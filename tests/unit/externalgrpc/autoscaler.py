"""cluster-autoscaler's side of the two protocols: encoding of requests, decoding of answers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from allotment.externalgrpc import encoding, objects
from allotment.externalgrpc.cloud_provider import CloudInstance, CloudNodeGroup, InstanceError, NodeRef
from allotment.externalgrpc.expander import ExpansionOption
from allotment.externalgrpc.wire import cloud_provider_pb2 as cloud_wire
from allotment.externalgrpc.wire import expander_pb2 as expander_wire
from allotment.model.trees import Tree

_STATES: Final = {number: name for name, number in encoding.INSTANCE_STATES.items()}


def decode_node_group(message: cloud_wire.NodeGroup) -> CloudNodeGroup | None:
    """Return a group, or None for a message without ID."""
    return CloudNodeGroup(message.id, message.minSize, message.maxSize, message.debug) if message.id else None


def encode_node(node: NodeRef) -> cloud_wire.ExternalGrpcNode:
    return cloud_wire.ExternalGrpcNode(
        providerID=node.provider_id, name=node.name, labels=node.labels, annotations=node.annotations
    )


def decode_instance(message: cloud_wire.Instance) -> CloudInstance:
    info = message.status.errorInfo
    error = None
    if info.errorCode:
        error = InstanceError(info.errorCode, info.errorMessage, info.instanceErrorClass == encoding.OUT_OF_RESOURCES)
    return CloudInstance(message.id, _STATES[message.status.instanceState], error)


def encode_expander_request(
    options: Iterable[ExpansionOption], nodes: Mapping[str, Tree]
) -> expander_wire.BestOptionsRequest:
    return expander_wire.BestOptionsRequest(
        options=[
            expander_wire.Option(
                nodeGroupId=option.group,
                nodeCount=option.nodes,
                debug=option.debug,
                podBytes=[objects.to_bytes(objects.POD, pod) for pod in option.pods],
            )
            for option in options
        ],
        nodeBytesMap={group: objects.to_bytes(objects.NODE, node) for group, node in nodes.items()},
    )
