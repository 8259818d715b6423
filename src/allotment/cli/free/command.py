"""``allot free``: prints the report of `allotment.tools.free` as tables.

The first line is the total; tables by node and kind follow, then problems. Long tables are
summarized. ``-o wide`` lists every device.
"""

from __future__ import annotations

import re
from argparse import Namespace
from collections.abc import Iterable, Iterator, Sequence

from allotment.api.free import free
from allotment.cli.free.summary import SCREEN, by_namespace, kind, name, summed
from allotment.cli.inputs.clusters import cluster_errors_of, cluster_of, objects_of
from allotment.cli.output.compact_names import ranges
from allotment.cli.output.console import Screen, open_screen, print_notes
from allotment.errors import InputError
from allotment.explanation.text import NEXT
from allotment.model.contested_claims import DESCRIPTION
from allotment.phrases import counted
from allotment.tools.free import CounterSetReport, DeviceHolder, DeviceReport, FreeReport, NodeReport, RemainingAmount

_NUMBERED = re.compile(r"(.+)-[0-9]+")


def run(arguments: Namespace) -> int:
    """Print the devices of a cluster."""
    screen = open_screen()
    if arguments.by and arguments.output:
        raise InputError(
            f"--by counts devices in groups, but -o {arguments.output} lists each one", "use only one of them"
        )
    cluster = cluster_of(arguments)
    with cluster_errors_of(cluster):
        report = free(
            cluster, objects=objects_of(arguments), tolerations=arguments.toleration, namespace=arguments.namespace
        )
    print_notes(report.notes)
    if arguments.output in ("json", "yaml"):
        screen.data(report.to_dict(), arguments.output)
        return 0
    _print(screen, arguments, report)
    if report.next:
        screen.line()
        screen.line(f"{NEXT}{report.next}")
    return 0


def _print(screen: Screen, arguments: Namespace, report: FreeReport) -> None:
    screen.line(headline(report))
    if not report.count():
        _problems(screen, report)
        return
    if any(node.counter_sets for node in report.nodes):
        screen.line("Counts include all possible partitions; overlapping ones exclude each other.")
    screen.line()
    whole = arguments.by == "node" or arguments.output == "wide"
    if arguments.output == "wide":
        _every_device(screen, report)
    else:
        table = summed(report, arguments.by)
        screen.table(table.headers, table.rows, cut=["KIND"])
        if table.note:
            screen.line(table.note)
        _in_use(screen, report, whole)
        _tainted(screen, report, whole)
        _shares(screen, report, whole)
    _counters(screen, report, whole)
    _unschedulable(screen, report, whole)
    _problems(screen, report)


def headline(report: FreeReport) -> str:
    """Return the total in one sentence.

    >>> headline(FreeReport())
    'No node publishes devices.'
    """
    total, nodes = report.count(), sum(bool(node.devices) for node in report.nodes)
    if not total:
        return "No node publishes devices."
    free_now = report.count("free")
    where = "one node" if nodes == 1 else f"{nodes} nodes"
    verb = "is" if free_now == 1 else "are"
    sentence = f"{free_now} of {counted(total, 'device')} {verb} free, on {where}"
    return "; ".join([sentence, *_out_of_reach(report)]) + "."


def _out_of_reach(report: FreeReport) -> Iterator[str]:
    """Yield how many devices no pod can get although no claim holds them, and where they are."""
    closed = [node for node in report.nodes if node.node and _unschedulable_devices(node)]
    more = sum(map(_unschedulable_devices, closed))
    if len(closed) == 1:
        yield f"{_more(more)} on node {closed[0].node} ({closed[0].unschedulable})"
    elif closed:
        yield f"{_more(more)} on {len(closed)} unschedulable nodes"
    common = sum(_unschedulable_devices(node) for node in report.nodes if not node.node)
    if common:
        yield f"{_more(common)} usable only from unschedulable nodes"


def _unschedulable_devices(node: NodeReport) -> int:
    return sum(device.state == "unschedulable" for device in node.devices)


def _more(number: int) -> str:
    return f"{number} more {'is' if number == 1 else 'are'}"


def _section(
    screen: Screen, title: str, headers: Sequence[str], rows: Sequence[Sequence[str]], *cut: str, whole: bool = True
) -> None:
    """Print a table with a title, if it has rows; truncated unless ``whole``."""
    if rows:
        screen.line()
        screen.line(screen.paint(title, "bold"))
        shown = rows if whole else rows[:SCREEN]
        screen.table(headers, shown, cut=cut)
        if len(shown) < len(rows):
            screen.line(f"and {len(rows) - len(shown)} more (--by node shows all)")


def _in_use(screen: Screen, report: FreeReport, whole: bool) -> None:
    """Print the devices of each claim; a shared device is listed for each of its claims."""
    held: dict[tuple[str, str, str], dict[str, None]] = {}
    for node in report.nodes:
        for device in node.devices:
            for holder in device.holders:
                held.setdefault((name(node), holder.claim, users(holder)), {})[device.device] = None
    rows = [[node, ranges(list(devices)), claim, pods] for (node, claim, pods), devices in held.items()]
    if len(rows) > SCREEN and not whole:
        table = by_namespace(report)
        _section(screen, "In use (--by node lists each claim)", table.headers, table.rows, whole=False)
    else:
        _section(screen, "In use", ["NODE", "DEVICES", "CLAIM", "PODS"], rows, "DEVICES", "PODS")


