"""The syntax of ``--fleet``."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allotment.fleet.description import parse_fleet
from allotment.fleet.errors import FleetError
from allotment.fleet.modes import ConsumableShares, DynamicMig, Full, Partitioned, Shared, StaticMig, Vfio


def nodes(*texts: str) -> list[str]:
    return [machine.node for machine in parse_fleet(texts)]


def test_nodes_are_numbered_over_all_entries_of_one_name() -> None:
    assert nodes("t4-4x-pcie:2,dgx-a100-40gb", "t4-4x-pcie") == [
        "t4-4x-pcie-1",
        "t4-4x-pcie-2",
        "dgx-a100-40gb-1",
        "t4-4x-pcie-3",
    ]


def test_a_mode_shows_in_the_name_and_a_given_name_wins() -> None:
    assert nodes("dgx-a100-40gb/dynamic-mig,mi300x-8x-oam/cpx,4xl4") == [
        "dgx-a100-40gb-dynamic-mig-1",
        "mi300x-8x-oam-cpx-1",
        "4xl4-1",
    ]
    assert nodes("gpu=dgx-a100-40gb,mig=dgx-a100-40gb:2/static-mig=1g.5gb:7/full") == ["gpu", "mig-1", "mig-2"]


def test_modes_are_values() -> None:
    full, fixed, dynamic, amd = parse_fleet(["a100-40gb,a100-40gb/static-mig=1g.5gb,h100/dynamic-mig,mi300x/cpx@v0"])
    assert full.mode == Full()
    assert isinstance(fixed.mode, StaticMig)
    assert [piece.start for piece in fixed.mode.layouts[0]] == [0]
    assert dynamic.mode == DynamicMig()
    assert isinstance(amd.mode, Partitioned)
    assert (amd.mode.partition.profile if amd.mode.partition else None, amd.mode.vocabulary) == ("cpx_nps1", "v0")


def test_modes_in_which_claims_share_gpus() -> None:
    texts = ["t4/shared,t4/vfio,t4/consumable-shares=memory,t4/consumable-shares=unlimited,t4/consumable-shares=4"]
    assert [machine.mode for machine in parse_fleet(texts)] == [
        Shared(), Vfio(), ConsumableShares("memory"), ConsumableShares("unlimited"), ConsumableShares(4),
    ]  # fmt: skip
    assert nodes("t4/shared,t4/vfio,t4/consumable-shares=4") == ["t4-shared-1", "t4-vfio-1", "t4-consumable-shares-1"]


@pytest.mark.parametrize(
    ("text", "problem", "hint"),
    [
        ("dgx-a10:2", "unknown hardware 'dgx-a10'", "did you mean dgx-a100-40gb"),
        ("nonsense", "unknown hardware 'nonsense'", "allot fleet list"),
        ("", "expected [NAME=]", "for example"),
        (",", "expected [NAME=]", "for example"),
        ("t4:0", "expected a number of nodes", ""),
        ("t4:many", "found 'many'", ""),
        ("t4:", "found ''", ""),
        ("4xdgx-a100-40gb", "dgx-a100-40gb is a whole server", "write dgx-a100-40gb:4"),
        ("99xt4", "expected 1 to 16 GPUs", ""),
        ("t4/dynamic-mig", "Tesla T4 does not support MIG", "use mode full"),
        ("h100/dynamic-mg", "unknown mode 'dynamic-mg'", "did you mean dynamic-mig?"),
        ("t4/consumable-shares", "from 1 to 10000, found ''", "consumable-shares=4"),
        ("t4/consumable-shares=0", "found '0'", ""),
        ("t4/consumable-shares=²", "found '²'", ""),
        ("t4/shared=2", "unknown mode 'shared=2'", "did you mean shared"),
        ("h100/static-mig", "expected a layout", "static-mig=1g.10gb:7"),
        ("h100/static-mig=full/full", "2 layouts for the 1 GPUs", ""),
        ("mi300x/cpx@v7", "expected v0 or v1", "2025"),
        ("mi300x/cpx-nps9", "does not support memory mode 'nps9' with CPX", "cpx-nps1, cpx-nps4"),
        ("mi300x/full-mig", "does not support memory mode 'mig'", "spx-nps1"),
        ("mi250x/cpx", "unknown mode 'cpx'", "spx"),
        ("mi250x/spx@v0", "does not publish", "@v1"),
        ("UP=t4", "is not a valid node name", "lower-case"),
        ("a=t4,a=l4", "duplicate node name 'a'", "NAME="),
        ("t4:60000,l4:60000", "120000 nodes", ""),
        ("t4:99999999999999999999", "expected a number of nodes", ""),
    ],
)
def test_errors_state_the_problem_and_a_hint(text: str, problem: str, hint: str) -> None:
    with pytest.raises(FleetError) as caught:
        parse_fleet([text])
    assert problem in str(caught.value)
    assert hint in caught.value.hint


@given(st.text(alphabet="dgx-a104b:/,=+@t4hmi3nps.c²٣ ", max_size=30))
def test_any_text_is_parsed_or_raises_fleet_error(text: str) -> None:
    try:
        machines = parse_fleet([text])
    except FleetError:
        return
    assert machines
