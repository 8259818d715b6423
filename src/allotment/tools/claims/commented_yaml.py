"""YAML with a comment for each line that needs one."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Iterator
from typing import Any, Final, NamedTuple

from allotment.model.editing.formatting import TextStyle, flow_text, is_inline, key_text

_WIDTH: Final = 100
#: Below this width, a comment above a line is not folded further.
_NARROWEST: Final = 40
_STYLE: Final = TextStyle()


class Commented(NamedTuple):
    """A value of a tree with its comment."""

    value: Any
    comment: str


def plain(tree: Any) -> Any:
    """Return a tree without comments."""
    if isinstance(tree, Commented):
        return plain(tree.value)
    if isinstance(tree, dict):
        return {key: plain(value) for key, value in tree.items()}
    return [plain(item) for item in tree] if isinstance(tree, list) else tree


def yaml_text(tree: dict[str, Any], comments: bool = True) -> str:
    """Return a document. A comment follows its line, or precedes it if the line would become too long.

    >>> print(yaml_text({"kind": Commented("Pod", "one pod"), "spec": {"list": [Commented(1, "first")]}}), end="")
    kind: Pod  # one pod
    spec:
      list:
      - 1  # first
    """
    return "".join(f"{line}\n" for line in _mapping(tree if comments else plain(tree), 0))


def comment_lines(text: str, indent: int = 0) -> list[str]:
    """Return a comment as lines, folded at word boundaries."""
    width = max(_WIDTH - indent - 2, _NARROWEST)
    folded = textwrap.wrap(text, width, break_long_words=False, break_on_hyphens=False)
    return [f"{' ' * indent}# {line}" for line in folded]


def _mapping(tree: dict[str, Any], indent: int) -> Iterator[str]:
    for key, value in tree.items():
        yield from _entry(f"{' ' * indent}{key_text(key, _STYLE)}:", value, indent, 0 if _is_list(value) else 2)


def _is_list(value: Any) -> bool:
    return isinstance(value.value if isinstance(value, Commented) else value, list)


def _entry(head: str, value: Any, indent: int, step: int) -> Iterator[str]:
    value, comment = value if isinstance(value, Commented) else (value, "")
    below: Iterable[str] = ()
    if isinstance(value, dict) and value:
        below = _mapping(value, indent + step)
    elif isinstance(value, list) and value:
        below = (line for item in value for line in _item(item, indent + step))
    else:
        assert is_inline(value)
        text = flow_text(value, _STYLE, flow=False)
        parts = re.split(r" (?=(?:&&|\|\|) )", value) if isinstance(value, str) else []
        if len(head) + len(text) >= _WIDTH and len(parts) > 1:
            head, below = f"{head} >-", [f"{' ' * (indent + 2)}{part}" for part in parts]
        else:
            head = f"{head} {text}"
    if comment and len(head) + len(comment) + 4 <= _WIDTH:
        head = f"{head}  # {comment}"
    elif comment:
        yield from comment_lines(comment, indent)
    yield head
    yield from below


def _item(item: Any, indent: int) -> Iterator[str]:
    pad = " " * indent
    value, comment = item if isinstance(item, Commented) else (item, "")
    if not (isinstance(value, dict) and value):
        yield from _entry(f"{pad}-", item, indent, 2)
        return
    if comment:
        yield from comment_lines(comment, indent)
    is_first = True
    for line in _mapping(value, indent + 2):
        if is_first and line.lstrip().startswith("# "):
            yield line[2:]
        else:
            yield f"{pad}- {line[indent + 2 :]}" if is_first else line
            is_first = False
