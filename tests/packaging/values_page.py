"""The table of the chart's values, ``docs/reference/chart-values.md``, generated from the comments in ``values.yaml``.

Values that all components have are listed once, as ``components.*``; their comments are those of the first component.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from tests.packaging.helm import CHART, ROOT

PAGE: Final = ROOT / "docs" / "reference" / "chart-values.md"
_BEGIN, _END = "<!-- values: made from values.yaml -->\n", "<!-- /values -->\n"
_LINE: Final = re.compile(r"( *)([\w.-]+):(?: (.*))?$")
#: The component whose comments describe the values that all components have.
_FIRST: Final = "components.exporter."
_OWN: Final = ("enabled", "replicas", "catalog", "perClaim")


class Value(NamedTuple):
    """A value: its path, its default, and its comment."""

    path: str
    default: str
    comment: str


def values() -> Iterator[Value]:
    """Yield all values in the order of the file. A default that is a list or a mapping is one value."""
    path: list[tuple[int, str]] = []
    comment: list[str] = []
    above: dict[str, str] = {}
    for line in (CHART / "values.yaml").read_text().splitlines():
        if not line.strip() or line.startswith("# ---"):
            comment = []
        elif line.lstrip().startswith("#"):
            comment.append(line.lstrip("# "))
        elif found := _LINE.match(line):
            indent, name, default = len(found[1]), found[2], found[3]
            path = [*(pair for pair in path if pair[0] < indent), (indent, name)]
            whole, says = ".".join(word for _, word in path), " ".join(comment)
            comment = []
            if default is None:
                above[whole] = says
                continue
            parent = whole.rpartition(".")[0]
            yield Value(
                whole, default.replace(" #", "").strip(), says or (above.get(parent, "") if name == "enabled" else "")
            )


def table() -> str:
    """The table as Markdown."""
    rows = ["| value | default | |", "| --- | --- | --- |"]
    for value in values():
        path = value.path
        if path.startswith(_FIRST) and path.removeprefix(_FIRST) not in _OWN:
            path = path.replace(_FIRST, "components.*.")
        elif path.startswith("components.") and not value.comment:
            continue  # listed already
        rows.append(f"| `{path}` | {f'`{value.default}`'} | {value.comment.replace('|', chr(92) + '|')} |")
    return "\n".join(rows) + "\n"


def page() -> str:
    """The page with the current table."""
    text = PAGE.read_text()
    head, rest = text.split(_BEGIN)
    return f"{head}{_BEGIN}\n{table()}\n{_END}{rest.split(_END)[1]}"
