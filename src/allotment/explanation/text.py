"""The text output of an explanation: the result in the first line, details below."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import Final

from allotment.engine.refusal import (
    CODES,
    NO_NODES,
    SEARCH_GIVEN_UP,
    AllocationRefusal,
    Diagnosis,
    Funnel,
    SuggestedChange,
)
from allotment.explanation.report import Answer, Explanation
from allotment.explanation.waiting import ONLY_DEVICES
from allotment.model.editing.formatting import TextStyle, flow_text
from allotment.phrases import counted, first_few

#: Maximum number of rows with reasons of other nodes, and of names in a list; the rest is only counted.
_ROWS = 8
_NAMES = 4
#: Maximum length of a sentence; longer ones are shortened in the middle.
_MAX_SENTENCE = 600
#: Prefix of the general advice, which is printed if no verified change exists.
ADVICE: Final = "  what to do: "
#: Prefix of the command that helps most, the last line of a refusal.
NEXT: Final = "next: "
#: How values are printed to be pasted into a manifest.
_STYLE: Final = TextStyle()


def lines(explanation: Explanation, width: int = 80, wide: bool = False) -> list[str]:
    """The lines, folded to ``width`` columns at word boundaries. ``wide`` adds the funnels of all groups of nodes."""
    answers = explanation.answers
    if not answers:
        return ["nothing to explain: the input contains no pod, workload or claim"]
    out: list[str] = []
    single = len(answers) == 1
    if not single:
        out += _fold(_first_line(answers), width)
    groups = list(_grouped(answers))
    steps = [group[0].next for group in groups if group[0].next]
    # The only next step is the last line, also if pods that fit or notes follow.
    is_last = len(steps) == 1 and (not groups[-1][0].next or bool(explanation.notes))
    for number, group in enumerate(groups):
        if not (single and number == 0):
            out.append("")
        out += [line for part in _answer(group, wide, not is_last) for line in _fold(part, width)]
    if explanation.notes:
        out.append("")
        out += [line for note in explanation.notes for line in _fold(f"note: {note}", width)]
    if is_last:
        out += ["", f"{NEXT}{steps[0]}"]
    return out


#: Prefix of a line that must not be folded.
_VERBATIM = "\0"
#: Words; quoted strings are kept together so that they can be pasted.
_WORD = re.compile(r"""(?:"[^"]*"|'[^']*'|\S)+""")


def _fold(line: str, width: int) -> list[str]:
    """A line folded at word boundaries with indentation. Long words are not broken, so that they can be pasted."""
    if line.startswith(_VERBATIM):
        return [line.removeprefix(_VERBATIM)]
    if len(line) <= width:
        return [line]
    indent = len(line) - len(line.lstrip(" "))
    words = _WORD.findall(line)
    # A funnel line starts with a count; continuation lines are aligned with the text after it.
    first = line[:indent] + words[0]
    if indent and words[0].isdigit():
        first += f"  {words.pop(1)}"
        hang = len(line[:indent] + words[0]) + 2
    else:
        hang = indent + 2
    folded = [first]
    for word in words[1:]:
        if len(folded[-1]) + 1 + len(word) <= width:
            folded[-1] += f" {word}"
        else:
            folded.append(" " * hang + word)
    return folded


def _first_line(answers: Sequence[Answer]) -> str:
    fit = sum(1 for answer in answers if answer.fits)
    noun = "pods" if all(a.kind == "Pod" for a in answers) else "pods and claims"
    if fit == len(answers):
        every = "both" if fit == 2 and noun == "pods" else f"all {fit}"
        if waiting := sum(1 for answer in answers if answer.waits):
            verb = "is" if waiting == 1 else "are"
            return f"devices are available for {every} {noun}, but {waiting} {verb} pending for another reason"
        if any(ONLY_DEVICES in answer.notes for answer in answers):
            return f"devices are available for {every} {noun}"
        return f"{every} {noun} {'are placed' if all(answer.bound for answer in answers) else 'fit'}"
    first = next(answer for answer in answers if not answer.fits)
    if first.reasons is None:
        return f"{fit} of {len(answers)} {noun} fit; {first.kind} {first.name} does not start"
    return f"{fit} of {len(answers)} {noun} fit; {first.kind} {first.name} does not ({first.reasons.headline.code})"


def _headline(answer: Answer) -> str:
    assert answer.reasons is not None
    refused = answer.reasons.headline
    where = _where(answer.reasons) if refused.code == SEARCH_GIVEN_UP else ""
    summary = f"{f'on {where} ' if where else ''}{_shorten(refused.summary)}"
    return f"{opening(answer.kind, answer.name, refused)}{summary} ({refused.code})"


def opening(kind: str, name: str, refused: AllocationRefusal) -> str:
    """The start of the first line of a refusal."""
    return f"{kind} {name} {'may or may not fit' if refused.code == SEARCH_GIVEN_UP else 'does not fit'}: "


