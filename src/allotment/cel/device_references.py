"""Finds which device data a CEL expression reads, and where it names attributes and capacities.

The engine evaluates a selector once for all devices with equal values at the paths that it reads. A path that ends
above a value (the number of a domain's attributes, a loop over them) reads everything below it. An expression that uses
``device`` as a whole, or selects from it by a computed key, reads the whole device.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from allotment.cel.syntax import ast
from allotment.cel.syntax.ast import Call, Comprehension, Const, Ident, Node, Select, children

#: ("driver",), ("allowMultipleAllocations",), ("attributes",), ("attributes", domain), ("attributes", domain, id) and
#: the same with "capacity".
DevicePath: TypeAlias = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class DeviceReference:
    """An attribute or capacity that an expression names, and the code point offset of its name.

    ``optional`` if the expression handles its absence (``has``, ``.?``, ``in``), so that a name which no driver
    publishes is not an error.
    """

    kind: Literal["attributes", "capacity"]
    domain: str
    name: str
    pos: int
    optional: bool


def read_paths(node: Node) -> frozenset[DevicePath] | None:
    """The paths of the device that an expression reads; None for the whole device."""
    found: set[DevicePath] = set()
    for path, _ in _device_uses(node):
        if not path:
            return None
        found.add(tuple(path[:3]) if path[0] in ("attributes", "capacity") else (path[0],))
    return frozenset(read for read in found if not any(read[:n] in found for n in range(1, len(read))))


def references(node: Node) -> tuple[DeviceReference, ...]:
    """The attributes and capacities that an expression names, ordered by position."""
    found: list[DeviceReference] = []
    for path, selections in _device_uses(node):
        if len(path) > 2 and path[0] in ("attributes", "capacity"):
            kind: Literal["attributes", "capacity"] = "attributes" if path[0] == "attributes" else "capacity"
            optional = any(_tolerates_absence(s) for s in selections[1:3])
            found.append(DeviceReference(kind, path[1], path[2], selections[2].pos, optional))
    return tuple(sorted(found, key=lambda reference: reference.pos))


def _tolerates_absence(node: Node) -> bool:
    if isinstance(node, Select):
        return node.test_only
    return isinstance(node, Call) and node.function != ast.INDEX


def _device_uses(root: Node) -> list[tuple[list[str], list[Node]]]:
    """Every use of ``device``: the constant keys selected from it, and the nodes that select them."""
    found: list[tuple[list[str], list[Node]]] = []
    stack: list[tuple[Node, frozenset[str]]] = [(root, frozenset())]
    while stack:
        node, shadowed = stack.pop()
        base, keys, selections = selection_chain(node)
        if isinstance(base, Ident) and base.name == "device" and "device" not in shadowed:
            found.append((keys, selections))
            # Computed keys after the constant ones can use the device as well.
            stack.extend((argument, shadowed) for argument in _computed_keys(node))
            continue
        if isinstance(node, Comprehension):
            inner = shadowed | {node.iter_var, node.accu_var} | ({node.iter_var2} if node.iter_var2 else set())
            stack.append((node.iter_range, shadowed))
            stack.append((node.accu_init, shadowed))
            stack.extend((part, inner) for part in (node.loop_condition, node.loop_step))
            # Only the accumulator is in scope in the result.
            stack.append((node.result, shadowed | {node.accu_var}))
            continue
        member = _membership(node, shadowed)
        if member is not None:
            found.append(member)
            continue
        stack.extend((child, shadowed) for child in children(node))
    return found


def _membership(node: Node, shadowed: frozenset[str]) -> tuple[list[str], list[Node]] | None:
    """``"name" in device.attributes["domain"]`` reads one name."""
    if not isinstance(node, Call) or node.function != ast.IN or "device" in shadowed:
        return None
    key, container = node.args
    if not isinstance(key, Const) or not isinstance(key.value, str):
        return None
    base, keys, selections = selection_chain(container)
    if not isinstance(base, Ident) or base.name != "device" or len(keys) != 2 or _computed_keys(container):
        return None
    return [*keys, key.value], [*selections, node]


def _selection(node: Node) -> tuple[Node, str | None] | None:
    """The operand of a selection or index, and its key if that is a constant string; None for other nodes."""
    if isinstance(node, Select):
        return node.operand, node.field
    if isinstance(node, Call) and node.function in (ast.INDEX, ast.OPT_INDEX, ast.OPT_SELECT):
        key = node.args[1]
        constant = key.value if isinstance(key, Const) and isinstance(key.value, str) else None
        return node.args[0], constant
    return None


def selection_chain(node: Node) -> tuple[Node, list[str], list[Node]]:
    """The base of a chain of selections, the constant keys nearest to it, and the nodes that select them."""
    chain: list[tuple[str | None, Node]] = []
    while (selection := _selection(node)) is not None:
        chain.append((selection[1], node))
        node = selection[0]
    keys: list[str] = []
    nodes: list[Node] = []
    for key, qualifying in reversed(chain):
        if key is None:
            break
        keys.append(key)
        nodes.append(qualifying)
    return node, keys, nodes


def _computed_keys(node: Node) -> list[Node]:
    """The keys of a chain of selections that are not constant strings."""
    found: list[Node] = []
    while (selection := _selection(node)) is not None:
        if selection[1] is None and isinstance(node, Call):
            found.append(node.args[1])
        node = selection[0]
    return found
