"""Evaluates the advice for a world with planted mistakes: cause, remedy, agreement of the tools, and privacy."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from allotment.engine.refusal import AllocationRefusal, SuggestedChange
from allotment.explanation import Answer
from allotment.model.meta import Object
from allotment.model.trees import to_tree
from tests.storm.advice import machines
from tests.storm.advice.explanations import code_of, fits, place_of
from tests.storm.advice.planting import PlantedWorld
from tests.storm.advice.remedies import problems, with_remedy
from tests.storm.advice.tools import Advice, decoded, first_remedy, lines_of, printed, words_of
from tests.storm.advice.worlds import ADMIN_LABEL, NAMESPACE, POD, SECRET, World, manifests

#: Codes for the author, who has access to all namespaces, with those for readers of the pod's namespace.
_FOR_TENANTS: Final = {"wrong-namespace": ("claim-missing", "template-missing", "wrong-namespace")}
_SPACES: Final = re.compile(r"\s+")


class Verdict(NamedTuple):
    """The verdict on a world. ``failures``: the faults, by criterion: ``cause``, ``remedy``, ``kept``, ``agreement``,
    ``leak``; ``kinds``: the kinds of the first remedy's changes."""

    name: str
    mistakes: tuple[str, ...]
    code: str
    kinds: tuple[str, ...]
    failures: tuple[tuple[str, str], ...]

    def failed(self, criterion: str) -> bool:
        """Whether a criterion is not met."""
        return any(name == criterion for name, _ in self.failures)


def evaluate(planted: PlantedWorld, advice: Advice) -> Verdict:
    """Return the verdict on the advice of all tools for a world."""
    headline = _headline(advice.explained)
    found = [
        *(("cause", text) for text in _cause(planted, advice)),
        *(("remedy", text) for text in _remedy(planted, headline)),
        *(("kept", text) for text in _kept(planted, headline)),
        *(("agreement", text) for text in _agreement(planted.world, advice)),
        *(("leak", text) for text in _leaks(advice)),
    ]
    return Verdict(
        planted.name,
        tuple(mistake.name for mistake in planted.mistakes),
        code_of(advice.explained),
        tuple(change.remedy for change in headline.changes) if headline is not None else (),
        tuple(found),
    )


def _headline(answer: Answer | None) -> AllocationRefusal | None:
    return answer.reasons.headline if answer is not None and answer.reasons is not None else None


def _changes(answer: Answer | None) -> tuple[SuggestedChange, ...]:
    headline = _headline(answer)
    return headline.changes if headline is not None else ()


# --- the cause, and the remedy --------------------------------------------------------------------------------------


def _cause(planted: PlantedWorld, advice: Advice) -> Iterator[str]:
    expected = frozenset().union(*(mistake.codes for mistake in planted.mistakes))
    if (code := code_of(advice.explained)) not in expected:
        yield f"{code}, expected {' or '.join(sorted(expected))}"
    if advice.own_view is not None:
        hidden = frozenset().union(*(mistake.hidden or mistake.codes for mistake in planted.mistakes))
        if (code := code_of(advice.own_view)) not in hidden:
            yield f"to readers of the namespace: {code}, expected {' or '.join(sorted(hidden))}"


def _remedy(planted: PlantedWorld, headline: AllocationRefusal | None) -> Iterator[str]:
    """The faults of the first remedy: it must make the pod fit, be readable, and be of an expected kind."""
    if headline is None:
        yield "explain says that the pod fits"
        return
    if not headline.changes:
        if all(mistake.remedies for mistake in planted.mistakes):
            yield "no remedy"
        return
    repaired = with_remedy(planted.world, headline.changes)
    if repaired is None:
        yield f"no change of an object: {words_of(headline.changes)}"
    elif found := problems(repaired):
        yield f"cannot be applied: {found[0]}"
    elif not fits(repaired):
        yield f"does not help: {words_of(headline.changes)}"
    else:
        for change in _independent(headline.changes):
            fewer = with_remedy(planted.world, [other for other in headline.changes if other is not change])
            if fewer is not None and fits(fewer):
                yield f"not necessary: {change.text}"


def _independent(changes: tuple[SuggestedChange, ...]) -> Iterator[SuggestedChange]:
    """The changes of several that belong to no later one: the last value of a field has all changes of it, and a
    misspelled key is replaced by two changes."""
    for number, change in enumerate(changes):
        later = [other.path for other in changes[number + 1 :] if other.object == change.object]
        if len(changes) > 1 and (not change.path or not any(path.startswith(change.path) for path in later)):
            yield change


def _kept(planted: PlantedWorld, headline: AllocationRefusal | None) -> Iterator[str]:
    """Whether the remedy is of an expected kind and keeps the requested model and memory."""
    if headline is None or not headline.changes:
        return
    expected = frozenset().union(*(mistake.remedies for mistake in planted.mistakes))
    if expected and (unexpected := [c for c in headline.changes if c.remedy not in expected]):
        yield f"{unexpected[0].remedy} instead of {' or '.join(sorted(expected))}: {unexpected[0].text}"
        return
    repaired = with_remedy(planted.world, headline.changes)
    place = place_of(repaired) if repaired is not None else None
    if place is None or repaired is None or any(m.changes_devices or not m.remedies for m in planted.mistakes):
        return
    intended = _products(planted.fitting, planted.place)
    given = _products(repaired, place)
    if "productName ==" in json.dumps(planted.fitting.own) and not given <= intended:
        yield f"{', '.join(sorted(given))} instead of {', '.join(sorted(intended))}: {words_of(headline.changes)}"