def _grouped(answers: Sequence[Answer]) -> Iterator[list[Answer]]:
    """Answers in blocks: pods of one owner or group with the same reason form one, and so do many that fit."""
    for _, group in groupby(enumerate(answers), key=lambda pair: _block(*pair)):
        block = [answer for _, answer in group]
        if block[0].fits and len(block) <= _ROWS:
            yield from ([answer] for answer in block)
        else:
            yield block


def _block(number: int, answer: Answer) -> tuple[object, ...]:
    if answer.reasons is None:
        return (answer.owner or number,)
    if not (whole := answer.owner or answer.group):
        return (number,)
    return (whole, answer.reasons.headline.code, answer.reasons.headline.summary)


def _answer(group: list[Answer], wide: bool, with_next: bool) -> Iterator[str]:
    answer = group[0]
    if answer.reasons is None and len(group) > 1:  # too many to list in full; see _grouped
        yield f"{len(group)} pods of {answer.owner} fit"
        shown = group if wide else group[:_ROWS]
        for pod in shown:
            devices = ", ".join(d.device for claim in pod.claims for d in claim.devices)
            yield f"  {pod.name}{f' on node {pod.node}' if pod.node else ''}: {devices or 'no device'}"
        if len(group) > len(shown):
            yield f"  and {len(group) - len(shown)} more (-o wide)"
        return
    if answer.reasons is None:
        alone = "" if answer.kind == "Pod" else " (no pod uses it; tested on its own)"
        if not answer.fits:
            yield f"{answer.kind} {answer.name} is on node {answer.node}, but does not start"
        elif answer.bound:
            done = f"is on node {answer.node}" if answer.node else "has its devices" if answer.claims else "has ended"
            yield f"{answer.kind} {answer.name} {done}"
        elif answer.waits:
            devices = f"its devices are available on node {answer.node}" if answer.node else "no device is missing"
            yield f"{answer.kind} {answer.name} is pending although {devices}: {_shorten(answer.waits)}"
        else:
            yield f"{answer.kind} {answer.name} fits{f' on node {answer.node}' if answer.node else ''}{alone}"
        yield from _allocations(answer)
    else:
        yield _headline(answer)
        if len(group) > 1:
            yield f"  the same for {counted(len(group) - 1, 'more pod')} of {answer.owner or answer.group}"
        yield from _reasons(answer.reasons, wide, answer.next)
    for note in answer.notes:
        yield f"  note: {note}"
    if answer.next and with_next:
        yield f"{_VERBATIM}  {NEXT}{answer.next}"


def _allocations(answer: Answer) -> Iterator[str]:
    for claim in answer.claims:
        origin = f" (template {claim.template})" if claim.template else ""
        yield f"  claim {claim.name}{origin}{', already allocated' if claim.before else ''}"
        if not claim.devices:
            yield "    no device requested"
        for _, group in groupby(claim.devices, key=lambda d: (d.request, d.driver, d.pool, d.kind, d.share)):
            devices = list(group)
            device = devices[0]
            about = [device.kind] if device.kind else []
            about += [f"{amount} of {name}" for name, amount in device.share.items()]
            about += ["admin access"] if device.admin_access else []
            details = f" ({', '.join(about)})" if about else ""
            where = device.driver if device.pool == answer.node else f"pool {device.pool} of {device.driver}"
            yield f"    {device.request}: {', '.join(d.device for d in devices)}{details}, {where}"


def _reasons(reasons: Diagnosis, wide: bool, next_step: str) -> Iterator[str]:
    others = _others(reasons, wide)
    same = [] if wide else [row for row in others if _is_same(row[1], reasons.headline)]
    yield from _details(reasons.headline, _where(reasons))
    # Before the remedy, which need not help on these nodes. Funnels name only their own nodes.
    if same and reasons.headline.funnels:
        yield f"  fails for the same reason on {_nodes(same[0][0])}"
    yield from _remedies(reasons.headline, next_step)
    others = [row for row in others if row not in same]
    shown = others if wide else others[:_ROWS]
    for nodes, refused in shown:
        if refused.code == "node-not-eligible":
            if refused.summary not in reasons.headline.summary:  # which already contains it if all nodes are excluded
                yield f"  {refused.summary}"
            continue
        yield f"  {_nodes(nodes)}: {_shorten(refused.summary)} ({refused.code})"
        if wide:
            yield from _details(refused, _nodes(nodes))
            yield from _remedies(refused)
    if len(others) > len(shown):
        rest = others[len(shown) :]
        yield f"  {sum(len(nodes) for nodes, _ in rest)} more nodes for {len(rest)} other reasons (-o wide)"
    if reasons.fitting:
        yield (
            f"  {first_few(reasons.fitting, _NAMES)} would fit, but the scheduler rejects all nodes because of the "
            "error"
        )
    yield from _advice(reasons)
    if reasons.headline.kubernetes:
        yield f"  Kubernetes says: {reasons.headline.kubernetes}"


def _advice(reasons: Diagnosis) -> Iterator[str]:
    """The general advice if no verified change exists; none if there are no nodes."""
    headline = reasons.headline
    if not headline.changes and headline.kubernetes != NO_NODES:
        yield f"{ADVICE}{CODES[headline.code].advice}"


