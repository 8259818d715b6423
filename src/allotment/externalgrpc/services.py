"""The gRPC services: each method decodes its request, calls the Protocol, and encodes the result or its gRPC status."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, TypeVar

import grpc
from google.protobuf.message import Message

from allotment import grpc_codec
from allotment.externalgrpc import encoding, errors
from allotment.externalgrpc.cloud_provider import CloudProvider
from allotment.externalgrpc.expander import Expander
from allotment.externalgrpc.objects import POD, InvalidObject, from_bytes
from allotment.externalgrpc.wire import cloud_provider_pb2 as cloud_wire
from allotment.externalgrpc.wire import expander_pb2 as expander_wire

log = logging.getLogger(__name__)

_Context = grpc.aio.ServicerContext[Any, Any]
_M = TypeVar("_M", bound=Message)
if TYPE_CHECKING:
    # These classes are generic for type checkers only.
    Service = grpc.GenericRpcHandler[Any, Any]
    _Handler = grpc.RpcMethodHandler[Any, Any]

STATUS_CODES: Final[Mapping[type[errors.CallError], grpc.StatusCode]] = {
    errors.NotFoundError: grpc.StatusCode.NOT_FOUND,
    errors.InvalidArgumentError: grpc.StatusCode.INVALID_ARGUMENT,
    errors.FailedPreconditionError: grpc.StatusCode.FAILED_PRECONDITION,
    errors.ResourceExhaustedError: grpc.StatusCode.RESOURCE_EXHAUSTED,
    errors.PermissionDeniedError: grpc.StatusCode.PERMISSION_DENIED,
    errors.UnavailableError: grpc.StatusCode.UNAVAILABLE,
    errors.UnimplementedError: grpc.StatusCode.UNIMPLEMENTED,
}


def cloud_provider_service(provider: CloudProvider, slices_field: int = 0) -> Service:
    """Return the service ``CloudProvider``. ``slices_field``: the autoscaler's field number for slices, or 0."""
    wire = cloud_wire

    async def groups(_: wire.NodeGroupsRequest) -> Message:
        return wire.NodeGroupsResponse(nodeGroups=map(encoding.encode_node_group, await provider.node_groups()))

    async def group_for_node(request: wire.NodeGroupForNodeRequest) -> Message:
        group = await provider.node_group_of(encoding.decode_node(request.node))
        return wire.NodeGroupForNodeResponse(nodeGroup=encoding.encode_node_group(group))

    async def node_price(request: wire.PricingNodePriceRequest) -> Message:
        hours = encoding.hours_between(request.startTimestamp, request.endTimestamp)
        return wire.PricingNodePriceResponse(price=await provider.node_price(encoding.decode_node(request.node), hours))

    async def pod_price(request: wire.PricingPodPriceRequest) -> Message:
        hours = encoding.hours_between(request.startTimestamp, request.endTimestamp)
        return wire.PricingPodPriceResponse(price=await provider.pod_price(from_bytes(POD, request.pod_bytes), hours))

    async def gpu_label(_: wire.GPULabelRequest) -> Message:
        return wire.GPULabelResponse(label=await provider.gpu_label())

    async def gpu_types(_: wire.GetAvailableGPUTypesRequest) -> Message:
        return encoding.encode_gpu_types(await provider.gpu_types())

    async def cleanup(_: wire.CleanupRequest) -> Message:
        await provider.cleanup()
        return wire.CleanupResponse()

    async def refresh(_: wire.RefreshRequest) -> Message:
        await provider.refresh()
        return wire.RefreshResponse()

    async def target_size(request: wire.NodeGroupTargetSizeRequest) -> Message:
        return wire.NodeGroupTargetSizeResponse(targetSize=await provider.target_size(request.id))

    async def increase(request: wire.NodeGroupIncreaseSizeRequest) -> Message:
        if request.delta <= 0:
            raise errors.InvalidArgumentError(f"size increase must be positive, got {request.delta}")
        await provider.increase_size(request.id, request.delta)
        return wire.NodeGroupIncreaseSizeResponse()

    async def delete(request: wire.NodeGroupDeleteNodesRequest) -> Message:
        await provider.delete_nodes(request.id, tuple(map(encoding.decode_node, request.nodes)))
        return wire.NodeGroupDeleteNodesResponse()

    async def decrease(request: wire.NodeGroupDecreaseTargetSizeRequest) -> Message:
        if request.delta >= 0:
            raise errors.InvalidArgumentError(f"size decrease must be negative, got {request.delta}")
        await provider.decrease_target_size(request.id, -request.delta)
        return wire.NodeGroupDecreaseTargetSizeResponse()

    async def nodes(request: wire.NodeGroupNodesRequest) -> Message:
        instances = await provider.instances(request.id)
        return wire.NodeGroupNodesResponse(instances=map(encoding.encode_instance, instances))

    async def template(request: wire.NodeGroupTemplateNodeInfoRequest) -> bytes:
        return encoding.encode_template(await provider.template_node(request.id), slices_field)

    async def options(request: wire.NodeGroupAutoscalingOptionsRequest) -> Message:
        options = await provider.options(request.id, encoding.decode_options(request.defaults))
        return wire.NodeGroupAutoscalingOptionsResponse(nodeGroupAutoscalingOptions=encoding.encode_options(options))

    methods = {
        "NodeGroups": _method_handler(wire.NodeGroupsRequest, groups),
        "NodeGroupForNode": _method_handler(wire.NodeGroupForNodeRequest, group_for_node),
        "PricingNodePrice": _method_handler(wire.PricingNodePriceRequest, node_price),
        "PricingPodPrice": _method_handler(wire.PricingPodPriceRequest, pod_price),
        "GPULabel": _method_handler(wire.GPULabelRequest, gpu_label),
        "GetAvailableGPUTypes": _method_handler(wire.GetAvailableGPUTypesRequest, gpu_types),
        "Cleanup": _method_handler(wire.CleanupRequest, cleanup),
        "Refresh": _method_handler(wire.RefreshRequest, refresh),
        "NodeGroupTargetSize": _method_handler(wire.NodeGroupTargetSizeRequest, target_size),
        "NodeGroupIncreaseSize": _method_handler(wire.NodeGroupIncreaseSizeRequest, increase),
        "NodeGroupDeleteNodes": _method_handler(wire.NodeGroupDeleteNodesRequest, delete),
        "NodeGroupDecreaseTargetSize": _method_handler(wire.NodeGroupDecreaseTargetSizeRequest, decrease),
        "NodeGroupNodes": _method_handler(wire.NodeGroupNodesRequest, nodes),
        "NodeGroupTemplateNodeInfo": _method_handler(wire.NodeGroupTemplateNodeInfoRequest, template),
        "NodeGroupGetOptions": _method_handler(wire.NodeGroupAutoscalingOptionsRequest, options),
    }
    return grpc.method_handlers_generic_handler(encoding.CLOUD_PROVIDER, methods)


