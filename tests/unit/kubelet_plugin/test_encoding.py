"""Messages are byte for byte those of upstream's types (k8s.io/kubelet v0.37.2), and round-trip.

Each recorded line has the values and the bytes from Go, with sorted maps.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.message import Message
from hypothesis import given
from hypothesis import strategies as st

from allotment import grpc_codec
from allotment.kubelet_plugin import encoding
from allotment.kubelet_plugin.encoding import V1, V1BETA1, VERSIONS, Version
from allotment.kubelet_plugin.messages import ClaimRef, DeviceHealth, PreparedDevice, PrepareResult
from allotment.kubelet_plugin.wire import registration_pb2

RECORDED: list[dict[str, Any]] = json.loads(Path(__file__).with_name("messages.json").read_text("utf-8"))
NAMED = {"v1": V1, "v1beta1": V1BETA1}
HEALTH_NAMED = {"v1": encoding.HEALTH_V1, "v1alpha1": encoding.HEALTH_V1ALPHA1}


def claims(values: Any) -> tuple[ClaimRef, ...]:
    return tuple(ClaimRef(*value) for value in values)


def prepared(values: Any) -> dict[str, PrepareResult]:
    return {
        uid: PrepareResult(
            tuple(
                PreparedDevice(tuple(d["requests"]), d["pool"], d["device"], tuple(d["cdi_ids"]), d["share_id"])
                for d in answer["devices"]
            ),
            answer["error"],
        )
        for uid, answer in values.items()
    }


def message_of(package: str, name: str, values: Any) -> Message:
    """Return the message for recorded values."""
    if name.endswith("Request"):
        return encoding.encode_claims(NAMED[package], name.removesuffix("Request"), claims(values))
    if name == "NodePrepareResourcesResponse":
        return encoding.encode_prepare_response(NAMED[package], prepared(values))
    if name == "NodeUnprepareResourcesResponse":
        return encoding.encode_unprepare_response(NAMED[package], values)
    if name == "NodeWatchResourcesResponse":
        return encoding.encode_health(HEALTH_NAMED[package], [DeviceHealth(**value) for value in values])
    message: Message = getattr(registration_pb2, name)(**values)
    return message


def values_of(package: str, name: str, data: bytes) -> Any:
    """Return the values of recorded bytes."""
    if name == "NodeWatchResourcesResponse":
        return encoding.decode_health(HEALTH_NAMED[package].wire.NodeWatchResourcesResponse.FromString(data))
    message = getattr(NAMED[package].wire, name).FromString(data)
    if name.endswith("Request"):
        return encoding.decode_claims(message)
    if name == "NodePrepareResourcesResponse":
        return encoding.decode_prepare_response(NAMED[package], message)
    return encoding.decode_unprepare_response(message)


def wanted(name: str, values: Any) -> Any:
    if name.endswith("Request"):
        return claims(values)
    if name == "NodePrepareResourcesResponse":
        return prepared(values)
    return tuple(DeviceHealth(**value) for value in values) if name == "NodeWatchResourcesResponse" else values


@pytest.mark.parametrize("line", RECORDED, ids=lambda line: f"{line['message']}: {line['what']}")
def test_messages_equal_the_recorded_ones_of_upstream(line: dict[str, Any]) -> None:
    package, name = line["message"].split(".")
    data = bytes.fromhex(line["hex"])
    message = message_of(package, name, line["values"])
    assert grpc_codec.encode(message).hex() == line["hex"]
    if package == "pluginregistration":
        assert type(message).FromString(data) == message
    else:
        assert values_of(package, name, data) == wanted(name, line["values"])


def test_every_message_of_the_contract_was_recorded() -> None:
    calls = {f"{c}{kind}" for c in (encoding.PREPARE, encoding.UNPREPARE) for kind in ("Request", "Response")}
    assert {line["message"] for line in RECORDED} == {
        *(f"{version}.{call}" for version in NAMED for call in calls),
        *(f"{version}.NodeWatchResourcesResponse" for version in HEALTH_NAMED),
        "pluginregistration.PluginInfo", "pluginregistration.RegistrationStatus",
    }  # fmt: skip


def test_v1beta1_answers_have_no_share_ids() -> None:
    answer = PrepareResult((PreparedDevice(("a",), "pool", "gpu-0", ("id",), "share"),))
    message = grpc_codec.encode(encoding.encode_prepare_response(V1BETA1, {"u": answer}))
    plain = PrepareResult((answer.devices[0]._replace(share_id=""),))
    assert message == grpc_codec.encode(encoding.encode_prepare_response(V1, {"u": plain}))
    assert encoding.decode_prepare_response(V1BETA1, V1BETA1.wire.NodePrepareResourcesResponse.FromString(message)) == {
        "u": plain
    }


def test_unknown_fields_and_health_values_are_accepted() -> None:
    later = grpc_codec.encode(encoding.encode_unprepare_response(V1, {"u": ""})) + bytes.fromhex("7a03616263")
    assert encoding.decode_unprepare_response(V1.wire.NodeUnprepareResourcesResponse.FromString(later)) == {"u": ""}
    state = encoding.HEALTH_V1.wire.NodeWatchResourcesResponse.FromString(bytes.fromhex("0a021007"))
    assert encoding.decode_health(state) == (DeviceHealth("", "", "Unknown", 0),)


def test_an_error_may_contain_a_file_name_that_is_not_utf_8() -> None:
    message = encoding.encode_prepare_response(V1, {"u": PrepareResult(error="no \udcff device")})
    error = encoding.decode_prepare_response(V1, message)["u"].error
    assert error.startswith("no ")
    assert error.endswith(" device")


TEXT = st.text(st.characters(codec="utf-8"), max_size=12)
TEXTS = st.lists(TEXT, max_size=3).map(tuple)
DEVICES = st.builds(PreparedDevice, TEXTS, TEXT, TEXT, TEXTS, TEXT)
ANSWERS = st.dictionaries(TEXT, st.builds(PrepareResult, st.lists(DEVICES, max_size=3).map(tuple), TEXT), max_size=4)


@given(ANSWERS, st.sampled_from(VERSIONS))
def test_answers_round_trip(answers: dict[str, PrepareResult], version: Version) -> None:
    data = grpc_codec.encode(encoding.encode_prepare_response(version, answers))
    read = encoding.decode_prepare_response(version, version.wire.NodePrepareResourcesResponse.FromString(data))
    if not version.has_share_ids:
        answers = {
            uid: PrepareResult(tuple(d._replace(share_id="") for d in answer.devices), answer.error)
            for uid, answer in answers.items()
        }
    assert read == answers
