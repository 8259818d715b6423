"""Messages are byte for byte those of upstream's types, and round-trip.

Each recorded line has a message's values and its bytes from Go, with sorted maps: messages of the code that
cluster-autoscaler generates from its contracts (kubernetes/autoscaler at 55c37cd5, sigs.k8s.io/cluster-autoscaler at
6e285e0f), objects of k8s.io/api v0.36.2.
"""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from google.protobuf import json_format
from google.protobuf.message import Message
from google.protobuf.unknown_fields import UnknownFieldSet
from hypothesis import given
from hypothesis import strategies as st

from allotment import grpc_codec
from allotment.externalgrpc import encoding, objects
from allotment.externalgrpc.cloud_provider import (
    CloudInstance,
    CloudNodeGroup,
    InstanceError,
    NodeGroupOptions,
    NodeRef,
    TemplateNode,
)
from allotment.externalgrpc.objects import InvalidObject, ObjectKind
from allotment.externalgrpc.wire import cloud_provider_pb2, expander_pb2
from tests.unit.externalgrpc import autoscaler

RECORDED: list[dict[str, Any]] = json.loads(Path(__file__).with_name("messages.json").read_text("utf-8"))
KINDS: dict[str, ObjectKind] = {
    "v1.Pod": objects.POD,
    "v1.Node": objects.NODE,
    "resource.k8s.io/v1.ResourceSlice": objects.SLICE,
}
MESSAGES = [line for line in RECORDED if line["message"] not in KINDS]
OBJECTS = [line for line in RECORDED if line["message"] in KINDS]


def name(line: dict[str, Any]) -> str:
    return f"{line['message'].rpartition('.')[2]}: {line['what'] or 'empty'}"


def kind_of(line: dict[str, Any]) -> type[Message]:
    package, _, message = line["message"].rpartition(".")
    module = expander_pb2 if package == "grpcplugin" else cloud_provider_pb2
    kind: type[Message] = getattr(module, message)
    return kind


@pytest.mark.parametrize("line", MESSAGES, ids=name)
def test_messages_round_trip_as_in_upstream(line: dict[str, Any]) -> None:
    message = json_format.ParseDict(line["values"], kind_of(line)())
    assert grpc_codec.encode(message).hex() == line["hex"]
    read = grpc_codec.decode(kind_of(line), bytes.fromhex(line["hex"]))
    assert read == message
    assert not unknown(read)


def unknown(message: Message) -> list[tuple[int, int, bytes]]:
    fields = UnknownFieldSet(message)
    return [(f.field_number, f.wire_type, f.data) for f in (fields[at] for at in range(len(fields)))]


def test_every_message_of_both_contracts_was_recorded() -> None:
    defined = {
        message.full_name
        for module in (cloud_provider_pb2, expander_pb2)
        for message in module.DESCRIPTOR.message_types_by_name.values()
    }
    recorded = {line["message"] for line in MESSAGES}
    # These three are part of "in all states".
    assert {full.rpartition(".")[2] for full in defined - recorded} == {
        "Instance",
        "InstanceStatus",
        "InstanceErrorInfo",
    }


@pytest.mark.parametrize("line", OBJECTS, ids=name)
def test_objects_round_trip_as_in_go(line: dict[str, Any]) -> None:
    kind: ObjectKind = KINDS[line["message"]]
    data = objects.to_bytes(kind, line["values"])
    assert data.hex() == line["hex"]
    tree = objects.from_bytes(kind, data)
    assert ObjectKind(tree["apiVersion"], tree["kind"]) == kind
    assert objects.to_bytes(kind, tree) == data


def test_objects_have_neither_magic_bytes_nor_envelope() -> None:
    node = objects.to_bytes(objects.NODE, {"metadata": {"name": "a"}})
    assert not node.startswith(b"k8s")
    # Field 1 is the metadata, whose field 1 is the name.
    assert node[0] == 0x0A
    assert node[2:5] == b"\n\x01a"


def test_invalid_objects_are_reported() -> None:
    with pytest.raises(InvalidObject, match="no Pod"):
        objects.from_bytes(objects.POD, b"\xff\xff\xff")


# --- values -----------------------------------------------------------------------------------------------------------


def recorded(message: str, case: str) -> bytes:
    return next(bytes.fromhex(x["hex"]) for x in MESSAGES if x["message"].endswith(f".{message}") and x["what"] == case)


GROUP = CloudNodeGroup("aws/g5.xlarge/eu-central-1a/on-demand", 1, 300, "0.526 USD/h")
INSTANCES = (
    CloudInstance("a", "running"),
    CloudInstance("b", "creating"),
    CloudInstance("c", "deleting"),
    CloudInstance("d"),
    CloudInstance("e", "creating", InstanceError("OUT", "none left", out_of_resources=True)),
    CloudInstance("f", "creating", InstanceError("ODD", "who knows")),
)
OPTIONS = NodeGroupOptions(0.5, 0.25, True, True, 600 * 10**9, 90 * 10**9 + 5, -1_500_000_000)


def test_groups() -> None:
    data = recorded("NodeGroup", "all of it")
    assert grpc_codec.encode(encoding.encode_node_group(GROUP)) == data
    assert autoscaler.decode_node_group(grpc_codec.decode(cloud_provider_pb2.NodeGroup, data)) == GROUP
    assert grpc_codec.encode(encoding.encode_node_group(None)) == b""
    assert autoscaler.decode_node_group(cloud_provider_pb2.NodeGroup()) is None