def _tainted(screen: Screen, report: FreeReport, whole: bool) -> None:
    tainted: dict[tuple[str, str], list[str]] = {}
    for node in report.nodes:
        for device in node.devices:
            if device.taints:
                tainted.setdefault((name(node), ",".join(device.taints)), []).append(device.device)
    rows = [[node, ranges(devices), taints] for (node, taints), devices in tainted.items()]
    _section(screen, "Tainted", ["NODE", "DEVICES", "TAINTS"], rows, "DEVICES", "TAINTS", whole=whole)


def _unschedulable(screen: Screen, report: FreeReport, whole: bool) -> None:
    """Print the nodes whose devices no pod can get, although no claim holds them."""
    rows = [
        [name(node), str(count), node.unschedulable] for node in report.nodes if (count := _unschedulable_devices(node))
    ]
    _section(screen, "Unschedulable nodes", ["NODE", "DEVICES", "REASON"], rows, "REASON", whole=whole)


def _shares(screen: Screen, report: FreeReport, whole: bool) -> None:
    rows = [
        [name(node), device.device, str(len(device.holders)), amounts(device.capacity)]
        for node in report.nodes
        for device in node.devices
        if device.state in ("shared", "full")
    ]
    _section(screen, "Shared", ["NODE", "DEVICE", "SHARES", "CAPACITY LEFT"], rows, "CAPACITY LEFT", whole=whole)


def _every_device(screen: Screen, report: FreeReport) -> None:
    screen.table(
        ["NODE", "DEVICE", "KIND", "STATE", "CLAIMS", "PODS", "TAINTS", "CAPACITY LEFT"],
        [
            [
                name(node),
                device.device,
                kind(device),
                device.state,
                ",".join(holder.claim for holder in device.holders) or _blockers(device),
                ",".join(filter(None, map(users, device.holders))),
                ",".join(device.taints),
                amounts(device.capacity) if device.state in ("shared", "full") else "",
            ]
            for node in report.nodes
            for device in node.devices
        ],
        cut=["KIND", "CLAIMS", "PODS", "TAINTS", "CAPACITY LEFT"],
    )


def _blockers(device: DeviceReport) -> str:
    return f"({','.join(device.blocked_by)})" if device.blocked_by else ""


def _counters(screen: Screen, report: FreeReport, whole: bool) -> None:
    """Print the counter sets in use; unused ones are only counted."""
    rows, untouched = [], 0
    for node in report.nodes:
        for counter_set in node.counter_sets:
            if all(amount.left == amount.total for amount in counter_set.counters):
                untouched += 1
            else:
                rows.append([name(node), counter_set.counter_set, counters_left(counter_set)])
    _section(screen, "Partition counters left", ["NODE", "COUNTER SET", "LEFT"], rows, "LEFT", whole=whole)
    if untouched:
        screen.line()
        sets = counted(untouched, "counter set is", "counter sets are")
        screen.line(f"{sets} unused: any partition that the hardware supports is possible.")


def users(holder: DeviceHolder) -> str:
    """Return the pods of a claim with devices, or that it has none.

    >>> users(DeviceHolder("ml/train", ("train-0", "train-1"))), users(DeviceHolder("ml/old", set_aside=True))
    ('train-0,train-1', '(contested, unused)')
    """
    return f"({DESCRIPTION})" if holder.set_aside else ",".join(holder.consumers)


def amounts(capacity: Iterable[RemainingAmount]) -> str:
    """Return amounts as ``memory 24Gi of 40Gi``, separated by commas."""
    return ", ".join(f"{amount.name} {amount.left} of {amount.total}" for amount in capacity)


def counters_left(counter_set: CounterSetReport) -> str:
    """Return the remaining counters of a set; numbered ones (memory-slice-0, -1, …) are added.

    >>> from allotment.model.quantity import Quantity
    >>> one, none = Quantity.of_int(1), Quantity.of_int(0)
    >>> counters_left(
    ...     CounterSetReport(
    ...         "d", "p", "s", (RemainingAmount("slice-0", one, none), RemainingAmount("slice-1", one, one))
    ...     )
    ... )
    'slice 1 of 2'
    """
    memory: list[RemainingAmount] = []
    plain: list[RemainingAmount] = []
    numbered: dict[str, list[RemainingAmount]] = {}
    for amount in counter_set.counters:
        match = _NUMBERED.fullmatch(amount.name)
        if match:
            numbered.setdefault(match[1], []).append(amount)
        elif amount.total.sign() > 0:
            (memory if amount.name == "memory" else plain).append(amount)
    parts = [f"{name} {sum(a.left == a.total for a in group)} of {len(group)}" for name, group in numbered.items()]
    return ", ".join(part for part in (amounts(memory), *parts, amounts(plain)) if part)


def _problems(screen: Screen, report: FreeReport) -> None:
    rows = [[name(node), p.pool, p.driver, f"{p.why}: {p.text}"] for node in report.nodes for p in node.problems]
    _section(screen, "Pools that Kubernetes ignores", ["NODE", "POOL", "DRIVER", "WHY"], rows, "WHY")
    orphaned = [[entry.claim, f"{entry.driver}/{entry.pool}/{entry.device}"] for entry in report.unpublished]
    _section(screen, "Claims with devices that no slice publishes", ["CLAIM", "DEVICE"], orphaned)
