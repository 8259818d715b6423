"""Placeholders that a tool replaces before objects reach a cluster: ``${NAMESPACE}``, ``$(VERSION)``, ``$NAME``.

envsubst, Flux and scripts replace them; the final value is not known from the file.
"""

from __future__ import annotations

import re
from typing import Any, Final

_VARIABLE: Final = re.compile(r"\$(\{[A-Za-z_]|\([A-Za-z_]|[A-Za-z_])")


def is_placeholder(value: Any) -> bool:
    """Whether a value is a string that contains a variable.

    >>> is_placeholder("${APP}-gpu"), is_placeholder("$NAME"), is_placeholder("gpu"), is_placeholder("costs 5$")
    (True, True, False, False)
    """
    return isinstance(value, str) and bool(_VARIABLE.search(value))
