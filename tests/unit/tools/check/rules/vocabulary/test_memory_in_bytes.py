"""V316: amounts of memory without a unit."""

from __future__ import annotations

import pytest

from allotment.tools.check.rules.vocabulary import memory_in_bytes
from tests.unit.tools.check.rules.vocabulary.rule_results import fixed_document, fixed_expressions, selector_messages

RULE = memory_in_bytes.RULE
MEMORY = 'device.capacity["gpu.nvidia.com"].memory'
SHARE = """\
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: part}
spec:
  devices:
    requests:
    - name: gpu
      exactly:
        deviceClassName: gpu.nvidia.com
        capacity: {requests: {memory: 10240}}
"""


@pytest.mark.parametrize(("written", "intended"), [("81920", "81920Mi"), ("80", "80Gi")])
def test_small_number_of_bytes_is_reported(written: str, intended: str) -> None:
    condition = f'{MEMORY}.compareTo(quantity("{written}")) >= 0'
    assert selector_messages(RULE, condition) == [
        ("warning", f"{written} without a unit is {written} bytes: did you mean {intended}?")
    ]
    assert fixed_expressions(RULE, condition) == [condition.replace(written, intended)]


def test_amount_of_a_share() -> None:
    (request,) = fixed_document(RULE, SHARE)["spec"]["devices"]["requests"]
    assert request["exactly"]["capacity"] == {"requests": {"memory": "10240Mi"}}


@pytest.mark.parametrize("written", ["85899345920", "80Gi", "0", "1e9", "1048576"])
def test_clear_amounts_are_not_reported(written: str) -> None:
    assert selector_messages(RULE, f'{MEMORY}.compareTo(quantity("{written}")) >= 0') == []


def test_numbers_of_processors_have_no_unit() -> None:
    assert selector_messages(RULE, 'device.capacity["gpu.nvidia.com"].multiprocessors >= quantity("108")') == []
    assert selector_messages(RULE, 'device.capacity["gpu.nvidia.com"].memorySlice3 == quantity("1")') == []
