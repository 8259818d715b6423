"""The picture of ``allot top``."""

from __future__ import annotations

from io import StringIO

import pytest
from msgspec.structs import replace

from allotment.cli.output.console import Screen
from allotment.cli.top.frame import Size, frame, painted
from allotment.cli.top.position import Position
from allotment.cli.top.rows import Overview, overview
from tests.unit.cli.top.top_screens import CLUSTER, NodeOfDevices, device, group, map_of, pending_of

NODES = [
    NodeOfDevices(
        "dgx-1",
        devices=(
            device("gpu-0", "in-use", holders=(0,)),
            device("gpu-1-mig", "in-use", card="gpu-1", span=(0, 4, 7)),
            device("gpu-2", "tainted", taints=("broken=true:NoExecute",)),
            device("gpu-3"),
        ),
    ),
    NodeOfDevices("t4-1", problems=("incomplete: 1 of 2 slices",), devices=(device("gpu-0"),)),
]
GROUPS = [
    group("g1", "no device has at least 80Gi of memory", 12, oldest="2026-11-29T06:48:00Z", namespaces=("team-a",)),
    group("g2", "all are in use", oldest="2026-11-29T06:59:30Z", namespaces=("ml", "x")),
]
SHOWN = overview(map_of(*NODES), pending_of(*GROUPS))


START, DEFAULT_SIZE = Position(), Size(80, 24)


def text(shown: Overview = SHOWN, position: Position = START, size: Size = DEFAULT_SIZE, *reason: str) -> list[str]:
    plain = Screen(StringIO(), size.columns, colour=False)
    return painted(frame(shown, position, size, reason), plain, size.columns)


def test_a_picture_of_80_columns_and_24_lines() -> None:
    lines = text()
    assert len(lines) == 24
    assert [line.rstrip() for line in lines[:12]] == [
        "default (lab) Kubernetes 1.36  at 07:00:00 UTC",
        "5 devices: 2 in-use, 1 tainted, 2 free; 13 pods pending, 2 causes",
        "",
        "NODES 2   # in-use   ! tainted   . free   + in part",
        "  dgx-1  A100-SXM4-40GB  #[####...]!.                                1 of 4 free",
        "  t4-1   A100-SXM4-40GB  .                                           1 of 1 free",
        "",
        "PENDING 2",
        "> 12  12m  team-a        no device has at least 80Gi of memory",
        "   1  30s  2 namespaces  all are in use",
        "",
        "",
    ]
    assert lines[-1] == "arrows select   Enter reason   Tab nodes/pending   / filter   q end"


@pytest.mark.parametrize("size", [Size(80, 24), Size(40, 10), Size(200, 60), Size(20, 5)])
def test_every_size_is_filled_and_never_exceeded(size: Size) -> None:
    many = overview(map_of(*(replace(NODES[0], name=f"node-{n}" * 9) for n in range(70))), pending_of(*GROUPS * 20))
    for position in (Position(), Position("nodes", node="node-50" * 9), Position(opened=True), Position(typing=True)):
        lines = text(many, position, size, *["reason " * 30] * 90)
        assert len(lines) == size.lines
        assert max(map(len, lines)) <= size.columns


def test_the_selected_row_is_visible_among_many() -> None:
    many = overview(map_of(*(replace(NODES[1], name=f"node-{n:02}") for n in range(70))), pending_of(*GROUPS))
    lines = text(many, Position("nodes", node="node-50"))
    assert any(line.startswith("> node-50") for line in lines)
    assert next(line for line in lines if line.startswith("NODES")).startswith("NODES 44-58 of 70 ")


def test_cards_are_one_character_each_where_slices_do_not_fit() -> None:
    cards = tuple(device(f"mig-{n}", "in-use", card=f"gpu-{n}", span=(0, 4, 7)) for n in range(8))
    narrow = overview(map_of(NodeOfDevices("dgx-1", devices=cards)), pending_of())
    assert any(" ++++++++ " in line for line in text(narrow))


