"""Keys and the positions after them."""

from __future__ import annotations

import pytest

from allotment.cli.top.position import Position, groups_shown, nodes_shown, pressed
from allotment.cli.top.rows import Overview, overview
from tests.unit.cli.top.top_screens import NodeOfDevices, device, group, map_of, pending_of

NODES = [NodeOfDevices(f"node-{n}", devices=(device("gpu-0"),)) for n in range(9)]
GROUPS = [
    group("g1", "no device has 80Gi of memory", 3, namespaces=("team-a",)),
    group("g2", "all devices are in use", namespaces=("team-b",)),
    group("g3", "the class does not exist", namespaces=("team-b",)),
]
SHOWN = overview(map_of(*NODES), pending_of(*GROUPS))


START = Position()


def after(*keys: str, start: Position = START, shown: Overview = SHOWN) -> Position:
    position = start
    for key in keys:
        moved = pressed(key, position, shown, page=4)
        assert moved is not None
        position = moved
    return position


def test_arrows_select_pending_groups() -> None:
    assert after("down").group == "g2"
    assert after("down", "down", "down", "up").group == "g2"
    assert after("up").group == "g1"


def test_tab_changes_to_the_nodes() -> None:
    assert after("tab", "down").node == "node-1"
    assert after("tab", "page down", "right").node == "node-8"
    assert after("tab", "end", "home").node == "node-0"
    assert after("tab", "tab").pane == "pending"


def test_enter_opens_the_selected_group_and_escape_goes_back() -> None:
    assert after("down", "enter") == Position(group="g2", opened=True)
    assert after("enter", "down", "page down").scroll == 5
    assert after("enter", "down", "escape") == Position()


def test_while_nothing_is_pending_the_keys_move_over_the_nodes() -> None:
    shown = overview(map_of(*NODES), pending_of())
    assert after("down", "enter", shown=shown) == Position("nodes", node="node-1", opened=True)


def test_nothing_opens_in_an_empty_cluster() -> None:
    assert not after("enter", shown=overview(map_of(), pending_of())).opened


@pytest.mark.parametrize("position", [Position(), Position(opened=True), Position(filter="a")])
def test_q_ends(position: Position) -> None:
    assert pressed("q", position, SHOWN, 4) is None


def test_a_filter_is_typed_after_a_slash() -> None:
    position = after("/", *"Team-B q", "backspace", "backspace", "enter")
    assert position == Position(filter="Team-B")
    assert [row.id for row in groups_shown(SHOWN, position)] == ["g2", "g3"]
    assert after("down", start=position).group == "g3"


def test_all_words_of_a_filter_must_occur() -> None:
    assert [row.id for row in groups_shown(SHOWN, Position(filter="team-b class"))] == ["g3"]
    assert [row.name for row in nodes_shown(SHOWN, Position(filter="node-3"))] == ["node-3"]
    assert nodes_shown(SHOWN, Position(filter="h100")) == []


def test_escape_clears_the_filter() -> None:
    assert after("/", "x", "escape") == Position()
    assert after("escape", start=Position(filter="team-b")) == Position()


def test_the_selection_follows_its_row_when_the_cluster_changes() -> None:
    position = after("down")
    fewer = overview(map_of(*NODES), pending_of(*GROUPS[1:]))
    assert after("down", start=position, shown=fewer).group == "g3"
    gone = overview(map_of(*NODES), pending_of(GROUPS[0]))
    assert after("down", start=position, shown=gone).group == "g1"
