"""A rule: what it looks for, why, an example of each kind, and the function that finds it.

Rules are values in a table (``allotment.tools.check.rules.RULES``); pages of documentation, the command line's help and
tests are made from them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from allotment.model.editing.edits import Edit
    from allotment.model.loading import Document
    from allotment.model.loading.marks import Path
    from allotment.tools.check.bundle import Bundle

#: ``error``: a cluster refuses it, or it can never do what it is for. ``warning``: it will hardly do what is meant.
#: ``note``: worth knowing, or cannot be told from what was given.
Level: TypeAlias = Literal["error", "warning", "note"]

Family: TypeAlias = Literal["shape", "cel", "vocabulary", "meaning", "proof"]


class Fix(NamedTuple):
    """How to mend a finding. ``safe``: the author can have meant nothing else, and what worked before still does.

    ``text`` says in the imperative what is done: ``move the fields under exactly``. ``edits`` are by document, on its
    tree as written, and are applied all or none.
    """

    text: str
    edits: tuple[tuple[Document, Edit], ...]
    safe: bool


class Found(NamedTuple):
    """What a rule found: where, and in one sentence what is wrong, without the code.

    ``path`` is as written in the document. ``key`` points at the field's name instead of its value; ``part`` at some
    code points of the string there (an expression), ``(start, stop)``. ``help`` says what to do next, when there is no
    fix or more to say than its text. ``level`` where it is not the rule's own.
    """

    document: Document
    path: Path
    message: str
    help: str = ""
    fix: Fix | None = None
    level: Level | None = None
    key: bool = False
    part: tuple[int, int] | None = None


class Rule(NamedTuple):
    """One rule.

    ``summary`` is one line; ``why`` a paragraph: what Kubernetes does with such a manifest, and where that is from.
    ``bad`` is a whole file in which the rule finds something, ``good`` the same one mended; where the rule has a fix,
    it makes ``good`` of ``bad``, to the byte. ``fixable`` says which fixes the rule offers.
    ``see``: KEP, upstream file or page, if there is one. The examples are checked for Kubernetes ``kube``, and for the
    machines of ``fleet`` (words of ``--fleet``) or the objects of ``cluster`` (YAML) where the rule needs a cluster.
    """

    code: str
    name: str
    family: Family
    level: Level
    summary: str
    why: str
    bad: str
    good: str
    find: Callable[[Bundle], Iterable[Found]]
    fixable: Literal["", "safe", "unsafe", "safe or unsafe"] = ""
    see: str = ""
    kube: str = "1.36"
    fleet: str = ""
    cluster: str = ""