def test_nodes() -> None:
    data = recorded("ExternalGrpcNode", "all of it")
    node = encoding.decode_node(grpc_codec.decode(cloud_provider_pb2.ExternalGrpcNode, data))
    assert node.provider_id == "aws:///eu-central-1a/i-0a1b"
    assert node.labels["b/c"] == "ü"
    assert grpc_codec.encode(autoscaler.encode_node(node)) == data


def test_instances_in_all_states() -> None:
    data = recorded("NodeGroupNodesResponse", "in all states")
    response = cloud_provider_pb2.NodeGroupNodesResponse(instances=map(encoding.encode_instance, INSTANCES))
    assert grpc_codec.encode(response) == data
    read = grpc_codec.decode(cloud_provider_pb2.NodeGroupNodesResponse, data)
    assert tuple(map(autoscaler.decode_instance, read.instances)) == INSTANCES


def test_options() -> None:
    data = recorded("NodeGroupAutoscalingOptions", "all of them")
    assert encoding.decode_options(grpc_codec.decode(cloud_provider_pb2.NodeGroupAutoscalingOptions, data)) == OPTIONS
    message = encoding.encode_options(OPTIONS)
    assert message is not None
    assert grpc_codec.encode(message) == data
    zero = encoding.encode_options(NodeGroupOptions(unneeded=0))
    assert zero is not None
    assert grpc_codec.encode(zero) == recorded("NodeGroupAutoscalingOptions", "times of zero")
    assert encoding.encode_options(None) is None


def test_hours_are_fractional() -> None:
    request = grpc_codec.decode(
        cloud_provider_pb2.PricingNodePriceRequest, recorded("PricingNodePriceRequest", "an hour and a half")
    )
    assert encoding.hours_between(request.startTimestamp, request.endTimestamp) == 1.5


def test_gpu_types() -> None:
    response = encoding.encode_gpu_types(("H100", "T4", "A10G"))
    assert grpc_codec.encode(response) == recorded("GetAvailableGPUTypesResponse", "types")


NODE = next(line["values"] for line in OBJECTS if line["message"] == "v1.Node" and line["what"] == "a node")
POD = next(line["values"] for line in OBJECTS if line["message"] == "v1.Pod" and line["what"] == "a pod with a claim")
SLICE = next(line["values"] for line in OBJECTS if line["message"].endswith("ResourceSlice"))


def test_a_template_contains_the_node() -> None:
    template = TemplateNode(NODE, (SLICE,))
    assert encoding.encode_template(template) == recorded("NodeGroupTemplateNodeInfoResponse", "a node")


@pytest.mark.parametrize("number", [1, 3, 16, 4000])
def test_slices_are_in_the_configured_field(number: int) -> None:
    template = TemplateNode(NODE, (SLICE, SLICE))
    data = encoding.encode_template(template, number)
    message = grpc_codec.decode(cloud_provider_pb2.NodeGroupTemplateNodeInfoResponse, data)
    # An autoscaler without the field ignores the slices.
    assert message.nodeBytes == objects.to_bytes(objects.NODE, NODE)
    assert unknown(message) == [(number, 2, objects.to_bytes(objects.SLICE, SLICE))] * 2


@pytest.mark.parametrize("number", [-1, 2, 19_000, 19_999, 2**29])
def test_an_invalid_field_number_is_rejected(number: int) -> None:
    with pytest.raises(ValueError, match="is not available as a field number"):
        encoding.validate_slices_field(number)


def test_an_expander_request_round_trips() -> None:
    data = recorded("BestOptionsRequest", "two options")
    options, nodes = encoding.decode_expander_request(grpc_codec.decode(expander_pb2.BestOptionsRequest, data))
    assert [(option.group, option.nodes, len(option.pods)) for option in options] == [(GROUP.id, 2, 2), ("b", 1, 0)]
    assert options[0].pods[0]["status"]["resourceClaimStatuses"] == [
        {"name": "gpu", "resourceClaimName": "train-0-gpu-x7k2p"}
    ]
    assert set(nodes) == {GROUP.id, "b"}
    assert grpc_codec.encode(autoscaler.encode_expander_request(options, nodes)) == data
    answer = encoding.encode_best_options(options, ["b"])
    assert grpc_codec.encode(answer) == recorded("BestOptionsResponse", "one of them")


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)


@given(st.builds(NodeRef, texts, texts, st.dictionaries(texts, texts), st.dictionaries(texts, texts)))
def test_nodes_round_trip(node: NodeRef) -> None:
    data = grpc_codec.encode(autoscaler.encode_node(node))
    assert encoding.decode_node(grpc_codec.decode(cloud_provider_pb2.ExternalGrpcNode, data)) == node


@given(
    st.builds(
        NodeGroupOptions,
        st.floats(0, 1),
        st.floats(0, 1),
        st.booleans(),
        st.booleans(),
        *[st.none() | st.integers(-(10**18), 10**18)] * 3,
    )
)
def test_options_round_trip(options: NodeGroupOptions) -> None:
    message = encoding.encode_options(options)
    assert message is not None
    read = grpc_codec.decode(cloud_provider_pb2.NodeGroupAutoscalingOptions, grpc_codec.encode(message))
    assert encoding.decode_options(read) == options


@given(st.binary(max_size=60))
def test_invalid_bytes_never_crash(data: bytes) -> None:
    with suppress(grpc_codec.InvalidMessage, InvalidObject):
        encoding.decode_expander_request(grpc_codec.decode(expander_pb2.BestOptionsRequest, data))
    with suppress(InvalidObject):
        (option,), _ = encoding.decode_expander_request(
            expander_pb2.BestOptionsRequest(options=[expander_pb2.Option(podBytes=[data])])
        )
        assert [pod["kind"] for pod in option.pods] == ["Pod"]
