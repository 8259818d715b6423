"""Both services: each method decodes its request, asks the value behind it, and answers, or fails with its status."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, TypeVar

import grpc
from google.protobuf.message import Message

from allotment import grpc_codec
from allotment.externalgrpc import encoding, errors
from allotment.externalgrpc.cloud_provider import CloudProvider
from allotment.externalgrpc.expander import Chooser
from allotment.externalgrpc.objects import POD, Unreadable, from_bytes
from allotment.externalgrpc.wire import cloud_provider_pb2 as cloud_wire
from allotment.externalgrpc.wire import expander_pb2 as expander_wire

log = logging.getLogger(__name__)

_Context = grpc.aio.ServicerContext[Any, Any]
_M = TypeVar("_M", bound=Message)
if TYPE_CHECKING:
    # Generic to the type checker only.
    Service = grpc.GenericRpcHandler[Any, Any]
    _Handler = grpc.RpcMethodHandler[Any, Any]

CODES: Final[Mapping[type[errors.CallFailed], grpc.StatusCode]] = {
    errors.NotFound: grpc.StatusCode.NOT_FOUND,
    errors.InvalidArgument: grpc.StatusCode.INVALID_ARGUMENT,
    errors.NotNow: grpc.StatusCode.FAILED_PRECONDITION,
    errors.OutOfResources: grpc.StatusCode.RESOURCE_EXHAUSTED,
    errors.Denied: grpc.StatusCode.PERMISSION_DENIED,
    errors.Unavailable: grpc.StatusCode.UNAVAILABLE,
    errors.NotServed: grpc.StatusCode.UNIMPLEMENTED,
}


def cloud_provider_service(provider: CloudProvider, slices_field: int = 0) -> Service:
    """The service ``CloudProvider``. ``slices_field``: number of a template's slices in the autoscaler, 0 for none."""
    wire = cloud_wire

    async def groups(_: wire.NodeGroupsRequest) -> Message:
        return wire.NodeGroupsResponse(nodeGroups=map(encoding.group_message, await provider.groups()))

    async def group_for_node(request: wire.NodeGroupForNodeRequest) -> Message:
        found = await provider.group_of(encoding.node_of(request.node))
        return wire.NodeGroupForNodeResponse(nodeGroup=encoding.group_message(found))

    async def node_price(request: wire.PricingNodePriceRequest) -> Message:
        hours = encoding.hours(request.startTimestamp, request.endTimestamp)
        return wire.PricingNodePriceResponse(price=await provider.node_price(encoding.node_of(request.node), hours))

    async def pod_price(request: wire.PricingPodPriceRequest) -> Message:
        hours = encoding.hours(request.startTimestamp, request.endTimestamp)
        return wire.PricingPodPriceResponse(price=await provider.pod_price(from_bytes(POD, request.pod_bytes), hours))

    async def gpu_label(_: wire.GPULabelRequest) -> Message:
        return wire.GPULabelResponse(label=await provider.gpu_label())

    async def gpu_types(_: wire.GetAvailableGPUTypesRequest) -> Message:
        return encoding.gpu_types_response(await provider.gpu_types())

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
            raise errors.InvalidArgument(f"size increase must be positive, found {request.delta}")
        await provider.increase(request.id, request.delta)
        return wire.NodeGroupIncreaseSizeResponse()

    async def delete(request: wire.NodeGroupDeleteNodesRequest) -> Message:
        await provider.delete(request.id, tuple(map(encoding.node_of, request.nodes)))
        return wire.NodeGroupDeleteNodesResponse()

    async def decrease(request: wire.NodeGroupDecreaseTargetSizeRequest) -> Message:
        if request.delta >= 0:
            raise errors.InvalidArgument(f"size decrease must be negative, found {request.delta}")
        await provider.take_back(request.id, -request.delta)
        return wire.NodeGroupDecreaseTargetSizeResponse()

    async def nodes(request: wire.NodeGroupNodesRequest) -> Message:
        found = await provider.instances(request.id)
        return wire.NodeGroupNodesResponse(instances=map(encoding.instance_message, found))

    async def template(request: wire.NodeGroupTemplateNodeInfoRequest) -> bytes:
        return encoding.template_response(await provider.template(request.id), slices_field)

    async def options(request: wire.NodeGroupAutoscalingOptionsRequest) -> Message:
        found = await provider.options(request.id, encoding.options_of(request.defaults))
        return wire.NodeGroupAutoscalingOptionsResponse(nodeGroupAutoscalingOptions=encoding.options_message(found))

    methods = {
        "NodeGroups": _method(wire.NodeGroupsRequest, groups),
        "NodeGroupForNode": _method(wire.NodeGroupForNodeRequest, group_for_node),
        "PricingNodePrice": _method(wire.PricingNodePriceRequest, node_price),
        "PricingPodPrice": _method(wire.PricingPodPriceRequest, pod_price),
        "GPULabel": _method(wire.GPULabelRequest, gpu_label),
        "GetAvailableGPUTypes": _method(wire.GetAvailableGPUTypesRequest, gpu_types),
        "Cleanup": _method(wire.CleanupRequest, cleanup),
        "Refresh": _method(wire.RefreshRequest, refresh),
        "NodeGroupTargetSize": _method(wire.NodeGroupTargetSizeRequest, target_size),
        "NodeGroupIncreaseSize": _method(wire.NodeGroupIncreaseSizeRequest, increase),
        "NodeGroupDeleteNodes": _method(wire.NodeGroupDeleteNodesRequest, delete),
        "NodeGroupDecreaseTargetSize": _method(wire.NodeGroupDecreaseTargetSizeRequest, decrease),
        "NodeGroupNodes": _method(wire.NodeGroupNodesRequest, nodes),
        "NodeGroupTemplateNodeInfo": _method(wire.NodeGroupTemplateNodeInfoRequest, template),
        "NodeGroupGetOptions": _method(wire.NodeGroupAutoscalingOptionsRequest, options),
    }
    return grpc.method_handlers_generic_handler(encoding.CLOUD_PROVIDER, methods)


def expander_service(chooser: Chooser) -> Service:
    """The service ``Expander``."""

    async def best_options(request: expander_wire.BestOptionsRequest) -> Message:
        options, nodes = encoding.asked(request)
        return encoding.best_options_response(options, await chooser.best(options, nodes))

    methods = {"BestOptions": _method(expander_wire.BestOptionsRequest, best_options)}
    return grpc.method_handlers_generic_handler(encoding.EXPANDER, methods)


def _method(kind: type[_M], answer: Callable[[_M], Awaitable[Message | bytes]]) -> _Handler:
    async def handle(request: bytes, context: _Context) -> bytes:
        try:
            answered = await answer(grpc_codec.decode(kind, request))
            return answered if isinstance(answered, bytes) else grpc_codec.encode(answered)
        except grpc_codec.Garbled as error:
            await context.abort(grpc.StatusCode.INTERNAL, str(error))
        except Unreadable as error:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, grpc_codec.fitting(str(error)))
        except errors.CallFailed as error:
            await context.abort(CODES.get(type(error), grpc.StatusCode.UNKNOWN), grpc_codec.fitting(str(error)))
        except Exception as error:
            log.exception("A call of cluster-autoscaler failed for an unexpected reason")
            await context.abort(grpc.StatusCode.INTERNAL, grpc_codec.fitting(f"{type(error).__name__}: {error}"))

    return grpc.unary_unary_rpc_method_handler(handle)
