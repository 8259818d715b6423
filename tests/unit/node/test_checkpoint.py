"""The checkpoint of prepared claims in the kubelet's format."""

from __future__ import annotations

import json
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allotment.kubelet_plugin.messages import PreparedDevice
from allotment.node.checkpoint import ClaimRecord, CorruptCheckpoint, decode, encode

_DEVICES = st.builds(
    PreparedDevice, st.lists(st.text(max_size=4), max_size=2).map(tuple), st.text(max_size=4), st.text(max_size=4),
    st.lists(st.text(max_size=8), max_size=2).map(tuple), st.text(max_size=4),
)  # fmt: skip
_RECORDS = st.builds(
    ClaimRecord, st.text(max_size=4), st.text(max_size=4), st.text(max_size=4), st.frozensets(st.text(max_size=4)),
    st.dictionaries(st.text(max_size=4), st.lists(_DEVICES, max_size=2).map(tuple), max_size=2), st.just({}),
)  # fmt: skip


@given(st.lists(_RECORDS, max_size=3).map(tuple))
def test_a_checkpoint_round_trips(records: tuple[ClaimRecord, ...]) -> None:
    assert decode(encode(records)) == records


def test_the_format_is_the_kubelets() -> None:
    device = PreparedDevice(("gpu",), "n1", "gpu-0", ("k8s.gpu.example.com/claim=u-gpu-0",))
    outer = json.loads(encode([ClaimRecord("ns", "gpu", "u", frozenset(["p"]), {"gpu.example.com": (device,)})]))
    assert outer["Checksum"] == zlib.crc32(outer["Data"].encode())
    assert outer["Data"] == (
        '{"kind":"DRACheckpoint","apiVersion":"checkpoint.dra.kubelet.k8s.io/v1","ClaimInfoStateList":[{"ClaimUID":"u",'
        '"ClaimName":"gpu","Namespace":"ns","PodUIDs":{"p":{}},"DriverState":{"gpu.example.com":{"Devices":[{'
        '"PoolName":"n1","DeviceName":"gpu-0","ShareID":null,"RequestNames":["gpu"],'
        '"CDIDeviceIDs":["k8s.gpu.example.com/claim=u-gpu-0"]}]}}}]}'
    )


def test_skipped_operations_are_recorded_as_by_the_kubelet() -> None:
    record = ClaimRecord("ns", "gpu", "u", frozenset(["p"]), {"a": (), "b": ()}, {"a": ("*",)})
    data = json.loads(encode([record]))["Data"]
    assert '"DriverState":{"a":{"Devices":null,"skipNodeOperations":["*"]},"b":{"Devices":null}}' in data
    assert decode(encode([record])) == (record,)


@pytest.mark.parametrize(
    "content", [b"", b"[]", b'{"Data":"{}"}', b'{"Data":"{}","Checksum":0}', b'{"Data":7,"Checksum":0}']
)
def test_other_content_is_corrupt(content: bytes) -> None:
    with pytest.raises(CorruptCheckpoint):
        decode(content)
