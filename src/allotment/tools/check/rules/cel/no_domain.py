"""C205: attributes or capacities read without their domain, which is the first key of both maps of a device."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from allotment.cel.syntax import ast
from allotment.cel.syntax.ast import Call
from allotment.tools.check import examples
from allotment.tools.check.bundle import Bundle
from allotment.tools.check.names.known_names import vocabulary_of
from allotment.tools.check.rule import Fix, Level, Rule, RuleMatch
from allotment.tools.check.selectors.edits import replacement_fix
from allotment.tools.check.selectors.expressions import DeviceAccess, Expression, for_each_selector
from allotment.tools.check.selectors.missing_domains import guess_domain
from allotment.tools.check.selectors.operands import is_value_accessor
from allotment.tools.views import SelectorView
from allotment.vocabulary import drivers

#: Last parts of domains that are written as fields: ``device.attributes.gpu.nvidia.com.model``.
_TOP_LEVEL_DOMAINS: Final = frozenset({"com", "io", "org", "net", "dev"})


def of_selector(bundle: Bundle, view: SelectorView, expr: Expression) -> Iterator[RuleMatch]:
    """Accesses whose first key is not a domain."""
    for access in expr.accesses:
        if not access.steps or vocabulary_of(bundle, access.domain) is not None:
            continue
        if any(driver == access.domain for driver, _ in expr.compared_drivers):
            continue
        match = (
            _domain_and_name_in_one_key(view, access)
            or _domain_as_fields(view, access)
            or _domain_missing(bundle, view, expr, access)
        )
        if match is not None:
            yield match


def _domain_and_name_in_one_key(view: SelectorView, access: DeviceAccess) -> RuleMatch | None:
    """``device.attributes["gpu.nvidia.com/model"]``: domain and name in one key, also with a dot between them."""
    domain, _, name = access.domain.partition("/")
    if not name:
        domain = next((driver for driver in drivers() if access.domain.startswith(f"{driver}.")), "")
        name = access.domain.removeprefix(f"{domain}.")
    if not domain or not name:
        return None
    step = access.steps[0]
    if isinstance(step.node, Call) and step.node.function == ast.IN:
        text, extent = f'"{name}" in device.{access.kind}["{domain}"]', access.extent
    else:
        text, extent = f'["{domain}"]{_name_access(name)}', step.extent
    message = f"the domain and the name must be separate keys: no device has the domain {access.domain}"
    fix = replacement_fix(view, "use the domain as the first key and the name as the second", extent, text, safe=True)
    return RuleMatch(view.document, view.path, message, fix=fix, span=step.key_extent)


def _domain_as_fields(view: SelectorView, access: DeviceAccess) -> RuleMatch | None:
    """``device.attributes.gpu.nvidia.com.model``: a domain written as fields."""
    keys = [step.key for step in access.steps]
    for number in range(2, len(keys) + 1):
        domain = ".".join(keys[:number])
        if not any(step.is_quoted for step in access.steps[:number]) and (
            domain in drivers() or (keys[number - 1] in _TOP_LEVEL_DOMAINS and "." not in access.domain)
        ):
            extent = (access.steps[0].extent[0], access.steps[number - 1].extent[1])
            message = (
                f"a domain with dots must be in brackets and quotes: here, only {access.domain} is read as the domain"
            )
            fix = replacement_fix(view, f'write ["{domain}"]', extent, f'["{domain}"]', safe=True)
            return RuleMatch(view.document, view.path, message, fix=fix, span=extent)
    return None


def _domain_missing(bundle: Bundle, view: SelectorView, expr: Expression, access: DeviceAccess) -> RuleMatch | None:
    """``device.attributes["model"]``, or another key in place of the domain, with a dot only if it is a known name."""
    first = access.steps[0]
    if not first.key:
        return None
    is_name = len(access.steps) == 1 or is_value_accessor(bundle, access, 1)
    name = first.key if is_name else access.name
    guess = guess_domain(bundle, view, expr, name, access.kind)
    if "." in first.key and not (is_name and guess is not None and _is_guessed_name(bundle, guess.domain, name)):
        return None
    noun = "an attribute" if access.kind == "attributes" else "a capacity"
    message = f'"{first.key}" is read as a domain: the domain must come before the name of {noun}'
    fix: Fix | None = None
    if guess is not None:
        start = access.kind_extent[0]
        if isinstance(first.node, Call) and first.node.function == ast.IN:
            start, stop = access.extent
            text = f'"{name}" in device.{guess.kind}["{guess.domain}"]'
        else:
            stop = first.extent[1]
            text = f'{guess.kind}["{guess.domain}"]' + (_name_access(name) if is_name else "")
        fix = replacement_fix(
            view, f"read it from domain {guess.domain}: {guess.reason}", (start, stop), text, safe=False
        )
    help_text = "" if fix else f'write device.{access.kind}["<driver>"].{name}, with the name of the driver'
    # A domain without dots is possible, but comparing a whole map with a value is always a mistake.
    level: Level | None = None if is_name else "warning"
    return RuleMatch(view.document, view.path, message, help=help_text, fix=fix, span=first.key_extent,
                 level="warning" if level == "warning" else None)  # fmt: skip


def _is_guessed_name(bundle: Bundle, domain: str, name: str) -> bool:
    """Whether a name with a dot stands for one of a driver, as ``gpu.memory`` of node labels does."""
    vocab = vocabulary_of(bundle, domain)
    return vocab is not None and name in vocab.guessed


def _name_access(name: str) -> str:
    return f".{name}" if name.isidentifier() else f'["{name}"]'


RULE = Rule(
    code="C205",
    name="no-domain",
    family="cel",
    level="error",
    summary="an attribute or capacity is read without its domain",
    why=(
        "device.attributes and device.capacity are maps of maps: the first key is a domain, usually the driver's "
        "name, and the second key is the name of the attribute or capacity. Looking up a domain that a device does "
        'not have yields an empty map instead of an error, and so does device.attributes["model"]. Reading a name '
        "from an empty map, or comparing the map with a value, is an error: at compile time if the types cannot "
        "match, otherwise when the pod is scheduled. The scheduler then retries indefinitely."
    ),
    bad=examples.claim("ampere", selector='device.attributes["architecture"] == "Ampere"'),
    good=examples.claim("ampere", selector='device.attributes["gpu.nvidia.com"].architecture == "Ampere"'),
    find=for_each_selector(of_selector),
    fixable="safe or unsafe",
    see="https://kep.k8s.io/4381",
)
