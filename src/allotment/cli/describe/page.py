"""The text layout of ``allot describe``: labels and values, indented sections, tables, times and ages."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from allotment.cli.output.tabwriter import aligned
from allotment.model.trees import Tree

NONE = "<none>"
UNKNOWN = "<unknown>"


class Page:
    """Lines of cells with indentation; :meth:`text` aligns them, and each table separately."""

    def __init__(self, now: datetime) -> None:
        self.now = now
        self._lines: list[list[str]] = []
        self._before: list[str] = []

    def line(self, depth: int, *cells: str) -> None:
        """Add a line; its cells except the last are aligned with adjacent lines."""
        # A line break within a value would break the alignment.
        first, *rest = [cell.replace("\r", " ") for cell in cells] or [""]
        self._lines.append(["  " * depth + first, *rest])

    def field(self, depth: int, label: str, value: Any) -> None:
        """Add ``Label:  value``; a multi-line text is below the label."""
        text = str(value)
        if "\n" not in text:
            self.line(depth, f"{label}:", text)
            return
        self.line(depth, f"{label}:")
        for line in text.rstrip("\n").split("\n"):
            self.line(depth + 2, line)

    def mapping(self, depth: int, label: str, values: Mapping[str, Any] | None, sign: str = "=") -> None:
        """Add ``Labels:  a=b``, one line per entry."""
        if not values:
            self.line(depth, f"{label}:", NONE)
            return
        head = f"{label}:"
        for key in sorted(values):
            value = str(values[key])
            if sign == ": " and ("\n" in value or len(value) > 140):
                self.line(depth, head, f"{key}:")
                for line in value.rstrip("\n").split("\n"):
                    self.line(depth, "", f"  {line}")
            else:
                self.line(depth, head, f"{key}{sign}{value}")
            head = ""

    def several(self, depth: int, label: str, values: Iterable[str]) -> None:
        """Add values below each other, the label before the first."""
        listed = list(values) or [NONE]
        for number, value in enumerate(listed):
            self.line(depth, f"{label}:" if number == 0 else "", value)

    def table(self, depth: int, headers: Iterable[str], rows: Iterable[Iterable[str]]) -> None:
        """Add a table: headers, dashes below each, and rows."""
        names = list(headers)
        self.cut()
        self.line(depth, *names)
        self.line(depth, *("-" * len(name) for name in names))
        for row in rows:
            self.line(depth, *row)
        self.cut()

    def cut(self) -> None:
        """Start a new alignment block."""
        self._before += aligned(self._lines, 2)
        self._lines = []

    def text(self) -> str:
        """Return the page as text."""
        self.cut()
        return "".join(line.rstrip() + "\n" for line in self._before)

    # --- what every object has

    def head(self, tree: Tree, namespaced: bool = True) -> None:
        """Add name, namespace, labels and annotations."""
        metadata = tree["metadata"]
        self.field(0, "Name", metadata.get("name", ""))
        if namespaced:
            self.field(0, "Namespace", metadata.get("namespace", ""))
        self.mapping(0, "Labels", metadata.get("labels"))
        self.annotations(tree)

    def annotations(self, tree: Tree) -> None:
        """Add annotations, except kubectl's last-applied configuration."""
        annotations = tree["metadata"].get("annotations") or {}
        shown = {k: v for k, v in annotations.items() if k != "kubectl.kubernetes.io/last-applied-configuration"}
        self.mapping(0, "Annotations", shown, ": ")

    def controller(self, tree: Tree) -> None:
        """Add the controller that owns the object."""
        for owner in tree["metadata"].get("ownerReferences") or ():
            if owner.get("controller"):
                self.field(0, "Controlled By", f"{owner.get('kind')}/{owner.get('name')}")

    def conditions(self, tree: Tree, wide: bool = False) -> None:
        """Add the conditions of the status; ``wide``: with times and reasons."""
        listed = (tree.get("status") or {}).get("conditions") or ()
        if not listed:
            return
        self.line(0, "Conditions:")
        if not wide:
            rows = [[str(item.get("type", "")), str(item.get("status", ""))] for item in listed]
            self.line(1, "Type", "Status")
            for row in rows:
                self.line(1, *row)
            return
        self.table(
            1,
            ["Type", "Status", "Age", "Reason", "Message"],
            [
                [
                    str(item.get("type", "")), str(item.get("status", "")), self.age(item.get("lastTransitionTime")),
                    str(item.get("reason", "")), _one_line(str(item.get("message", ""))),
                ]
                for item in listed
            ],
        )  # fmt: skip

    def age(self, stamp: str | None) -> str:
        """Return the time since a timestamp."""
        moment = parsed(stamp)
        return UNKNOWN if moment is None else ago((self.now - moment).total_seconds())


def _one_line(text: str) -> str:
    first, _, rest = text.partition("\n")
    return f"{first} …" if rest else first


def parsed(stamp: str | None) -> datetime | None:
    """Parse a timestamp."""
    try:
        return datetime.fromisoformat(stamp).astimezone(UTC) if stamp else None
    except ValueError:
        return None


def full(stamp: str | None) -> str:
    """Format a timestamp as kubectl does.

    >>> full("2026-01-02T03:04:05Z")
    'Fri, 02 Jan 2026 03:04:05 +0000'
    """
    moment = parsed(stamp)
    return UNKNOWN if moment is None else moment.strftime("%a, %d %b %Y %H:%M:%S +0000")


_MINUTE, _HOUR, _DAY, _YEAR = 60, 3600, 86400, 365 * 86400


def ago(seconds: float) -> str:
    """Format a duration in seconds with decreasing precision, as kubectl shows ages.

    >>> [ago(s) for s in (5, 130, 3599, 7300, 100_000, 400_000_000)]
    ['5s', '2m10s', '59m', '121m', '27h', '12y']
    """
    whole = int(seconds)
    if whole < 0:
        return "<invalid>" if whole < -1 else "0s"
    for limit, big, small in _STEPS:
        if whole < limit:
            unit, rest = divmod(whole, big[0])
            part = rest // small[0] if small is not None else 0
            return f"{unit}{big[1]}" + (f"{part}{small[1]}" if small is not None and part else "")
    return f"{whole // _YEAR}y"


_S, _M, _H, _D, _Y = (1, "s"), (_MINUTE, "m"), (_HOUR, "h"), (_DAY, "d"), (_YEAR, "y")
#: Upper limit in seconds: the unit, and the smaller unit that is still shown.
_STEPS: tuple[tuple[int, tuple[int, str], tuple[int, str] | None], ...] = (
    (2 * _MINUTE, _S, None), (10 * _MINUTE, _M, _S), (3 * _HOUR, _M, None), (8 * _HOUR, _H, _M), (2 * _DAY, _H, None),
    (8 * _DAY, _D, _H), (2 * _YEAR, _D, None), (8 * _YEAR, _Y, _D),
)  # fmt: skip
