"""``allot explain`` for DeviceClasses: shows the devices that each selects by node, or why it selects none.

A class requests no devices, so there is nothing to fit; its author needs to know what it selects.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from allotment.api.inputs import ClusterState, Inputs
from allotment.cli.output.compact_names import kinds_of, ranges
from allotment.cli.output.console import Screen, folded
from allotment.engine.refusal import Diagnosis
from allotment.errors import InputError
from allotment.explanation import explain
from allotment.explanation.matches import ClassMatches, NodeMatches, matches
from allotment.explanation.next_step import Origin, list_devices
from allotment.explanation.subjects import user_of_class
from allotment.explanation.text import NEXT
from allotment.model.core import Node
from allotment.model.resource import DeviceClass, DeviceTaintRule, ResourceSlice
from allotment.phrases import counted
from allotment.tools.free import kind_of

_WIDTH = 80


def only_classes(inputs: Inputs) -> tuple[DeviceClass, ...]:
    """Return the classes of the input if it has no pods or claims, else none."""
    if any(not isinstance(value, DeviceClass | ResourceSlice | Node | DeviceTaintRule) for value in inputs.queried):
        return ()
    return tuple(value for value in inputs.queried if isinstance(value, DeviceClass))


def show_classes(
    screen: Screen, inputs: Inputs, classes: Sequence[DeviceClass], output: str | None, origin: Origin
) -> bool:
    """Print what each class selects; return whether all select devices."""
    state = ClusterState.of(inputs)
    if not state.slices:
        raise InputError(
            f"the input contains no ResourceSlices: cannot evaluate DeviceClass {classes[0].metadata.name}",
            "add a snapshot with --cluster FILE or hardware with --fleet SPEC",
        )
    inventory = state.inventory()
    found = [matches(device_class, inventory, inputs.features) for device_class in classes]
    reasons = {
        device_class.metadata.name: _why(device_class, inputs)
        for device_class, report in zip(classes, found, strict=True)
        if not report
    }
    step = list_devices(origin) if reasons and origin.is_repeatable else ""
    if output in ("json", "yaml"):
        data = {"classes": [_data(report, reasons.get(report.name)) for report in found]}
        screen.data({**data, **({"next": step} if step else {})}, output)
        return not reasons
    kinds = {(s.spec.driver, s.spec.pool.name, d.name): kind_of(d) for s in state.slices for d in s.spec.devices or ()}
    for number, report in enumerate(found):
        if number:
            screen.line()
        count = str(report.matched or "none")
        screen.line(f"DeviceClass {report.name} selects {count} of {counted(report.devices, 'device')}")
        for line in _nodes(report, kinds, output == "wide") if report else _reasons(reasons[report.name]):
            for part in folded(line, screen.width or _WIDTH, "  "):
                screen.line(part)
    if step:
        screen.line()
        screen.line(f"{NEXT}{step}")
    return not reasons


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


def _why(device_class: DeviceClass, inputs: Inputs) -> Diagnosis:
    """Return why a claim for one device of the class is rejected."""
    name = device_class.metadata.name
    probe = user_of_class(device_class)
    state = [*inputs.of(Node), *inputs.of(ResourceSlice)]
    others = [candidate for candidate in inputs.of(DeviceClass) if candidate.metadata.name != name]
    (answer,) = explain([*state, *others, device_class, probe], inputs.features).answers
    assert answer.reasons is not None  # a class without selectors
    return answer.reasons


def _data(report: ClassMatches, diagnosis: Diagnosis | None) -> dict[str, Any]:
    data: dict[str, Any] = {"matched": report.matched, "devices": report.devices, **report.to_dict()}
    if diagnosis is not None:
        row = diagnosis.headline.to_dict()
        data["reason"] = {name: row[name] for name in ("code", "summary", "nearest") if name in row}
    return data
