"""V305: a driver that nobody has under that name."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from allotment.cel.source_spans import Extent
from allotment.model.editing.edits import Edit, ReplaceText, SetValue
from allotment.tools.check import examples
from allotment.tools.check.bundle import Bundle
from allotment.tools.check.names.known_names import STANDARD_DOMAIN, typo_of, vocabularies
from allotment.tools.check.rule import Fix, RuleMatch, Level, Rule
from allotment.tools.check.selectors.expressions import Expression, parsed_selectors
from allotment.tools.check.selectors.necessary_conditions import is_necessary_at
from allotment.tools.views import ClaimView, ClassView, SelectorView, at, text
from allotment.vocabulary import drivers

#: Domains that are reserved for examples (RFC 2606).
_EXAMPLE_DOMAIN: Final = re.compile(r"(^|\.)example(\.(com|net|org|io))?$")


def _find(bundle: Bundle) -> Iterator[RuleMatch]:
    names = _DriverNames(bundle)
    for view, expr in parsed_selectors(bundle):
        for name, extent in expr.compared_drivers:
            yield from names.unknown(view, expr, name, extent, f'no driver is called "{name}"')
        seen: set[str] = set()
        tested = {name for name, _ in expr.compared_drivers if not names.meant(name)}
        for access in expr.accesses:
            # A domain without a dot is C205's: most likely a name stands in its place.
            # One with a slash is, too; one that device.driver is compared with is told of there.
            if not access.steps or "." not in access.domain or "/" in access.domain or access.domain in tested:
                continue
            if access.domain not in seen or names.meant(access.domain):
                seen.add(access.domain)
                message = f'no driver publishes anything in "{access.domain}"'
                yield from names.unknown(view, expr, access.domain, access.steps[0].key_extent, message)
    holders: tuple[ClaimView | ClassView, ...] = (*bundle.claims, *bundle.classes)
    for holder in holders:
        for config in holder.configs:
            path = (*config.path, "opaque", "driver")
            suggestion = names.meant(config.driver) if config.driver else ""
            if suggestion:
                yield RuleMatch(
                    holder.document,
                    path,
                    f'no driver is called "{config.driver}", so nobody reads these parameters: '
                    f"{names.vendor(suggestion)} is {suggestion}",
                    fix=_fix(holder, SetValue(path, suggestion), suggestion),
                )


class _DriverNames:
    """Drivers that there are: known ones, and those of slices and parameters in the files or the cluster."""

    def __init__(self, bundle: Bundle) -> None:
        published = bundle.published
        self.given = published
        slice_drivers = {text(at(d.tree, ("spec", "driver"))) for d in bundle.documents if d.kind == "ResourceSlice"}
        self.real = {*drivers(), STANDARD_DOMAIN, *slice_drivers, *(published.domains() if published is not None else ())}
        self.mistaken = {name: vocab.driver for vocab in vocabularies(bundle) for name in vocab.mistaken}
        self.titles = {vocab.driver: vocab.title for vocab in vocabularies(bundle)}

    def meant(self, name: str) -> str:
        """The driver that is meant by a name that is none; empty where it is one, or nobody knows."""
        if name in self.real or not name:
            return ""
        if name in self.mistaken:
            return self.mistaken[name]
        # Names of examples are made up, and many of them alike: acme.example.com is none of gpu.example.com's.
        return "" if _EXAMPLE_DOMAIN.search(name) else typo_of(name, self.real - {STANDARD_DOMAIN})

    def vendor(self, driver: str) -> str:
        """What to call a driver before its name is told."""
        title = self.titles.get(driver, "")
        return f"that of {title.partition(':')[0]}" if title else "the nearest"

    def unknown(self, view: SelectorView, expr: Expression, name: str, extent: Extent, message: str) -> Iterator[RuleMatch]:
        """What is to be said of a driver's name in an expression."""
        suggestion = self.meant(name)
        is_absent = self.given is not None and bool(self.given.drivers) and name not in self.real
        if not suggestion and not is_absent:
            return
        level: Level = "error" if is_absent and is_necessary_at(expr, extent) else "warning"
        quote = view.expression[extent[0]]
        fix = None
        if suggestion:
            message += f": {self.vendor(suggestion)} is {suggestion}"
            if quote in "\"'":
                edit = ReplaceText(view.path, extent[0], extent[1], f"{quote}{suggestion}{quote}")
                fix = _fix(view, edit, suggestion)
        elif is_absent:
            message += " in the cluster"
        yield RuleMatch(view.document, view.path, message, fix=fix, span=extent, level=level)


def _fix(holder: SelectorView | ClaimView | ClassView, edit: Edit, suggestion: str) -> Fix:
    return Fix(f"write {suggestion}", ((holder.document, edit),), safe=False)


RULE = Rule(
    code="V305",
    name="unknown-driver",
    family="vocabulary",
    level="warning",
    summary="a driver's name that no driver has",
    why=(
        "A selector that compares device.driver with a name nobody has is false for every device, without any error; "
        "parameters for such a driver are read by nobody. The names of resources of device plugins (nvidia.com/gpu) "
        "are not those of drivers (gpu.nvidia.com)."
    ),
    bad=examples.device_class("any-gpu", 'device.driver == "nvidia.com"'),
    good=examples.device_class("any-gpu", 'device.driver == "gpu.nvidia.com"'),
    find=_find,
    fixable="unsafe",
)
