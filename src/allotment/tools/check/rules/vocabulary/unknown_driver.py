"""V305: a driver that nobody has under that name."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from allotment.cel.source_spans import Extent
from allotment.model.editing.edits import Edit, ReplaceText, SetValue
from allotment.tools.check import examples
from allotment.tools.check.bundle import Bundle
from allotment.tools.check.names.known_names import STANDARD, slip, vocabularies
from allotment.tools.check.rule import Fix, Found, Level, Rule
from allotment.tools.check.selectors.expressions import Expression, read_selectors
from allotment.tools.check.selectors.necessary_conditions import is_certain_at
from allotment.tools.views import ClaimView, ClassView, SelectorView, at, text
from allotment.vocabulary import drivers

#: Domains that are reserved for examples (RFC 2606).
_EXAMPLE_DOMAIN: Final = re.compile(r"(^|\.)example(\.(com|net|org|io))?$")


def _find(bundle: Bundle) -> Iterator[Found]:
    names = _Names(bundle)
    for view, read in read_selectors(bundle):
        for name, extent in read.drivers:
            yield from names.unknown(view, read, name, extent, f'no driver is called "{name}"')
        seen: set[str] = set()
        tested = {name for name, _ in read.drivers if not names.meant(name)}
        for access in read.accesses:
            # A domain without a dot is C205's: most likely a name stands in its place.
            # One with a slash is, too; one that device.driver is compared with is told of there.
            if not access.steps or "." not in access.domain or "/" in access.domain or access.domain in tested:
                continue
            if access.domain not in seen or names.meant(access.domain):
                seen.add(access.domain)
                message = f'no driver publishes anything in "{access.domain}"'
                yield from names.unknown(view, read, access.domain, access.steps[0].key_extent, message)
    holders: tuple[ClaimView | ClassView, ...] = (*bundle.claims, *bundle.classes)
    for holder in holders:
        for config in holder.configs:
            path = (*config.path, "opaque", "driver")
            meant = names.meant(config.driver) if config.driver else ""
            if meant:
                yield Found(
                    holder.document,
                    path,
                    f'no driver is called "{config.driver}", so nobody reads these parameters: '
                    f"{names.vendor(meant)} is {meant}",
                    fix=_fix(holder, SetValue(path, meant), meant),
                )


class _Names:
    """Drivers that there are: known ones, and those of slices and parameters in the files or the cluster."""

    def __init__(self, bundle: Bundle) -> None:
        given = bundle.published
        self.given = given
        own = {text(at(d.tree, ("spec", "driver"))) for d in bundle.documents if d.kind == "ResourceSlice"}
        self.real = {*drivers(), STANDARD, *own, *(given.domains() if given is not None else ())}
        self.mistaken = {name: words.driver for words in vocabularies(bundle) for name in words.mistaken}
        self.titles = {words.driver: words.title for words in vocabularies(bundle)}

    def meant(self, name: str) -> str:
        """The driver that is meant by a name that is none; empty where it is one, or nobody knows."""
        if name in self.real or not name:
            return ""
        if name in self.mistaken:
            return self.mistaken[name]
        # Names of examples are made up, and many of them alike: acme.example.com is none of gpu.example.com's.
        return "" if _EXAMPLE_DOMAIN.search(name) else slip(name, self.real - {STANDARD})

    def vendor(self, driver: str) -> str:
        """What to call a driver before its name is told."""
        title = self.titles.get(driver, "")
        return f"that of {title.partition(':')[0]}" if title else "the nearest"

    def unknown(self, view: SelectorView, read: Expression, name: str, extent: Extent, message: str) -> Iterator[Found]:
        """What is to be said of a driver's name in an expression."""
        meant = self.meant(name)
        absent = self.given is not None and bool(self.given.drivers) and name not in self.real
        if not meant and not absent:
            return
        level: Level = "error" if absent and is_certain_at(read, extent) else "warning"
        quote = view.expression[extent[0]]
        fix = None
        if meant:
            message += f": {self.vendor(meant)} is {meant}"
            if quote in "\"'":
                edit = ReplaceText(view.path, extent[0], extent[1], f"{quote}{meant}{quote}")
                fix = _fix(view, edit, meant)
        elif absent:
            message += " in the cluster"
        yield Found(view.document, view.path, message, fix=fix, part=extent, level=level)


def _fix(holder: SelectorView | ClaimView | ClassView, edit: Edit, meant: str) -> Fix:
    return Fix(f"write {meant}", ((holder.document, edit),), safe=False)


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
