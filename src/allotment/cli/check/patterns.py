"""Patterns of files in configuration, as people know them from ``.gitignore``."""

from __future__ import annotations

import re
from functools import lru_cache


def matches(pattern: str, path: str) -> bool:
    """Whether a pattern means a path, both with ``/``, relative to one folder.

    Without a slash it means every file or folder of that name; with one the path from the folder on. ``**`` is any
    number of folders. What means a folder means everything in it.

    >>> matches("charts", "app/charts/gpu.yaml"), matches("charts/*.yaml", "app/charts/gpu.yaml")
    (True, False)
    >>> matches("**/charts/*.yaml", "app/charts/gpu.yaml"), matches("app/**", "app/charts/gpu.yaml")
    (True, True)
    """
    return _compiled(pattern).fullmatch(path) is not None


@lru_cache(maxsize=256)
def _compiled(pattern: str) -> re.Pattern[str]:
    plain = pattern.removeprefix("./").strip("/")
    expression = "" if "/" in plain or pattern.startswith("/") else "(?:.*/)?"
    for part in re.findall(r"\*\*/|/\*\*$|\*\*|\*|\?|[^*?]+", plain):
        expression += {"**/": "(?:.*/)?", "/**": "/.*", "**": ".*", "*": "[^/]*", "?": "[^/]"}.get(
            part, re.escape(part)
        )
    return re.compile(f"{expression}(?:/.*)?", re.DOTALL)
