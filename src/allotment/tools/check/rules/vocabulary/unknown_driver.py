"""V305: a driver name that no driver has."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from allotment.cel.source_spans import TextSpan
from allotment.model.editing.edits import Edit, ReplaceText, SetValue
from allotment.tools.check import examples
from allotment.tools.check.bundle import Bundle
from allotment.tools.check.claims.requested_devices import requested_types
from allotment.tools.check.names.known_names import STANDARD_DOMAIN, typo_of, vocabularies
from allotment.tools.check.rule import Fix, Level, Rule, RuleMatch
from allotment.tools.check.selectors.expressions import Expression, parsed_selectors
from allotment.tools.check.selectors.necessary_conditions import is_necessary_at
from allotment.tools.views import ClaimView, ClassView, SelectorView, at, text
from allotment.vocabulary import drivers

#: Domains that are reserved for examples (RFC 2606).
_EXAMPLE_DOMAIN: Final = re.compile(r"(^|\.)example(\.(com|net|org|io))?$")


def _find(bundle: Bundle) -> Iterator[RuleMatch]:
    names = _DriverNames(bundle)
    request_of = {selector: request for c in bundle.claims for request in c.requests for selector in request.selectors}
    for view, expr in parsed_selectors(bundle):
        for name, extent in expr.compared_drivers:
            yield from names.report_unknown(view, expr, name, extent, f'no driver is named "{name}"')
        reported: set[str] = set()
        tested = {name for name, _ in expr.compared_drivers if not names.suggestion(name)}
        for access in expr.accesses:
            # C205 reports domains without a dot, which are probably names, and those with a slash.
            # A domain that device.driver is compared with is reported there.
            if not access.steps or "." not in access.domain or "/" in access.domain or access.domain in tested:
                continue
            if access.domain not in reported or names.suggestion(access.domain):
                reported.add(access.domain)
                message = f'no driver publishes names in domain "{access.domain}"'
                extent, request = access.steps[0].key_extent, request_of.get(view)
                types = requested_types(bundle, request) if request is not None and not access.is_optional else None
                # The devices of the request's class have the names of its driver, so the name is certainly a typo.
                driver = types.vocabulary.driver if types is not None else ""
                yield from names.report_unknown(view, expr, access.domain, extent, message, driver)
    views: tuple[ClaimView | ClassView, ...] = (*bundle.claims, *bundle.classes)
    for owner in views:
        for config in owner.configs:
            path = (*config.path, "opaque", "driver")
            suggestion = names.suggestion(config.driver) if config.driver else ""
            if suggestion:
                yield RuleMatch(
                    owner.document,
                    path,
                    f'no driver is named "{config.driver}", so these parameters are not read: '
                    f"{names.description(suggestion)} is {suggestion}",
                    fix=_fix(owner, SetValue(path, suggestion), suggestion),
                )


class _DriverNames:
    """The driver names that exist: known drivers, and those of slices and parameters in the files or the cluster."""

    def __init__(self, bundle: Bundle) -> None:
        published = bundle.published
        self.published = published
        slice_drivers = {text(at(d.tree, ("spec", "driver"))) for d in bundle.documents if d.kind == "ResourceSlice"}
        self.existing = {
            *drivers(),
            STANDARD_DOMAIN,
            *slice_drivers,
            *(published.domains() if published is not None else ()),
        }
        self.mistaken = {name: vocab.driver for vocab in vocabularies(bundle) for name in vocab.mistaken}
        self.titles = {vocab.driver: vocab.title for vocab in vocabularies(bundle)}

    def suggestion(self, name: str) -> str:
        """The driver that was probably intended; empty if the name exists or there is no suggestion."""
        if name in self.existing or not name:
            return ""
        if name in self.mistaken:
            return self.mistaken[name]
        # Example domains are invented and often similar: acme.example.com is no typo of gpu.example.com.
        return "" if _EXAMPLE_DOMAIN.search(name) else typo_of(name, self.existing - {STANDARD_DOMAIN})

    def description(self, driver: str) -> str:
        """A description of a driver, followed by its name in messages."""
        title = self.titles.get(driver, "")
        return f"the driver for {title.partition(':')[0]}" if title else "the closest name"

    def report_unknown(
        self, view: SelectorView, expr: Expression, name: str, extent: TextSpan, message: str, driver: str = ""
    ) -> Iterator[RuleMatch]:
        """The match for a driver name in an expression, if it is unknown. ``driver``: that of the requested devices."""
        suggestion = self.suggestion(name)
        is_absent = self.published is not None and bool(self.published.drivers) and name not in self.existing
        if not suggestion and not is_absent:
            return
        is_certain = is_absent or (suggestion != "" and suggestion == driver)
        level: Level = "error" if is_certain and is_necessary_at(expr, extent) else "warning"
        quote = view.expression[extent[0]]
        fix = None
        if suggestion:
            message += f": {self.description(suggestion)} is {suggestion}"
            if quote in "\"'":
                edit = ReplaceText(view.path, extent[0], extent[1], f"{quote}{suggestion}{quote}")
                fix = _fix(view, edit, suggestion)
        elif is_absent:
            message += " in the cluster"
        yield RuleMatch(view.document, view.path, message, fix=fix, span=extent, level=level)


def _fix(view: SelectorView | ClaimView | ClassView, edit: Edit, suggestion: str) -> Fix:
    return Fix(f"write {suggestion}", ((view.document, edit),), safe=False)


RULE = Rule(
    code="V305",
    name="unknown-driver",
    family="vocabulary",
    level="warning",
    summary="no driver has this name",
    why=(
        "A selector that compares device.driver with an unknown name is false for every device, without an "
        "error; parameters for such a driver are never read. The names of device plugin resources "
        "(nvidia.com/gpu) are not driver names (gpu.nvidia.com). An unknown domain that is a misspelling of the "
        "driver of the request's class is an error, because its devices never have such names."
    ),
    bad=examples.device_class("any-gpu", 'device.driver == "nvidia.com"'),
    good=examples.device_class("any-gpu", 'device.driver == "gpu.nvidia.com"'),
    find=_find,
    fixable="unsafe",
)