def expander_service(chooser: Expander) -> Service:

    async def best_options(request: expander_wire.BestOptionsRequest) -> Message:
        options, nodes = encoding.decode_expander_request(request)
        return encoding.encode_best_options(options, await chooser.best_options(options, nodes))

    methods = {"BestOptions": _method_handler(expander_wire.BestOptionsRequest, best_options)}
    return grpc.method_handlers_generic_handler(encoding.EXPANDER, methods)


def _method_handler(kind: type[_M], method: Callable[[_M], Awaitable[Message | bytes]]) -> _Handler:
    async def handle(request: bytes, context: _Context) -> bytes:
        try:
            response = await method(grpc_codec.decode(kind, request))
            return response if isinstance(response, bytes) else grpc_codec.encode(response)
        except grpc_codec.InvalidMessage as error:
            await context.abort(grpc.StatusCode.INTERNAL, str(error))
        except InvalidObject as error:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, grpc_codec.truncate_details(str(error)))
        except errors.CallError as error:
            await context.abort(
                STATUS_CODES.get(type(error), grpc.StatusCode.UNKNOWN), grpc_codec.truncate_details(str(error))
            )
        except Exception as error:
            log.exception("unexpected error in a call from cluster-autoscaler")
            await context.abort(
                grpc.StatusCode.INTERNAL, grpc_codec.truncate_details(f"{type(error).__name__}: {error}")
            )

    return grpc.unary_unary_rpc_method_handler(handle)
