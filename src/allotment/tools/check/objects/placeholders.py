"""Values that something fills in before a cluster sees them: ``${NAMESPACE}``, ``$(VERSION)``, ``$NAME``.

envsubst, Flux and scripts replace them. What stands there in the end nobody can tell from the file.
"""

from __future__ import annotations

import re
from typing import Any, Final

_VARIABLE: Final = re.compile(r"\$(\{[A-Za-z_]|\([A-Za-z_]|[A-Za-z_])")


def is_placeholder(value: Any) -> bool:
    """Whether a value is, or has in it, the name of a variable.

    >>> is_placeholder("${APP}-gpu"), is_placeholder("$NAME"), is_placeholder("gpu"), is_placeholder("costs 5$")
    (True, True, False, False)
    """
    return isinstance(value, str) and bool(_VARIABLE.search(value))
