"""The history of a lab: a line for each revision."""

from __future__ import annotations

from allotment.screens.history import history, what_changed
from tests.unit.screens.clusters import fleet, pod, template, view

MACHINES = fleet("t4-4x-pcie")
NODE = "t4-4x-pcie-1"


def test_each_revision_says_what_changed() -> None:
    first = view(*MACHINES)
    second = view(*MACHINES, template(), *pod("a"), revision=2)
    third = view(*MACHINES, template(), *pod("a", "gpu-0", node=NODE), revision=3)
    fourth = view(*MACHINES, template(), revision=4)
    texts = [each.text for each in history(fourth, (first, second, third)).revisions]
    assert texts == [
        "the beginning of what is kept",
        "created ResourceClaimTemplate ml/gpu, ResourceClaim ml/a-gpu-x1, Pod ml/a",
        "placed Pod ml/a; allocated ResourceClaim ml/a-gpu-x1",
        "deleted ResourceClaim ml/a-gpu-x1, Pod ml/a",
    ]


def test_a_revision_without_differences() -> None:
    assert what_changed(view(*MACHINES), view(*MACHINES, revision=2)) == "nothing that matters to devices"
