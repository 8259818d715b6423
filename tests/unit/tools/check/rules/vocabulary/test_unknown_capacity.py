"""V302: capacities that a driver does not publish."""

from __future__ import annotations

from allotment.tools.check.rules.vocabulary import unknown_capacity
from tests.unit.tools.check.rules.vocabulary.rule_results import (
    claim,
    fixed_document,
    fixed_expressions,
    levels_and_messages,
    selector_messages,
)

RULE = unknown_capacity.RULE
NVIDIA = 'device.capacity["gpu.nvidia.com"]'


def test_commonly_mistaken_name_is_replaced() -> None:
    assert selector_messages(RULE, f'{NVIDIA}.gpuMemory.isGreaterThan(quantity("30Gi"))') == [
        ("warning", 'gpu.nvidia.com publishes no capacity "gpuMemory": did you mean "memory"?')
    ]
    assert fixed_expressions(RULE, f'{NVIDIA}.vram.isGreaterThan(quantity("30Gi"))') == [
        f'{NVIDIA}.memory.isGreaterThan(quantity("30Gi"))'
    ]


def test_published_capacities_are_not_reported() -> None:
    assert selector_messages(RULE, f'{NVIDIA}.memory.isGreaterThan(quantity("30Gi"))') == []
    assert (
        selector_messages(
            RULE, 'device.capacity["gpu.amd.com"].computeUnits == quantity("304")', class_name="gpu.amd.com"
        )
        == []
    )


def test_slices_are_the_complete_set_of_names() -> None:
    assert selector_messages(RULE, f'{NVIDIA}.bandwidth.isGreaterThan(quantity("1"))', fleet="t4-4x-pcie") == [
        ("error", 'no device in the cluster has capacity "bandwidth" in gpu.nvidia.com')
    ]


def test_capacity_requests() -> None:
    share = claim("", class_name="net.example.com", devices_extra="        capacity: {{requests: {{{name}: 1G}}}}\n")
    for name in ("ingressBandwidth", "net.example.com/ingressBandwidth", "other.example.com/anything"):
        assert levels_and_messages(RULE, share.format(name=name)) == []
    message = 'net.example.com publishes no capacity "ingresBandwidth", so no device has enough of it'
    assert levels_and_messages(RULE, share.format(name="ingresBandwidth")) == [
        ("warning", f'{message}: did you mean "ingressBandwidth"?')
    ]
    request = fixed_document(RULE, share.format(name="ingresBandwidth"))["spec"]["devices"]["requests"][0]["exactly"]
    assert request["capacity"] == {"requests": {"ingressBandwidth": "1G"}}


def test_capacity_requests_in_a_cluster() -> None:
    share = claim("", devices_extra="        capacity: {requests: {shares: 1}}\n")
    assert levels_and_messages(RULE, share) == []
    assert [level for level, _ in levels_and_messages(RULE, share, fleet="8xh100")] == ["error"]
    assert levels_and_messages(RULE, share, fleet="8xh100/consumable-shares=4") == []