def test_an_opened_group_shows_its_reason_and_scrolls() -> None:
    reason = ["pod chat does not fit", "  8  devices", "  0  with 80Gi"]
    lines = text(SHOWN, Position(opened=True), Size(80, 24), *reason)
    assert lines[3:6] == reason
    assert text(SHOWN, Position(opened=True, scroll=2), Size(80, 24), *reason)[3] == "  0  with 80Gi"
    assert text(SHOWN, Position(opened=True, scroll=99), Size(80, 24), *reason)[3] == "  0  with 80Gi"


def test_an_opened_node_lists_its_devices_and_problems() -> None:
    lines = text(SHOWN, Position("nodes", node="dgx-1", opened=True))
    assert lines[3] == "dgx-1: 1 of 4 devices free"
    assert "  gpu-0      in-use   ml/train (train-0)" in lines
    assert "  gpu-2      tainted  broken=true:NoExecute" in lines
    assert "incomplete: 1 of 2 slices" in text(SHOWN, Position("nodes", node="t4-1", opened=True))


def test_all_rows_are_printed_without_a_terminal_and_nothing_is_selected() -> None:
    many = overview(map_of(*(replace(NODES[1], name=f"node-{n}") for n in range(70))), pending_of(*GROUPS))
    lines = text(many, Position(), Size(120, None))
    assert sum(line.startswith("  node-") for line in lines) == 70
    assert not any(line.startswith(">") or "filter" in line for line in lines)


def test_a_lost_cluster_is_reported_with_the_time_of_the_shown_state() -> None:
    lost = replace(CLUSTER, connected=False, error="nothing is listening on this address")
    shown = overview(map_of(*NODES, cluster=lost), pending_of(*GROUPS))
    assert text(shown)[0].endswith("not connected since 07:00:00: nothing is listeni…")


def test_a_cluster_that_was_never_read_has_no_rows() -> None:
    """No device and no pod is known, which is not the same as none."""
    unknown = replace(CLUSTER, connected=False, seen_at="", error="nothing is listening on this address")
    lines = text(overview(map_of(cluster=unknown), pending_of()), Position(), Size(100, 24))
    assert lines[0].endswith("nothing is listening on this address")
    assert [line.strip() for line in lines if line.strip()][1:] == ["nothing has been read yet", "q end"]


def test_what_may_not_be_read_is_named() -> None:
    shown = overview(map_of(*NODES, cluster=replace(CLUSTER, unread={"events": "forbidden"})), pending_of())
    assert text(shown)[1].endswith("; not readable: events")


def test_a_problem_is_shown_in_place_of_the_groups() -> None:
    lines = text(overview(map_of(*NODES), None, "you may not list pods"))
    assert lines[7:9] == ["PENDING 0", "  you may not list pods"]


def test_an_empty_cluster_says_so() -> None:
    lines = text(overview(map_of(), pending_of()))
    assert "  no node publishes devices" in lines
    assert "  no pod is pending" in lines
    filtered = text(SHOWN, Position(filter="nothing"))
    assert "  no node matches the filter" in filtered
    assert filtered[-1].startswith("filter: nothing   Esc clear")


def test_terminal_codes_in_names_are_shown_and_not_sent() -> None:
    hostile = replace(GROUPS[0], summary="\x1b[2J\x1b]0;title\x07 gone")
    shown = overview(map_of(replace(NODES[0], name="\x1b[31mred")), pending_of(hostile))
    colour = Screen(StringIO(), 80, colour=True)
    for lines in (text(shown), painted(frame(shown, Position(), Size(80, 24)), colour, 80)):
        assert "\x1b[2J" not in "".join(lines)
        assert "\x1b]0" not in "".join(lines)
        assert "\x07" not in "".join(lines)
    assert "\x1b[31mred" not in "".join(text(shown))


def test_colour_only_on_a_screen_with_colour() -> None:
    assert "\x1b" not in "".join(text())
    colour = painted(frame(SHOWN, Position(), Size(80, 24)), Screen(StringIO(), 80, colour=True), 80)
    assert "\x1b[35m#\x1b[0m" in colour[4]