def _others(reasons: Diagnosis, wide: bool) -> list[tuple[tuple[str, ...], AllocationRefusal]]:
    """The reasons of nodes other than those of the headline. Unless ``wide``, equal sentences are merged."""
    rows: dict[object, tuple[tuple[str, ...], AllocationRefusal]] = {}
    for number, row in enumerate(reasons.nodes):
        refused = row.refused
        if refused == reasons.headline:
            continue
        key = number if wide else (refused.code, refused.summary)
        nodes = rows[key][0] if key in rows else ()
        rows[key] = ((*nodes, *row.nodes), rows[key][1] if key in rows else refused)
    return list(rows.values())


def _where(reasons: Diagnosis) -> str:
    return next((_nodes(row.nodes) for row in reasons.nodes if row.refused == reasons.headline), "")


def _nodes(nodes: tuple[str, ...]) -> str:
    """``node-a``, ``node-a, node-b``, ``5000 nodes (node-a, …)``."""
    if len(nodes) <= 3:
        return ", ".join(nodes)
    return f"{len(nodes)} nodes ({nodes[0]}, {nodes[1]}, …)"


def _shorten(text: str) -> str:
    """The sentence, shortened in the middle if it is very long; it may quote an expression of up to 10 KiB.

    >>> len(_shorten("x" * 10_000))
    603
    """
    return text if len(text) <= _MAX_SENTENCE else f"{text[: _MAX_SENTENCE - 100]} … {text[-100:]}"


def _is_same(refused: AllocationRefusal, headline: AllocationRefusal) -> bool:
    """Whether the headline says the same about a node; exclusions are listed with their nodes."""
    is_excluded = refused.code == "node-not-eligible"
    return not is_excluded and (refused.code, refused.summary) == (headline.code, headline.summary)


def _details(refused: AllocationRefusal, where: str) -> Iterator[str]:
    for funnel in refused.funnels:
        yield from _funnel(funnel, where)
    for alternative in refused.alternatives:
        yield f"  alternative {alternative.request}: {alternative.summary} ({alternative.code})"
        for funnel in alternative.funnels:
            yield from _funnel(funnel, where)
        if alternative.nearest is not None:
            yield f"  nearest miss: {alternative.nearest}"
    if refused.nearest is not None:
        yield f"  nearest miss: {refused.nearest}"
    for note in refused.notes:
        yield f"{_VERBATIM}  {note}" if note.startswith(" ") else f"  {note}"


def _funnel(funnel: Funnel, where: str) -> Iterator[str]:
    requested = counted(funnel.wanted, "device") if funnel.wanted else "all devices"
    node = f" on {where}" if where else ""
    yield f"  claim {funnel.claim}, request {funnel.request}: {requested} of class {funnel.device_class}{node}"
    yield f"  {funnel.visible:>5}  on the node"
    if not funnel.visible:
        return
    for step in funnel.steps:
        detail = f" – lost {first_few(step.lost, _NAMES)}" if step.lost and step.left else ""
        held = f" – {'; '.join(step.by[:_NAMES])}" if step.by else ""
        yield f"  {step.left:>5}  {_shorten(step.text)}{held or detail}"


def _remedies(refused: AllocationRefusal, next_step: str = "") -> Iterator[str]:
    node = refused.changes[-1].node if refused.changes else ""
    if refused.changes:
        yield from _changes(f"to make it fit{f' on {node}' if node else ''}", refused.changes, next_step)
    if refused.otherwise:
        other = refused.otherwise[-1].node
        yield from _changes(f"or{f', on {other}' if other not in (node, '') else ''}", refused.otherwise, next_step)


def in_words(changes: Sequence[SuggestedChange]) -> str:
    """Changes that are made together as one phrase, with the commands that make them; without objects and fields."""
    return ", and ".join(f"{c.text} ({c.command})" if c.command else c.text for c in changes)


def _changes(begin: str, changes: Sequence[SuggestedChange], next_step: str) -> Iterator[str]:
    yield f"  {begin}: {', and '.join(_shorten(change.text) for change in changes)}"
    places = [(change.object, change.path) for change in changes]
    for number, change in enumerate(changes):
        if not change.object or change.remedy == "wait":  # users do not release a claim by editing its status
            continue
        if change.becomes is not None and places[number] in places[number + 1 :]:
            continue  # the last of several values at one path is complete
        if change.command:
            if change.command.removeprefix("kubectl ") not in next_step:
                yield f"{_VERBATIM}    {change.command}"
            continue
        yield f"    {change.object}"
        removed = change.becomes is None
        yield f"    {change.path}{' (remove it)' if removed else ':'}"
        if not removed:
            yield f"{_VERBATIM}      {flow_text(change.becomes, _STYLE, flow=False)}"


def join(parts: Iterable[str]) -> str:
    """The lines as one string with a trailing newline."""
    return "\n".join(parts) + "\n"
