"""Which parts of a device an expression can see, and where it names them.

The engine evaluates a selector once for all devices that agree on what it reads. A path that ends before a value (the
number of a domain's attributes, a loop over them) reads everything below it; a ``device`` that is used as a whole, or
selected from by a computed key, reads the whole device.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from allotment.cel.syntax import ast
from allotment.cel.syntax.ast import Call, Comprehension, Const, Ident, Node, Select, children

#: ("driver",), ("allowMultipleAllocations",), ("attributes",), ("attributes", domain), ("attributes", domain, id) and
#: the same with "capacity".
Read: TypeAlias = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Reference:
    """An attribute or capacity that an expression names, and the code point offset of its name.

    ``optional`` when the expression provides for its absence (``has``, ``.?``, ``in``): a name that nobody publishes is
    then no mistake.
    """

    kind: Literal["attributes", "capacity"]
    domain: str
    name: str
    pos: int
    optional: bool


def reads(node: Node) -> frozenset[Read] | None:
    """What an expression can see of the device, None for all of it."""
    found: set[Read] = set()
    for path, _ in _paths(node):
        if not path:
            return None
        found.add(tuple(path[:3]) if path[0] in ("attributes", "capacity") else (path[0],))
    return frozenset(read for read in found if not any(read[:n] in found for n in range(1, len(read))))


def references(node: Node) -> tuple[Reference, ...]:
    """The attributes and capacities that an expression names, in order of their position."""
    found: list[Reference] = []
    for path, selections in _paths(node):
        if len(path) > 2 and path[0] in ("attributes", "capacity"):
            kind: Literal["attributes", "capacity"] = "attributes" if path[0] == "attributes" else "capacity"
            optional = any(_tolerant(s) for s in selections[1:3])
            found.append(Reference(kind, path[1], path[2], selections[2].pos, optional))
    return tuple(sorted(found, key=lambda reference: reference.pos))


def _tolerant(node: Node) -> bool:
    if isinstance(node, Select):
        return node.test_only
    return isinstance(node, Call) and node.function != ast.INDEX


def _paths(root: Node) -> list[tuple[list[str], list[Node]]]:
    """Every use of ``device``: the constant keys selected from it, and the nodes that select them."""
    found: list[tuple[list[str], list[Node]]] = []
    stack: list[tuple[Node, frozenset[str]]] = [(root, frozenset())]
    while stack:
        node, shadowed = stack.pop()
        base, keys, selections = selected(node)
        if isinstance(base, Ident) and base.name == "device" and "device" not in shadowed:
            found.append((keys, selections))
            # Computed keys behind the constant ones may use the device again.
            stack.extend((argument, shadowed) for argument in _computed(node))
            continue
        if isinstance(node, Comprehension):
            inner = shadowed | {node.iter_var, node.accu_var} | ({node.iter_var2} if node.iter_var2 else set())
            stack.append((node.iter_range, shadowed))
            stack.append((node.accu_init, shadowed))
            stack.extend((part, inner) for part in (node.loop_condition, node.loop_step))
            # The result sees the accumulator only.
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
    base, keys, selections = selected(container)
    if not isinstance(base, Ident) or base.name != "device" or len(keys) != 2 or _computed(container):
        return None
    return [*keys, key.value], [*selections, node]


def _step(node: Node) -> tuple[Node, str | None] | None:
    """What a node selects from, and the constant string that it selects; None when it selects nothing."""
    if isinstance(node, Select):
        return node.operand, node.field
    if isinstance(node, Call) and node.function in (ast.INDEX, ast.OPT_INDEX, ast.OPT_SELECT):
        key = node.args[1]
        constant = key.value if isinstance(key, Const) and isinstance(key.value, str) else None
        return node.args[0], constant
    return None


def selected(node: Node) -> tuple[Node, list[str], list[Node]]:
    """The base of a chain of selections, the constant keys nearest to it, and the nodes that select them."""
    chain: list[tuple[str | None, Node]] = []
    while (step := _step(node)) is not None:
        chain.append((step[1], node))
        node = step[0]
    keys: list[str] = []
    nodes: list[Node] = []
    for key, selection in reversed(chain):
        if key is None:
            break
        keys.append(key)
        nodes.append(selection)
    return node, keys, nodes


def _computed(node: Node) -> list[Node]:
    """The keys of a chain of selections that are not constant strings."""
    found: list[Node] = []
    while (step := _step(node)) is not None:
        if step[1] is None and isinstance(node, Call):
            found.append(node.args[1])
        node = step[0]
    return found
