"""``allot plan -o nodeclaims``."""

from __future__ import annotations

from decimal import Decimal

import pytest

from allotment.cli.plan.manifest_output import nodeclaims
from allotment.errors import InputError
from allotment.model.loading import load_text
from allotment.planning.report import PlannedMachine


def planned(instance: str) -> PlannedMachine:
    """A machine of a type."""
    return PlannedMachine(
        node="new-1", instance=instance, form="8xa100-40gb/static-mig=1g.5gb:7", zone="us-east-1a",
        capacity_type="spot", usd_per_hour=Decimal(1),
    )  # fmt: skip


def test_every_object_is_a_document() -> None:
    documents = load_text(nodeclaims([planned("aws/p4d.24xlarge")]), "out.yaml").documents
    assert [document.tree["kind"] for document in documents] == ["ConfigMap", "NodeClaim"]


def test_a_cloud_without_karpenter_is_an_error() -> None:
    with pytest.raises(InputError, match="no NodeClass for machines of lambda"):
        nodeclaims([planned("lambda/gpu_8x_a100")])


def test_custom_node_class_enables_any_provider() -> None:
    documents = load_text(nodeclaims([planned("lambda/gpu_8x_a100")], ["a.b/C/d"]), "out.yaml").documents
    assert documents[1].tree["spec"]["nodeClassRef"] == {"group": "a.b", "kind": "C", "name": "d"}
