"""The types of rules, matches and fixes.

Rules are values in a table (``allotment.tools.check.rules.RULES``). The rule pages in ``docs``, ``allot rule`` and the
tests are made from them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

from allotment.model import DEFAULT_RELEASE

if TYPE_CHECKING:
    from allotment.model.editing.edits import Edit
    from allotment.model.loading import Document
    from allotment.model.loading.marks import Path
    from allotment.tools.check.bundle import Bundle

#: ``error``: a cluster rejects the object, or it can never work. ``warning``: it probably does not do what is
#: intended. ``note``: for information, or undecidable from the input.
Level: TypeAlias = Literal["error", "warning", "note"]

Family: TypeAlias = Literal["shape", "cel", "vocabulary", "meaning", "proof"]


class Fix(NamedTuple):
    """The fix of a finding. It is ``safe`` if no other meaning is possible and what worked before still works.

    ``text`` describes the fix in the imperative: ``move the fields under exactly``. ``edits`` apply to the documents as
    written, all or none of them.
    """

    text: str
    edits: tuple[tuple[Document, Edit], ...]
    safe: bool


class RuleMatch(NamedTuple):
    """One place that a rule reports, with a one-sentence message that does not contain the code.

    ``path`` is the path as written in the document. ``at_key`` points at the field's name instead of its value;
    ``span`` selects code points ``(start, stop)`` of the string at the path, such as part of an expression. ``help``
    says what to do next if there is no fix, or more than the fix's text. ``level`` overrides the rule's level.
    """

    document: Document
    path: Path
    message: str
    help: str = ""
    fix: Fix | None = None
    level: Level | None = None
    at_key: bool = False
    span: tuple[int, int] | None = None


class Rule(NamedTuple):
    """One rule.

    ``summary`` is one line; ``why`` is a paragraph: what Kubernetes does with such a manifest, with the source of that
    statement. ``bad`` is a complete file in which the rule finds something, ``good`` the same file corrected; if the
    rule has a fix, it turns ``bad`` into ``good`` byte for byte. ``fixable`` says which fixes the rule offers. ``see``
    is a KEP, upstream file or page, if there is one. The examples are checked for Kubernetes ``kube``, and against the
    machines of ``fleet`` (``--fleet`` syntax) or the objects of ``cluster`` (YAML) if the rule needs a cluster.
    """

    code: str
    name: str
    family: Family
    level: Level
    summary: str
    why: str
    bad: str
    good: str
    find: Callable[[Bundle], Iterable[RuleMatch]]
    fixable: Literal["", "safe", "unsafe", "safe or unsafe"] = ""
    see: str = ""
    kube: str = DEFAULT_RELEASE
    fleet: str = ""
    cluster: str = ""
