"""The list of all objects that have to do with devices, with a search."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final

from allotment.model.meta import Value
from allotment.screens.header import Screen, command, header
from allotment.screens.object_refs import DEVICE, POOL, WORKLOAD, ObjectRef, ref_of, workload_ref
from allotment.screens.object_states import ObjectStates, states_of
from allotment.watched.view import ClusterView

#: Objects that a list shows; the others are counted.
MAX_ITEMS: Final = 500
#: In the order in which the page shows them.
KIND_ORDER: Final = ("pod", WORKLOAD, "claim", "template", "class", "node", DEVICE, POOL, "slice")


class KindCount(Value, frozen=True, omit_defaults=False):
    """The number of objects of a kind that match the search."""

    kind: str
    count: int


class ObjectItem(Value, frozen=True, omit_defaults=False):
    """An object and its state; see `ObjectRef`."""

    kind: str
    namespace: str
    name: str
    state: str


class ObjectList(Screen, frozen=True):
    """The objects that match a search. ``matching``: how many, of which the first ``MAX_ITEMS`` are listed."""

    kinds: tuple[KindCount, ...] = ()
    items: tuple[ObjectItem, ...] = ()
    matching: int = 0


def objects(view: ClusterView, query: str = "") -> ObjectList:
    """Return the objects of a view.

    ``query``: words that name and state contain, and ``kind:pod``, ``ns:team-a``, ``state:pending``; all must match.
    """
    states = states_of(view)
    words = query.lower().split()
    found = [item for item in _items(view, states) if _matches(item, words)]
    counts = Counter(item.kind for item in found)
    return ObjectList(
        cluster=header(view),
        command=command(view, "free", "-o", "wide"),
        kinds=tuple(KindCount(kind, counts[kind]) for kind in KIND_ORDER if counts[kind]),
        items=tuple(found[:MAX_ITEMS]),
        matching=len(found),
    )


def _items(view: ClusterView, states: ObjectStates) -> list[ObjectItem]:
    return view.cached("screens.items", lambda: sorted(_every(view, states), key=_order))


def _every(view: ClusterView, states: ObjectStates) -> Iterator[ObjectItem]:
    workloads: dict[ObjectRef, str] = {}
    for value in view.inputs.cluster:
        ref = ref_of(value)
        if ref is None:
            continue
        if ref.kind == WORKLOAD:
            workloads[ref] = f"{type(value).__name__} {value.key}"
        else:
            yield ObjectItem(*ref, states.of(value))
    for name in states.workloads:
        workloads.setdefault(workload_ref(name), name)
    for ref, name in workloads.items():
        yield ObjectItem(*ref, states.of_workload(name))
    for (pool, device), spot in states.devices.items():
        yield ObjectItem(DEVICE, pool, device, spot.report.state)
    for id in states.pools:
        yield ObjectItem(POOL, id.driver, id.pool, states.of_pool(id))


def _order(item: ObjectItem) -> tuple[int, str, str]:
    return KIND_ORDER.index(item.kind), item.namespace, item.name


def _matches(item: ObjectItem, words: list[str]) -> bool:
    for word in words:
        field, colon, value = word.partition(":")
        known = {"kind": item.kind, "ns": item.namespace, "namespace": item.namespace, "state": item.state}
        if colon and field in known:
            if value not in known[field].lower():
                return False
        elif word not in f"{item.namespace}/{item.name} {item.state}".lower():
            return False
    return True
