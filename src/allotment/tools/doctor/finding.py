"""What a check of a cluster finds."""

from __future__ import annotations

from typing import Literal, NamedTuple

Severity = Literal["error", "warning", "note"]


class ClusterFinding(NamedTuple):
    """Something to know.

    ``code`` is stable (``D101``); ``subject`` the object as kubectl names it (``node/gpu-1``, ``claim ml/train``), how
    many there are (``37 nodes``), or what it is about (``server``). ``evidence`` is what was seen, with figures and
    names; ``remedy`` the next command or change, empty only for notes: sentences, and lines that begin with ``$ ``,
    which are commands. ``objects`` are all that it is about, where there are several; texts name only some.
    """

    code: str
    severity: Severity
    subject: str
    evidence: str
    remedy: str = ""
    objects: tuple[str, ...] = ()
