"""Whose devices a class selects, as far as that can be told from what is written and from vendors' charts."""

from __future__ import annotations

import re
from typing import Final

from allotment.tools.check.bundle import Bundle
from allotment.tools.check.names.known_names import vocabularies

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
