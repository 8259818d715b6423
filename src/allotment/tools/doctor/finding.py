"""``ClusterFinding``: a finding of a cluster check."""

from __future__ import annotations

from typing import Literal, NamedTuple

Severity = Literal["error", "warning", "note"]


class ClusterFinding(NamedTuple):
    """A problem, or a fact worth knowing.

    ``code`` is stable (``D101``). ``subject`` is the object as in kubectl (``node/gpu-1``, ``claim ml/train``), the
    number of objects (``37 nodes``), or a topic (``server``). ``evidence`` describes the observation with numbers and
    names. ``remedy`` is the next change or command, as sentences and lines that start with ``$ `` for commands; it is
    empty only for notes. ``objects`` are all affected objects if there are several; the texts name only some.
    """

    code: str
    severity: Severity
    subject: str
    evidence: str
    remedy: str = ""
    objects: tuple[str, ...] = ()
