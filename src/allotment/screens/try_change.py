"""Tries a remedy: the change is made to a copy of the objects, and the engine answers."""

from __future__ import annotations

import msgspec

from allotment.errors import InputError
from allotment.explanation.origin_mapping import awaited_claims
from allotment.explanation.pending_run import NotApplicable
from allotment.explanation.report import Answer, ClaimAllocation, Explanation
from allotment.explanation.text import lines
from allotment.screens.header import Screen, command, header
from allotment.screens.manifest_diff import manifest_diff
from allotment.screens.pending import answer_of
from allotment.screens.pending_pods import pending_pods
from allotment.screens.remedies import changes_of, remedies_of
from allotment.watched.view import ClusterView

#: Wider than any sentence, which is then not folded.
_ONE_LINE = 1_000_000


class TryRequest(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """A remedy to try. ``group``: by default that of the pod. ``remedy``: 0 is the first one."""

    pod: str = ""
    remedy: int = 0
    group: str = ""


class Trial(Screen, frozen=True):
    """The result of a change. ``sentence``: the first line of `allot explain` then.

    ``diff``: what changes in the manifests. ``command``: the one that suggests the change; ``change_command``: the one
    that makes it in the cluster, empty if none does. ``assumed``: what is waited for, as sentences.
    """

    fits: bool
    pod: str
    sentence: str
    answer: Answer
    node: str = ""
    claims: tuple[ClaimAllocation, ...] = ()
    texts: tuple[str, ...] = ()
    diff: str = ""
    change_command: str = ""
    assumed: tuple[str, ...] = ()


def try_change(view: ClusterView, request: TryRequest) -> Trial:
    """Return the answer for a pending pod after a remedy. Raises InputError if it cannot be tried."""
    found = pending_pods(view)
    group = found.group(request.group or found.group_of(request.pod))
    if group is None:
        raise InputError(f"{request.pod or 'the pod'} is no longer pending", argument="pod")
    answer = answer_of(group, request.pod)
    remedies = changes_of(answer)
    if not 0 <= request.remedy < len(remedies):
        raise InputError(f"{answer.name} has no remedy {request.remedy}", argument="remedy")
    changes = remedies[request.remedy]
    try:
        after = found.after(answer, changes)
    except NotApplicable as error:
        raise InputError(f"this cannot be tried: {error}", argument="remedy") from None
    namespace, _, name = answer.name.partition("/")
    word = "pod" if answer.kind == "Pod" else "claim"
    return Trial(
        cluster=header(view),
        command=command(view, "explain", f"{word}/{name}", "-n", namespace),
        fits=after.fits,
        pod=answer.name,
        sentence=lines(Explanation((after,)), width=_ONE_LINE)[0],
        answer=after,
        node=after.node,
        claims=after.claims,
        texts=tuple(change.text for change in changes),
        diff=manifest_diff(view, changes),
        assumed=tuple(f"claim {key} is released" for change in changes for key in awaited_claims(change)),
        change_command=remedies_of(view, answer)[request.remedy].change_command,
    )