def _products(world: World, place: Answer) -> set[str]:
    """The product names of the devices that a pod gets."""
    published = {
        (tree["spec"]["pool"]["name"], device["name"]): machines.attribute(device, "productName")
        for tree in world.of_kind("ResourceSlice")
        for device in tree["spec"].get("devices") or ()
    }
    return {published[device.pool, device.device] for claim in place.claims for device in claim.devices}


# --- agreement ------------------------------------------------------------------------------------------------------


def _agreement(world: World, advice: Advice) -> Iterator[str]:
    yield from _check_agrees(world, advice)
    if advice.live is None:
        return
    code, changes = code_of(advice.explained), _changes(advice.explained)
    if (live := code_of(advice.live)) != code:
        yield f"explain of the cluster: {live} instead of {code}"
    elif words_of(_changes(advice.live)) != words_of(changes):
        yield f"explain of the cluster: {words_of(_changes(advice.live))!r} instead of {words_of(changes)!r}"
    if advice.own_view is not None and advice.shown is not None:
        expected = lines_of(advice.own_view) or [f"{NAMESPACE}/{POD} fits"]
        own_code = code_of(advice.own_view)
        if f"({own_code})" not in advice.shown.text:
            yield f"condition: {advice.shown.text.splitlines()[0]!r} instead of {expected[0]!r}"
        elif advice.shown.remedy != (remedy := first_remedy(expected)):
            yield f"condition: {advice.shown.remedy!r} instead of {remedy!r}"
        if own_code != code and own_code not in _FOR_TENANTS.get(code, ()):
            yield f"readers of the namespace: {own_code} instead of {code}"
        if own_code == code and _seen(_changes(advice.own_view)) != _seen(changes):
            yield f"readers of the namespace: {words_of(_changes(advice.own_view))!r} instead of {words_of(changes)!r}"
    yield from _doctor_agrees(advice)


def _seen(changes: tuple[SuggestedChange, ...]) -> list[tuple[str, str]]:
    """The parts that are equal for all readers: kinds of remedies and, unless they wait for a claim, the fields."""
    return [(c.remedy, "" if c.remedy == "wait" else c.path.rpartition("spec.devices")[2]) for c in changes]


def _doctor_agrees(advice: Advice) -> Iterator[str]:
    text = advice.doctor or ""
    headline = _headline(advice.live)
    if headline is None:
        return
    if headline.code not in text and headline.summary not in text:
        yield f"doctor: {text.splitlines()[0] if text else 'nothing'!r} instead of {headline.summary!r}"
    for change in headline.changes:
        if change.text.lower() not in text.lower():
            yield f"doctor: {text[-200:]!r} instead of {change.text!r}"


def _check_agrees(world: World, advice: Advice) -> Iterator[str]:
    """Check must report the pod or its claim, and its fix must be the same change of the same objects."""
    headline = _headline(advice.explained)
    if headline is None:
        return
    if not advice.check.findings:
        yield f"check: no finding instead of {headline.code}"
        return
    repaired = with_remedy(world, headline.changes) if headline.changes else None
    expected = _plain(decoded(manifests(repaired.own))) if repaired is not None else None
    unchanged = _plain(decoded(manifests(world.own)))
    if expected is None or expected == unchanged:  # the cluster must change, or nothing helps
        if headline.changes and not _mentions(advice.check.text, headline.changes):
            yield f"check: {advice.check.text[:300]!r} instead of {words_of(headline.changes)!r}"
        elif advice.check.fixed is not None and not headline.changes:
            yield f"check offers a fix and explain none: {advice.check.text[:300]!r}"
        return
    if advice.check.fixed is None:
        if not _mentions(advice.check.text, headline.changes):
            yield f"check: {advice.check.text[:300]!r} instead of {words_of(headline.changes)!r}"
    elif (fixed := _plain(advice.check.fixed)) != expected:
        differing = next((a, b) for a, b in zip(fixed, expected, strict=False) if a != b)
        yield f"check's fix makes {_difference(*differing)} instead of: {words_of(headline.changes)}"


def _mentions(text: str, changes: tuple[SuggestedChange, ...]) -> bool:
    """Whether check's text contains changes of the cluster. It prints a command for the label of admin access, and
    simulates no claim that the API server rejects without it."""
    if changes[0].remedy == "allow":
        return f"{ADMIN_LABEL}=true" in text
    return all(change.text in text for change in changes)


def _plain(values: tuple[Object, ...]) -> list[str]:
    """Objects as texts; which quotes a selector has makes no difference."""
    texts = (json.dumps(to_tree(value, kind=type(value).__name__), sort_keys=True) for value in values)
    return sorted(text.replace("'", '\\"') for text in texts)


def _difference(first: str, second: str) -> str:
    """The part of the first text that differs from the second one."""
    start = next((at for at, (a, b) in enumerate(zip(first, second, strict=False)) if a != b), 0)
    return f"…{first[max(0, start - 40) : start + 60]}…"


# --- privacy --------------------------------------------------------------------------------------------------------


def _leaks(advice: Advice) -> Iterator[str]:
    """Names of other tenants in what readers of the pod's namespace see."""
    if advice.own_view is None:
        return
    texts = {"explain": printed(advice.own_view), "annotator": "\n".join(lines_of(advice.own_view))}
    if advice.shown is not None:
        texts["condition and event"] = advice.shown.text
    for tool, text in texts.items():
        if SECRET in text:
            at = text.index(SECRET)
            yield f"{tool}: …{_SPACES.sub(' ', text[max(0, at - 60) : at + 60])}…"
