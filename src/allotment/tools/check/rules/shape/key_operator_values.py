"""S104: selectors of key, operator and values, which no version of DRA ever had."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from allotment.model.editing.edits import SetValue
from allotment.model.loading.marks import Path
from allotment.tools.check import examples
from allotment.tools.check.bundle import Bundle
from allotment.tools.check.names.known_names import vocabularies
from allotment.tools.check.objects.decoding_errors import decoding_errors_for
from allotment.tools.check.rule import Fix, Rule, RuleMatch
from allotment.tools.check.selectors.cel_conversion import CelConversion, to_cel
from allotment.tools.views import at, mapping, strings, text

_DRIVER: Final = re.compile(r"""device\s*\.\s*driver\s*==\s*["']([^"']+)["']""")


def driver_of_class(bundle: Bundle, name: str) -> str:
    """The driver whose devices a class selects, from its selectors or because the driver's chart installs it.

    Empty if unknown.
    """
    device_class = bundle.known_classes.get(name)
    expressions = [
        view.expression for class_view in bundle.classes if class_view.name == name for view in class_view.selectors
    ]
    if device_class is not None:
        expressions += [selector.cel.expression for selector in device_class.spec.selectors if selector.cel is not None]
    for expression in expressions:
        if match := _DRIVER.search(expression):
            return match[1]
    return next((vocab.driver for vocab in vocabularies(bundle) if vocab.device_class(name) is not None), "")


def _find(bundle: Bundle) -> Iterator[RuleMatch]:
    """The selectors with a key, each once."""
    reported: set[tuple[int, Path]] = set()
    for error in decoding_errors_for(bundle, "key-operator-values"):
        document, path = error.document, error.misfit.path[:-1]
        if (id(document), path) in reported:
            continue
        reported.add((id(document), path))
        selector = mapping(at(document.tree, path))
        # A request has its class next to the selectors; a DeviceClass is the class itself.
        parent = mapping(at(document.tree, path[:-2]))
        driver = driver_of_class(bundle, text(parent.get("deviceClassName")) or document.name)
        conversion = _convert(selector, driver) if "cel" not in selector else None
        yield RuleMatch(
            document,
            (*path, "key"),
            "a device selector is a CEL expression; key, operator and values are not supported",
            help="" if conversion else 'write cel: {expression: device.attributes["<driver>"].<name> == "<value>"}',
            fix=Fix(
                f"select with CEL ({conversion.assumptions})",
                ((document, SetValue(path, {"cel": {"expression": conversion.expression}})),),
                safe=False,
            )
            if conversion
            else None,
            at_key=True,
        )


def _convert(selector: dict[str, object], driver: str) -> CelConversion | None:
    value = selector.get("values", selector.get("value"))
    values = strings(value) or tuple(
        str(item).lower() if isinstance(item, bool) else str(item)
        for item in (value if isinstance(value, list) else [value])
        if isinstance(item, str | int | float)
    )
    return to_cel(text(selector.get("key")), text(selector.get("operator")), values, driver)


RULE = Rule(
    code="S104",
    name="key-operator-values",
    family="shape",
    level="error",
    summary="a selector has key, operator and values instead of a CEL expression",
    why=(
        "Label selectors and affinities use key, operator and values; device selectors never did. With structured "
        "parameters (KEP-4381), the only kind of selector is cel, with an expression that is evaluated for each "
        "device. The API server rejects the unknown fields, or drops them and rejects the selector because cel is "
        "missing. Sizes are published as capacities: the expression needs the driver's domain and a quantity with a "
        "unit."
    ),
    bad=examples.claim("training", request_extra='selectors:\n- key: memory\n  operator: Gt\n  values: ["24000"]'),
    good=examples.claim(
        "training", selector='device.capacity["gpu.nvidia.com"].memory.isGreaterThan(quantity("24000Mi"))'
    ),
    find=_find,
    fixable="unsafe",
    see="https://kep.k8s.io/4381",
)
