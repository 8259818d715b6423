"""C205: names looked up without their domain, which is what stands first in both maps of a device."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from allotment.cel.syntax import ast
from allotment.cel.syntax.ast import Call
from allotment.tools.check import examples
from allotment.tools.check.bundle import Bundle
from allotment.tools.check.names.known_names import words_of
from allotment.tools.check.rule import Fix, Found, Level, Rule
from allotment.tools.check.selectors.edits import mended
from allotment.tools.check.selectors.expressions import Access, Expression, in_each
from allotment.tools.check.selectors.missing_domains import meant
from allotment.tools.check.selectors.operands import is_accessor
from allotment.tools.views import SelectorView
from allotment.vocabulary import drivers

#: The ends of domains that are written as fields: ``device.attributes.gpu.nvidia.com.model``.
_ENDS: Final = frozenset({"com", "io", "org", "net", "dev"})


def of_selector(bundle: Bundle, view: SelectorView, read: Expression) -> Iterator[Found]:
    """Accesses whose first key is no domain."""
    for access in read.accesses:
        if not access.steps or words_of(bundle, access.domain) is not None:
            continue
        if any(driver == access.domain for driver, _ in read.drivers):
            continue
        found = _joined(view, access) or _split(view, access) or _nameless(bundle, view, read, access)
        if found is not None:
            yield found


def _joined(view: SelectorView, access: Access) -> Found | None:
    """``device.attributes["gpu.nvidia.com/model"]``: both in one key."""
    domain, slash, name = access.domain.partition("/")
    if not slash or not domain or not name:
        return None
    step = access.steps[0]
    if isinstance(step.node, Call) and step.node.function == ast.IN:
        text, extent = f'"{name}" in device.{access.kind}["{domain}"]', access.extent
    else:
        text, extent = f'["{domain}"]{_name(name)}', step.extent
    message = f"domain and name are two keys: {access.domain} is read as a domain, which no device has"
    fix = mended(view, "look up the domain, then the name", extent, text, safe=True)
    return Found(view.document, view.path, message, fix=fix, part=step.key_extent)


def _split(view: SelectorView, access: Access) -> Found | None:
    """``device.attributes.gpu.nvidia.com.model``: a domain read as fields."""
    keys = [step.key for step in access.steps]
    for number in range(2, len(keys) + 1):
        domain = ".".join(keys[:number])
        if not any(step.quoted for step in access.steps[:number]) and (
            domain in drivers() or (keys[number - 1] in _ENDS and "." not in access.domain)
        ):
            extent = (access.steps[0].extent[0], access.steps[number - 1].extent[1])
            message = f"a domain with dots stands in brackets and quotes: .{access.domain} is read as a whole domain"
            fix = mended(view, f'write ["{domain}"]', extent, f'["{domain}"]', safe=True)
            return Found(view.document, view.path, message, fix=fix, part=extent)
    return None


def _nameless(bundle: Bundle, view: SelectorView, read: Expression, access: Access) -> Found | None:
    """``device.attributes["model"]``, and a word that is no domain in a domain's place."""
    first = access.steps[0]
    if "." in first.key or not first.key:
        return None
    alone = len(access.steps) == 1 or is_accessor(bundle, access, 1)
    name = first.key if alone else access.name
    place = meant(bundle, view, read, name, access.kind)
    what = "an attribute" if access.kind == "attributes" else "a capacity"
    message = f'"{first.key}" is read as a domain here: the name of {what} comes second, after its domain'
    fix: Fix | None = None
    if place is not None:
        start = access.kind_extent[0]
        if isinstance(first.node, Call) and first.node.function == ast.IN:
            start, stop = access.extent
            text = f'"{name}" in device.{place.kind}["{place.domain}"]'
        else:
            stop = first.extent[1]
            text = f'{place.kind}["{place.domain}"]' + (_name(name) if alone else "")
        fix = mended(view, f"look it up in {place.domain}: {place.why}", (start, stop), text, safe=False)
    help_text = "" if fix else f'write device.{access.kind}["<driver>"].{name}, with the name of the driver'
    # Somebody may publish names in a domain of one word; nobody compares a whole map with a value.
    level: Level | None = None if alone else "warning"
    return Found(view.document, view.path, message, help=help_text, fix=fix, part=first.key_extent,
                 level="warning" if level == "warning" else None)  # fmt: skip


def _name(name: str) -> str:
    return f".{name}" if name.isidentifier() else f'["{name}"]'


RULE = Rule(
    code="C205",
    name="no-domain",
    family="cel",
    level="error",
    summary="an attribute or capacity looked up without its domain",
    why=(
        "device.attributes and device.capacity are maps of maps: the first key is a domain, mostly the driver's name,"
        " the second a name. A domain that a device does not have is an empty map, not an error, so"
        ' device.attributes["model"] finds nothing in silence; whatever is read from it, or compared with it, is an'
        " error: of the compiler where types cannot fit, else of the scheduler, which then tries the pod for ever."
    ),
    bad=examples.claim("ampere", selector='device.attributes["architecture"] == "Ampere"'),
    good=examples.claim("ampere", selector='device.attributes["gpu.nvidia.com"].architecture == "Ampere"'),
    find=in_each(of_selector),
    fixable="safe or unsafe",
    see="https://kep.k8s.io/4381",
)
