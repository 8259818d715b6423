"""Devices are summed by node, by equal nodes, by product and by namespace."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from allotment.cli.free.summary import SCREEN, by_namespace, summed
from allotment.tools.free import DeviceHolder, DeviceReport, FreeReport, NodeReport


def node(name: str, free: int = 0, used: int = 0, kind: str = "NVIDIA A100", namespace: str = "ml") -> NodeReport:
    devices = [DeviceReport("d", name, f"gpu-{n}", kind, "free") for n in range(free)]
    for n in range(free, free + used):
        holder = DeviceHolder(f"{namespace}/{name}-{n}", (f"pod-{name}-{n}",))
        devices.append(DeviceReport("d", name, f"gpu-{n}", kind, "in-use", (holder,)))
    return NodeReport(name, tuple(devices))


def test_a_few_equal_nodes_have_a_row_each() -> None:
    table = summed(FreeReport((node("a", 8), node("b", 8))))
    assert table.headers == ["NODE", "KIND", "TOTAL", "FREE", "IN-USE"]
    assert table.rows == [["a", "A100", "8", "8", "0"], ["b", "A100", "8", "8", "0"]]
    assert not table.note


def test_five_hundred_nodes_are_grouped_by_their_differences() -> None:
    nodes = [node(f"n{n}", 8 - n % 2, n % 2) for n in range(499)]
    table = summed(FreeReport((*nodes, node("t", 4, kind="Tesla T4"))))
    assert table.rows == [
        ["250", "n0 …", "A100", "8", "8", "0"],
        ["249", "n1 …", "A100", "8", "7", "1"],
        ["1", "t", "Tesla T4", "4", "4", "0"],
    ]
    assert "--by node" in table.note


def test_node_table_is_not_truncated() -> None:
    report = FreeReport(tuple(node(f"n{n}", 8) for n in range(500)))
    assert len(summed(report, "node").rows) == 500


def test_nodes_with_different_states_are_not_grouped() -> None:
    """Nodes must have equal numbers of devices of each kind in each state, not only equal numbers of free ones."""
    mixed = [NodeReport(f"m{n}", (*node("x", 1).devices, *node("y", 0, 1, "T4").devices)) for n in range(20)]
    turned = NodeReport("z", (*node("x", 0, 1).devices, *node("y", 1, 0, "T4").devices))
    table = summed(FreeReport((*mixed, turned)))
    assert [row[:2] for row in table.rows] == [["20", "m0 …"], ["20", "m0 …"], ["1", "z"], ["1", "z"]]


def test_devices_without_a_node_are_a_separate_row() -> None:
    nodes = [node(f"n{n}", 8) for n in range(30)]
    table = summed(FreeReport((*nodes, node("", 8))))
    assert [row[:2] for row in table.rows] == [["30", "n0 …"], ["1", "<any>"]]


def test_grouping_by_product_names_the_node_with_most_free_devices() -> None:
    table = summed(FreeReport((node("a", 2, 6), node("b", 5, 3), node("c", 0, 4, "Tesla T4"))), "product")
    assert table.headers == ["KIND", "NODES", "TOTAL", "FREE", "IN-USE", "MOST FREE"]
    assert table.rows == [["A100", "2", "16", "7", "9", "5 on b"], ["Tesla T4", "1", "4", "0", "4", "0"]]


def test_namespace_with_most_devices_comes_first() -> None:
    table = by_namespace(FreeReport((node("a", 0, 2), node("b", 0, 3, namespace="shop"), node("c", 1))))
    assert table.rows == [["shop", "3", "3", "3"], ["ml", "2", "2", "2"]]


_nodes = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4), st.sampled_from(["A100", "T4"])), max_size=60)


@given(_nodes)
def test_sums_include_every_device(drawn: list[tuple[int, int, str]]) -> None:
    report = FreeReport(tuple(node(f"n{n}", free, used, kind) for n, (free, used, kind) in enumerate(drawn)))
    table = summed(report)
    assert len(table.rows) <= max(SCREEN, len({row for row in drawn if row[0] + row[1]}))
    found: Counter[str] = Counter()
    for row in table.rows:
        cells = dict(zip(table.headers, row, strict=True))
        for column in ("TOTAL", "FREE", "IN-USE"):
            found[column] += int(cells.get("NODES", "1")) * int(cells[column])
    assert found["TOTAL"] == report.count()
    assert found["FREE"] == report.count("free")
    assert found["IN-USE"] == report.count("in-use")
