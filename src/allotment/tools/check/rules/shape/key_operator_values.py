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
from allotment.tools.check.rule import Fix, RuleMatch, Rule
from allotment.tools.check.selectors.cel_conversion import CelConversion, to_cel
from allotment.tools.views import at, mapping, strings, text

_DRIVER: Final = re.compile(r"""device\s*\.\s*driver\s*==\s*["']([^"']+)["']""")


def driver_of_class(bundle: Bundle, name: str) -> str:
    """The driver whose devices a class selects: by its own selector, or because the driver's chart installs it.

    Empty where nothing tells.
    """
    device_class = bundle.known_classes.get(name)
    expressions = [view.expression for class_view in bundle.classes if class_view.name == name for view in class_view.selectors]
    if device_class is not None:
        expressions += [selector.cel.expression for selector in device_class.spec.selectors if selector.cel is not None]
    for expression in expressions:
        if found := _DRIVER.search(expression):
            return found[1]
    return next((vocab.driver for vocab in vocabularies(bundle) if vocab.device_class(name) is not None), "")


def _find(bundle: Bundle) -> Iterator[RuleMatch]:
    """Selectors with a key, each once."""
    reported: set[tuple[int, Path]] = set()
    for error in decoding_errors_for(bundle, "key-operator-values"):
        document, path = error.document, error.misfit.path[:-1]
        if (id(document), path) in reported:
            continue
        reported.add((id(document), path))
        selector = mapping(at(document.tree, path))
        # The class stands beside the selectors; a DeviceClass is one itself.
        parent = mapping(at(document.tree, path[:-2]))
        driver = driver_of_class(bundle, text(parent.get("deviceClassName")) or document.name)
        conversion = _convert(selector, driver) if "cel" not in selector else None
        yield RuleMatch(
            document,
            (*path, "key"),
            "a selector is a CEL expression; key, operator and values were never part of DRA",
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
    summary="a selector is written with key, operator and values instead of CEL",
    why=(
        "Labels and affinities are selected with key, operator and values; devices never were. The only selector that"
        " DRA has ever had since structured parameters (KEP-4381) is cel with an expression over device. The API server"
        " refuses the unknown fields, or drops them and asks for cel. A driver's sizes are capacities, and the"
        " expression needs the driver's domain and a quantity with a unit."
    ),
    bad=examples.claim("training", request_extra='selectors:\n- key: memory\n  operator: Gt\n  values: ["24000"]'),
    good=examples.claim(
        "training", selector='device.capacity["gpu.nvidia.com"].memory.isGreaterThan(quantity("24000Mi"))'
    ),
    find=_find,
    fixable="unsafe",
    see="https://kep.k8s.io/4381",
)
