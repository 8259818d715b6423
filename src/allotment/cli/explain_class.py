"""``allot explain`` for DeviceClasses: prints the devices that each selects by node, or why it selects none."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from allotment.api.explain_classes import class_answers
from allotment.api.objects.inputs import ClusterState
from allotment.api.question import Question
from allotment.cli.output.compact_names import kinds_of, ranges
from allotment.cli.output.console import Screen, folded
from allotment.engine.refusal import Diagnosis
from allotment.errors import InputError
from allotment.explanation.matches import ClassMatches, NodeMatches
from allotment.explanation.text import NEXT
from allotment.phrases import counted
from allotment.tools.free import kind_of

_WIDTH = 80


def show_classes(screen: Screen, question: Question, output: str | None) -> bool:
    """Print what each class selects; return whether all select devices."""
    try:
        found = class_answers(question)
    except InputError as error:
        raise InputError(error.problem, "add a snapshot with --cluster FILE or hardware with --fleet SPEC") from None
    if output in ("json", "yaml"):
        screen.data(found.to_dict(), output)
        return found.select
    slices = ClusterState.of(question.inputs).slices
    kinds = {(s.spec.driver, s.spec.pool.name, d.name): kind_of(d) for s in slices for d in s.spec.devices or ()}
    for number, report in enumerate(found.classes):
        if number:
            screen.line()
        count = str(report.matched or "none")
        screen.line(f"DeviceClass {report.name} selects {count} of {counted(report.devices, 'device')}")
        for line in _reasons(report.reasons) if report.reasons is not None else _nodes(report, kinds, output == "wide"):
            for part in folded(line, screen.width or _WIDTH, "  "):
                screen.line(part)
    if found.next:
        screen.line()
        screen.line(f"{NEXT}{found.next}")
    return found.select


def _nodes(report: ClassMatches, kinds: Mapping[tuple[str, str, str], str], wide: bool) -> Iterator[str]:
    """Yield a line for nodes with the same selected devices; those without a match last."""
    groups: dict[tuple[object, ...], list[NodeMatches]] = {}
    for node in report.nodes:
        if node.devices:
            devices = tuple(
                (device.driver, device.device, kinds[device.driver, device.pool, device.device])
                for device in node.matched
            )
            groups.setdefault((node.devices, devices, node.error), []).append(node)
    for nodes in sorted(groups.values(), key=lambda nodes: not nodes[0].matched):
        first = nodes[0]
        every = len(first.matched) == first.devices
        count = f"all {first.devices}" if every else f"{len(first.matched) or 'none'} of {first.devices}"
        names = ranges([node.node or "accessible from several nodes" for node in nodes])
        line = f"{names}: {count}{' on each' if len(nodes) > 1 else ''}"
        if first.matched:
            products = kinds_of(dict.fromkeys(filter(None, (kinds[m.driver, m.pool, m.device] for m in first.matched))))
            line += f" ({products})" if products else ""
            line += f": {ranges([device.device for device in first.matched])}" if wide else ""
        yield line
        if first.error:
            yield f"on {names} Kubernetes aborts: {first.error}"


def _reasons(diagnosis: Diagnosis) -> Iterator[str]:
    """Yield the reasons why nothing is selected, without duplicates."""
    headline = diagnosis.headline
    yield f"{headline.summary} ({headline.code})"
    if headline.nearest is not None:
        yield f"nearest miss: {headline.nearest}"
    others: dict[str, list[str]] = {}
    for row in diagnosis.nodes:
        if (row.refused.code, row.refused.summary) != (headline.code, headline.summary):
            others.setdefault(f"{row.refused.summary} ({row.refused.code})", []).extend(row.nodes)
    for words, nodes in others.items():
        yield f"{ranges(nodes)}: {words}"
