"""The committed code is the output of ``scripts/protos``."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

from allotment.externalgrpc import wire
from allotment.externalgrpc.wire import cloud_provider_pb2, expander_pb2
from tests.unit.kubelet_plugin.test_protos import ROOT, needs_tools, pinned

COMMITTED = Path(wire.__file__).parent


@needs_tools
def test_generation_is_reproducible(tmp_path: Path) -> None:
    if version("grpcio-tools") != pinned():
        pytest.skip(f"grpcio-tools {version('grpcio-tools')} is installed, the code is made by {pinned()}")
    subprocess.run([ROOT / "scripts" / "protos", tmp_path], check=True, env={**os.environ, "PYTHON": sys.executable})
    made = {path.name: path.read_text() for path in (tmp_path / "allotment/externalgrpc/wire").iterdir()}
    assert made == {path.name: path.read_text() for path in COMMITTED.glob("*_pb2.py*")}


def test_service_and_method_names() -> None:
    cloud = cloud_provider_pb2.DESCRIPTOR.services_by_name["CloudProvider"]
    assert cloud.full_name == "clusterautoscaler.cloudprovider.v1.externalgrpc.CloudProvider"
    assert len(cloud.methods) == 15
    expander = expander_pb2.DESCRIPTOR.services_by_name["Expander"]
    assert (expander.full_name, [method.name for method in expander.methods]) == (
        "grpcplugin.Expander",
        ["BestOptions"],
    )


def test_field_numbers_of_older_autoscalers_are_not_reused() -> None:
    def reserved(name: str) -> set[int]:
        module = expander_pb2 if name in expander_pb2.DESCRIPTOR.message_types_by_name else cloud_provider_pb2
        proto = module.DESCRIPTOR.message_types_by_name[name]
        used = {field.number for field in proto.fields}
        return set(range(1, max(used) + 1)) - used

    assert {name: reserved(name) for name in (
        "PricingNodePriceRequest", "PricingPodPriceRequest", "NodeGroupTemplateNodeInfoResponse",
        "NodeGroupAutoscalingOptions", "BestOptionsRequest", "Option",
    )} == {
        "PricingNodePriceRequest": {2, 3},
        "PricingPodPriceRequest": {1, 2, 3},
        "NodeGroupTemplateNodeInfoResponse": {1},
        "NodeGroupAutoscalingOptions": {3, 4, 5},
        "BestOptionsRequest": {2},
        "Option": {4},
    }  # fmt: skip
