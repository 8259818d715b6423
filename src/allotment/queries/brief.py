"""Answers that are short enough for the context window of a language model: at most two kilobytes of JSON.

They keep codes, counts, names and remedies, and never round or reword them. What is left out is counted in ``omitted``;
the whole answer is one request away.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

import msgspec

Data: TypeAlias = Mapping[str, Any]

#: The maximum size of a short answer, in bytes of JSON.
BRIEF: Final = 2000
#: Texts that are longer are cut: at first few of them, then, if the answer is still too long, more.
_LONGEST_TEXTS: Final = (400, 150, 60)
#: A command that is longer is left out.
_LONGEST_COMMAND: Final = 300
#: Names of texts that are never cut, and of lists that are never shortened.
_WHOLE: Final = frozenset({"texts", "next", "code"})
_TOGETHER: Final = frozenset({"remedies", "otherwise"})
_ELLIPSIS: Final = "…"


def brief(query: str, answer: Data) -> dict[str, Any]:
    """Return the essence of the answer to a query, in at most `BRIEF` bytes."""
    return limited(_BRIEFS[query](answer) if query in _BRIEFS else dict(answer))


def size(data: Any) -> int:
    """Return the size of data in bytes of JSON."""
    return len(msgspec.json.encode(data))


# --- the essence of each answer ---------------------------------------------------------------------------------------


def _why(answer: Data) -> dict[str, Any]:
    if "classes" in answer:
        return {"classes": [_without(each, "nodes") for each in answer["classes"]], **_kept(answer, "next")}
    every: Sequence[Data] = answer["answers"]
    fitting = [each for each in every if each["outcome"] == "fits"]
    groups: dict[str, list[Data]] = {}
    for each in every:
        if each["outcome"] != "fits":
            groups.setdefault(msgspec.json.encode(_reason(each)).decode(), []).append(each)
    return {
        "fits": answer["fits"],
        "pods": len(every),
        "fitting": [_fitting(each) for each in fitting],
        "pending": [_pending(members) for members in groups.values()],
        **_kept(answer, "notes", "unread"),
    }


def _fitting(answer: Data) -> dict[str, Any]:
    devices = [device for claim in answer.get("claims", ()) for device in claim["devices"]]
    kinds = Counter(device.get("kind") or device["driver"] for device in devices)
    return {
        "name": answer["name"],
        **_kept(answer, "node", "bound", "waits", "notes"),
        **({"devices": dict(kinds)} if kinds else {}),
    }


def _pending(members: Sequence[Data]) -> dict[str, Any]:
    """Return pods that are pending for one reason: how many, the first ones, and the reason."""
    first = members[0]
    return {
        "count": len(members),
        "names": [each["name"] for each in members[:3]],
        **_reason(first),
        **_kept(first, "owner", "waits", "notes", "next"),
    }


def _reason(answer: Data) -> dict[str, Any]:
    """Return what pods of one group have in common: the code, the sentences and the remedy."""
    reasons = answer.get("reasons")
    if reasons is None:
        return {"outcome": answer["outcome"]}
    headline: Data = reasons["headline"]
    nearest: Data | None = headline.get("nearest")
    return {
        "code": headline["code"],
        "summary": headline["summary"],
        **_kept(headline, "node", "request"),
        **({"nearest": _without(nearest, "qualifier")} if nearest else {}),
        "remedies": [change["text"] for change in headline.get("changes", ())],
        **({"otherwise": [change["text"] for change in headline["otherwise"]]} if headline.get("otherwise") else {}),
        **_kept(headline, "kubernetes"),
    }


def _would_fit(answer: Data) -> dict[str, Any]:
    placements: Iterable[Data] = answer.get("placements", ())
    nodes = Counter(each["node"] for each in placements)
    return {
        **_kept(answer, "fits", "pods", "fitting"),
        **({"nodes": [f"{node}: {count}" for node, count in nodes.most_common()]} if nodes else {}),
        **_kept(answer, "refused", "notes"),
    }


def _free(answer: Data) -> dict[str, Any]:
    """Return the number of devices by kind and state, and the nodes with free ones."""
    kinds: dict[str, Counter[str]] = {}
    nodes: dict[str, Counter[str]] = {}
    for node in answer.get("nodes", ()):
        for device in node.get("devices", ()):
            kind = device["kind"] or device["driver"]
            kinds.setdefault(kind, Counter())[device["state"]] += 1
            if device["state"] in ("free", "shared"):
                nodes.setdefault(kind, Counter())[node["node"] or "(several nodes)"] += 1
    closed = {node["node"]: node["unschedulable"] for node in answer.get("nodes", ()) if node.get("unschedulable")}
    problems = [
        {"node": node["node"], "text": each["text"]}
        for node in answer.get("nodes", ())
        for each in node.get("problems", ())
    ]
    return {
        "devices": [
            {
                "kind": kind,
                "count": states.total(),
                "states": dict(states),
                "freeOn": [f"{node}: {count}" for node, count in nodes.get(kind, Counter()).most_common()],
            }
            for kind, states in kinds.items()
        ],
        **({"unschedulable": [f"{node}: {why}" for node, why in closed.items()]} if closed else {}),
        **({"problems": problems} if problems else {}),
        **_kept(answer, "strays", "unread", "next"),
    }


def _check(answer: Data) -> dict[str, Any]:
    return {
        "summary": answer["summary"],
        "findings": [
            {
                **_kept(each, "code", "level", "message", "file", "line", "path", "help"),
                **({"fix": _kept(each["fix"], "text", "safe")} if "fix" in each else {}),
            }
            for each in answer["findings"]
        ],
        **_kept(answer, "unread", "next"),
    }


def _fix(answer: Data) -> dict[str, Any]:
    found = _check(answer)
    fixed = [_kept(each, "code", "line", "text") for each in answer["fixed"]]
    texts = answer["texts"] if size(answer["texts"]) < BRIEF // 2 else {}
    hint = {"textsHint": "detail: true returns the fixed texts"} if answer["texts"] and not texts else {}
    return {"texts": texts, **hint, "fixed": fixed, **_without(found, "unread")}


def _what_if(answer: Data) -> dict[str, Any]:
    return {
        **_kept(answer, "changes", "counts", "before", "after"),
        **_kept(answer, "stranded", "purchase"),
        "moving": [
            f"{each['pod']}: {each.get('from') or 'pending'} to {each['to']}" for each in answer.get("moving", ())
        ],
        "losing": [f"{each['pod']}: {', '.join(each.get('devices', ()))}" for each in answer.get("losing", ())],
        **_kept(answer, "notes", "targets"),
    }


def _plan(answer: Data) -> dict[str, Any]:
    machines = Counter((each["instance"], each["zone"], each["capacityType"]) for each in answer["machines"])
    unserved = Counter((each["code"], each["text"]) for each in answer["unserved"])
    return {
        **_kept(answer, "verdict", "total", "bound", "gap"),
        "machines": [
            {"instance": instance, "zone": zone, "capacityType": kind, "count": count}
            for (instance, zone, kind), count in machines.items()
        ],
        "unserved": [{"code": code, "text": text, "count": count} for (code, text), count in unserved.items()],
        "relaxations": [_kept(each, "what", "total", "saves") for each in answer["relaxations"]],
        **_kept(answer, "notes", "next"),
    }


def _code(answer: Data) -> dict[str, Any]:
    return _without(answer, "bad", "good") if size(answer) > BRIEF else dict(answer)


_BRIEFS: Final[Mapping[str, Callable[[Data], dict[str, Any]]]] = {
    "why": _why,
    "would-fit": _would_fit,
    "free": _free,
    "check": _check,
    "fix": _fix,
    "what-if": _what_if,
    "plan": _plan,
    "explain-code": _code,
}


def _kept(data: Data, *names: str) -> dict[str, Any]:
    """Return the named values that are not empty."""
    return {name: data[name] for name in names if name in data and data[name] not in ("", [], {}, None)}


def _without(data: Data, *names: str) -> dict[str, Any]:
    return {name: value for name, value in data.items() if name not in names}


# --- the size --------------------------------------------------------------------------------------------------------


def limited(data: Data, most: int = BRIEF) -> dict[str, Any]:
    """Return data in at most ``most`` bytes of JSON. The longest lists lose their last items, which are counted by
    name.

    >>> limited({"fits": True, "names": ["a" * 50] * 9}, 200)["omitted"]
    {'names': 7}
    """
    found: dict[str, Any] = {}
    for longest in _LONGEST_TEXTS:
        omitted: Counter[str] = Counter()
        found = _cut(data, longest, "", omitted)
        while (excess := size({**found, "omitted": omitted}) - most) > 0:
            list_ = _longest_list(found)
            if list_ is None:
                break
            count = min(len(list_.values) - 1, max(1, excess * len(list_.values) // list_.size // 2))
            del list_.values[-count:]
            omitted[list_.path] += count
        if omitted:
            found["omitted"] = dict(omitted)
        if size(found) <= most:
            break
    return found


class _List(NamedTuple):
    """A list of an answer. ``path``: the names that lead to it; ``size``: in bytes."""

    path: str
    values: list[Any]
    size: int


def _cut(value: Any, longest: int, name: str, omitted: Counter[str]) -> Any:
    """Return a copy whose texts are not too long. A part of a manifest or a command is of no use."""
    if isinstance(value, dict):
        kept = {}
        for key, inner in value.items():
            if key == "next" and len(inner) > max(longest, _LONGEST_COMMAND):
                omitted[key] += 1
            else:
                kept[key] = _cut(inner, longest, name if name in _WHOLE else key, omitted)
        return kept
    if isinstance(value, list | tuple):
        return [_cut(inner, longest, name, omitted) for inner in value]
    if isinstance(value, str) and len(value) > longest and name not in _WHOLE:
        return f"{value[: longest - 1]}{_ELLIPSIS}"
    return value


def _longest_list(value: Any, path: str = "", name: str = "") -> _List | None:
    """Return the list to shorten: the one with the most bytes that are not in a single list of one of its items.

    Remedies belong together, and the only item of a list remains.
    """
    if isinstance(value, dict):
        inner = [_longest_list(each, f"{path}.{key}" if path else key, key) for key, each in value.items()]
    elif isinstance(value, list) and name not in _TOGETHER:
        inner = [_longest_list(each, path, name) for each in value]
    else:
        return None
    longest = max(filter(None, inner), key=lambda each: each.size, default=None)
    if isinstance(value, dict) or len(value) < 2:
        return longest
    whole = size(value)
    return longest if longest is not None and longest.size * 2 > whole else _List(path, value, whole)
