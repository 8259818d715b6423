"""The rows of ``allot top``, from the map and the pending groups that the page shows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import takewhile
from typing import Final, NamedTuple

from allotment.apiserver.reads.columns import age
from allotment.phrases import counted
from allotment.screens.device_map import DeviceMap, MapDevice, MapNode
from allotment.screens.holders import MapHolder
from allotment.screens.pending import GroupSummary, PendingScreen

#: The character of a device, or of a slice of one, by its state.
GLYPHS: Final[Mapping[str, str]] = {
    "free": ".", "shared": "~", "full": "%", "in-use": "#", "blocked": "/", "tainted": "!", "unschedulable": "-",
}  # fmt: skip
#: The order of devices on the page of a node: those in use, free ones, and those that are only possible.
_ORDER: Final = {state: number for number, state in enumerate(GLYPHS)} | {"free": 10, "blocked": 11}
#: Slices of a card in several states, where only one character is left for it.
MIXED: Final = "+"
_FREE: Final = GLYPHS["free"]


class NodeRow(NamedTuple):
    """A node. ``kinds``: of its devices, in short; ``cards``: the ``GLYPHS`` of each card."""

    name: str
    kinds: str
    cards: tuple[str, ...]
    free: int
    total: int
    note: str
    devices: tuple[tuple[str, str, str, str], ...]
    """Name, kind, state, and holders of each device."""

    @property
    def text(self) -> str:
        """The text that a filter searches."""
        return " ".join((self.name, self.kinds, self.note, *(word for device in self.devices for word in device)))


class GroupRow(NamedTuple):
    """Pending pods with the same cause."""

    id: str
    pods: int
    age: str
    namespaces: str
    summary: str
    text: str
    """The text that a filter searches."""


class Overview(NamedTuple):
    """All that is shown.

    ``error``: why the cluster does not answer; the rows are then those of ``seen_at``. ``problem``: why pending pods
    could not be explained. ``unread``: the resources that could not be read.
    """

    title: str
    totals: str
    states: tuple[str, ...]
    """The states of devices, for the legend."""
    nodes: tuple[NodeRow, ...]
    groups: tuple[GroupRow, ...]
    seen_at: str = ""
    error: str = ""
    problem: str = ""
    unread: tuple[str, ...] = ()


def overview(shown: DeviceMap, pending: PendingScreen | None, problem: str = "") -> Overview:
    """Return the rows of the map and of the pending groups; ``problem``: why the groups are not known."""
    cluster = shown.cluster
    place = f"({cluster.place})" if cluster.place not in ("cluster", "none") else ""
    release = f"Kubernetes {cluster.kube}"
    words = [cluster.name, place, release if cluster.kube and release not in cluster.name else ""]
    kinds = [kind.product.removeprefix("NVIDIA ") or kind.driver for kind in shown.kinds]
    holders = [_holder(holder) for holder in shown.holders]
    return Overview(
        title=" ".join(filter(None, words)),
        totals=_totals(shown.totals, pending),
        states=tuple(shown.totals),
        nodes=tuple(
            _node(node, devices, kinds, holders) for node in shown.nodes if (devices := tuple(shown.devices_of(node)))
        ),
        groups=tuple(_group(group, cluster.seen_at) for group in pending.groups) if pending is not None else (),
        seen_at=cluster.seen_at,
        error="" if cluster.connected else cluster.error,
        problem=problem,
        unread=tuple(cluster.unread),
    )


def _totals(totals: Mapping[str, int], pending: PendingScreen | None) -> str:
    counts = ", ".join(f"{number} {state}" for state, number in totals.items())
    devices = f"{counted(sum(totals.values()), 'device')}{f': {counts}' if counts else ''}"
    if pending is None:
        return devices
    causes = f", {counted(len(pending.groups), 'cause')}" if len(pending.groups) > 1 else ""
    return f"{devices}; {counted(pending.count, 'pod')} pending{causes}"


def _holder(holder: MapHolder) -> str:
    own = f"{holder.namespace}/"
    pods = ", ".join(pod.removeprefix(own) for pod in holder.pods)
    return f"{holder.claim} ({pods})" if pods else holder.claim


def _node(node: MapNode, devices: Sequence[MapDevice], kinds: Sequence[str], holders: Sequence[str]) -> NodeRow:
    names = list(dict.fromkeys(kinds[device.kind] for device in devices))
    return NodeRow(
        name=node.name or "<any>",
        kinds=_in_common(names),
        cards=tuple(_cards(devices)),
        free=sum(device.state == "free" for device in devices),
        total=len(devices),
        note="; ".join(filter(None, (node.unschedulable, *node.problems))),
        devices=tuple(
            _device(device, kinds, holders) for device in sorted(devices, key=lambda each: _ORDER[each.state])
        ),
    )


def _in_common(kinds: Sequence[str]) -> str:
    """Return the words with which all kinds begin, or else the first kind and the number of others."""
    columns = zip(*(kind.split() for kind in kinds), strict=False)
    common = [words[0] for words in takewhile(lambda words: len(set(words)) == 1, columns)]
    return " ".join(common) or f"{kinds[0]} +{len(kinds) - 1}"


def _device(device: MapDevice, kinds: Sequence[str], holders: Sequence[str]) -> tuple[str, str, str, str]:
    held = [holders[number] for number in device.holders]
    return device.name, kinds[device.kind], device.state, "; ".join([*held, *device.taints])


def _cards(devices: Iterable[MapDevice]) -> Iterator[str]:
    """Yield the state of each card, with a character for each of its slices."""
    cards: dict[tuple[str, str], list[MapDevice]] = {}
    for device in devices:
        cards.setdefault((device.pool, device.card or f"device {device.name}"), []).append(device)
    for pieces in cards.values():
        total = max(piece.span[2] if piece.span else 1 for piece in pieces)
        slices = [_FREE] * total
        for piece in pieces:
            if piece.state in ("free", "blocked") and len(pieces) > 1:
                continue  # possible, but not created
            start, size, _ = piece.span or (0, total, total)
            slices[start : start + size] = [GLYPHS[piece.state]] * size
        yield "".join(slices[:total])


def _group(group: GroupSummary, now: str) -> GroupRow:
    namespaces = group.namespaces
    return GroupRow(
        id=group.id,
        pods=group.count,
        age=age(group.oldest, now) if group.oldest and now else "",
        namespaces=namespaces[0] if len(namespaces) == 1 else f"{len(namespaces)} namespaces",
        summary=group.waits or group.summary,
        text=" ".join((group.sentence, group.code, *namespaces, *group.workloads, *group.pods)),
    )


def compact(card: str) -> str:
    """Return one character for a card.

    >>> compact("......."), compact("###...."), compact("#######")
    ('.', '+', '#')
    """
    (most, number), *_ = Counter(card).most_common(1)
    return most if number == len(card) else MIXED
