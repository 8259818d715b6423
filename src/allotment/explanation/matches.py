"""``matches``: the devices that a DeviceClass selects, by node.

Only devices of complete and valid pools are considered, whether they are free or not.
"""

from __future__ import annotations

from allotment.cel import CompileError, DeviceInput, EvaluationError, compile_selector
from allotment.engine.cluster.devices import DeviceRecord
from allotment.engine.cluster.identity import DeviceID
from allotment.engine.cluster.inventory import Inventory
from allotment.model.features import Features
from allotment.model.meta import Value
from allotment.model.resource import DeviceClass


class MatchedDevice(Value, frozen=True):
    """A device that the class selects."""

    driver: str
    pool: str
    device: str


class NodeMatches(Value, frozen=True, omit_defaults=False):
    """The selected devices of one node; an empty name stands for devices that several nodes can use.

    ``devices`` is the number of all devices. ``error`` is the error of a selector, at which Kubernetes would give up.
    """

    node: str
    devices: int
    matched: tuple[MatchedDevice, ...] = ()
    error: str = ""


class ClassMatches(Value, frozen=True, omit_defaults=False):
    """The devices that a class selects, by node."""

    name: str
    nodes: tuple[NodeMatches, ...] = ()

    def __bool__(self) -> bool:
        """Whether the class selects any device."""
        return self.matched > 0

    @property
    def matched(self) -> int:
        """The number of devices that the class selects."""
        return sum(len(node.matched) for node in self.nodes)

    @property
    def devices(self) -> int:
        """The number of all devices."""
        return sum(node.devices for node in self.nodes)


def matches(device_class: DeviceClass, inventory: Inventory, features: Features) -> ClassMatches:
    """The devices of every node that match all selectors of the class."""
    shared: dict[DeviceID, DeviceRecord] = {}
    groups: list[tuple[str, list[DeviceRecord]]] = []
    for node in inventory.nodes:
        view = inventory.view(node)
        groups.append((node, [record for record in view.records if record.slice.spec.node_name == node]))
        for slot, record in enumerate(view.records):
            if record.slice.spec.node_name != node and view.layout.reach >> slot & 1:
                shared.setdefault(record.id, record)
    if shared:
        groups.append(("", list(shared.values())))
    verdicts = _verdicts(device_class, [record for _, records in groups for record in records], features)
    found = []
    for node, records in groups:
        answers = [verdicts[record.id] for record in records]
        found.append(
            NodeMatches(
                node=node,
                devices=len(records),
                matched=tuple(MatchedDevice(*r.id) for r, answer in zip(records, answers, strict=True) if answer == ""),
                error=next((answer for answer in answers if answer), ""),
            )
        )
    return ClassMatches(name=device_class.metadata.name, nodes=tuple(found))


def _verdicts(device_class: DeviceClass, records: list[DeviceRecord], features: Features) -> dict[DeviceID, str | None]:
    """For each device ``None`` if the class does not select it, an empty string if it does, or the selector's error."""
    inputs = {record.id: DeviceInput(record.id.driver, record.device) for record in records}
    verdicts: dict[DeviceID, str | None] = dict.fromkeys(inputs, "")
    for number, selector in enumerate(device_class.spec.selectors):
        left = [id for id, verdict in verdicts.items() if verdict == ""]
        try:
            compiled = compile_selector(selector.cel.expression if selector.cel else "", features)
        except CompileError as error:  # a class in a snapshot from a newer API server
            return dict.fromkeys(inputs, f"selector {number}: {error}")
        for id, answer in zip(left, compiled.match_all([inputs[id] for id in left]), strict=True):
            if isinstance(answer, EvaluationError):
                verdicts[id] = f"selector {number}, device {id.device}: {answer}"
            elif not answer:
                verdicts[id] = None
    return verdicts
