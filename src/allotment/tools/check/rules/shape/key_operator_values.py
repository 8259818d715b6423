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
from allotment.tools.check.objects.decoding_errors import misfits_of
from allotment.tools.check.rule import Fix, Found, Rule
from allotment.tools.check.selectors.cel_conversion import InCel, in_cel
from allotment.tools.views import at, mapping, strings, text

_DRIVER: Final = re.compile(r"""device\s*\.\s*driver\s*==\s*["']([^"']+)["']""")


def driver_of_class(bundle: Bundle, name: str) -> str:
    """The driver whose devices a class selects: by its own selector, or because the driver's chart installs it.

    Empty where nothing tells.
    """
    known = bundle.known_classes.get(name)
    written = [view.expression for one in bundle.classes if one.name == name for view in one.selectors]
    if known is not None:
        written += [selector.cel.expression for selector in known.spec.selectors if selector.cel is not None]
    for expression in written:
        if found := _DRIVER.search(expression):
            return found[1]
    return next((words.driver for words in vocabularies(bundle) if words.device_class(name) is not None), "")


def _find(bundle: Bundle) -> Iterator[Found]:
    """Selectors with a key, each once."""
    told: set[tuple[int, Path]] = set()
    for owned in misfits_of(bundle, "key-operator-values"):
        document, path = owned.document, owned.misfit.path[:-1]
        if (id(document), path) in told:
            continue
        told.add((id(document), path))
        selector = mapping(at(document.tree, path))
        # The class stands beside the selectors; a DeviceClass is one itself.
        beside = mapping(at(document.tree, path[:-2]))
        driver = driver_of_class(bundle, text(beside.get("deviceClassName")) or document.name)
        meant = _meant(selector, driver) if "cel" not in selector else None
        yield Found(
            document,
            (*path, "key"),
            "a selector is a CEL expression; key, operator and values were never part of DRA",
            help="" if meant else 'write cel: {expression: device.attributes["<driver>"].<name> == "<value>"}',
            fix=Fix(
                f"select with CEL ({meant.guessed})",
                ((document, SetValue(path, {"cel": {"expression": meant.expression}})),),
                safe=False,
            )
            if meant
            else None,
            key=True,
        )


def _meant(selector: dict[str, object], driver: str) -> InCel | None:
    written = selector.get("values", selector.get("value"))
    values = strings(written) or tuple(
        str(one).lower() if isinstance(one, bool) else str(one)
        for one in (written if isinstance(written, list) else [written])
        if isinstance(one, str | int | float)
    )
    return in_cel(text(selector.get("key")), text(selector.get("operator")), values, driver)


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
    bad=examples.claim("training", more='selectors:\n- key: memory\n  operator: Gt\n  values: ["24000"]'),
    good=examples.claim(
        "training", selector='device.capacity["gpu.nvidia.com"].memory.isGreaterThan(quantity("24000Mi"))'
    ),
    find=_find,
    fixable="unsafe",
    see="https://kep.k8s.io/4381",
)
