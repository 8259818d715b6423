"""The table of queries: name, request, answer. The HTTP API, the MCP server and the documentation are made from it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

import msgspec
from msgspec.structs import fields

from allotment.cluster.errors import Unreachable
from allotment.decoding import decodable
from allotment.errors import InputError
from allotment.explanation.report import Explanation
from allotment.fleet.errors import suggestion
from allotment.queries.answers import CheckAnswer, ClassSelections, CodeMeaning, FitAnswer, PlanAnswer
from allotment.queries.fit import would_fit
from allotment.queries.questions import check, explain_code, fix, free, plan, what_if, why
from allotment.queries.requests import (
    CheckRequest,
    CodeRequest,
    FitRequest,
    FixRequest,
    FreeRequest,
    PlanRequest,
    WhyRequest,
)
from allotment.screens.what_if import WhatIfRequest, WhatIfScreen
from allotment.tools.free import FreeReport
from allotment.watched.view import ClusterView

AnyRequest = TypeVar("AnyRequest", bound=msgspec.Struct)

#: Messages of msgspec.
_INVALID: Final = re.compile(r"(?P<problem>.*?)(?: - at `(?P<path>.*)`)?", re.DOTALL)
_UNKNOWN: Final = re.compile(r"Object contains unknown field `(?P<name>.*)`", re.DOTALL)


@dataclass(frozen=True)
class Query(Generic[AnyRequest]):
    """A read-only question of programs.

    ``title``: at most four words; ``summary``: what it answers, in one sentence. ``request``: the type of the request;
    ``answers``: the types of which the JSON is one. ``function``: computes the answer.
    ``is_get``: whether the request may be a URL.
    """

    name: str
    title: str
    summary: str
    request: type[AnyRequest]
    answers: tuple[Any, ...]
    function: Callable[[ClusterView, AnyRequest], Mapping[str, Any]]
    is_get: bool = False

    def answer(self, view: ClusterView, request: AnyRequest) -> Mapping[str, Any]:
        """Return the answer as data; this may take seconds. Raises InputError, and Unreachable for an unknown cluster.

        A cluster that does not respond any more is answered from its last state.
        """
        if not view.connected and not view.seen_at:
            raise Unreachable(view.error or "the cluster has not been read yet")
        return self.function(view, request)

    def decoded(self, body: bytes) -> AnyRequest:
        """Return the request of a body in JSON. Raises InputError."""
        try:
            return msgspec.json.decode(body, type=decodable(self.request))
        except msgspec.ValidationError as error:
            raise self._invalid(error) from None
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise InputError(f"invalid JSON: {error}", "send a JSON object") from None

    def converted(self, values: Mapping[str, Any], *, of_url: bool = False) -> AnyRequest:
        """Return the request of values by name; those of a URL are texts. Raises InputError."""
        try:
            return msgspec.convert(values, decodable(self.request), strict=not of_url)
        except msgspec.ValidationError as error:
            raise self._invalid(error) from None

    def _invalid(self, error: msgspec.ValidationError) -> InputError:
        """Return the error of an invalid request in the words of other errors."""
        found = _INVALID.fullmatch(str(error))
        assert found is not None
        path = (found["path"] or "").removeprefix("$").removeprefix(".")
        if unknown := _UNKNOWN.fullmatch(found["problem"]):
            known = [field.encode_name for field in fields(self.request)]
            hint = suggestion(unknown["name"], known) or f"known: {', '.join(known)}"
            return InputError(f"unknown field {unknown['name']!r}", hint, argument=path)
        text = found["problem"].replace("`", "").replace(", got ", ", found ")
        return InputError(f"{text[:1].lower()}{text[1:]}", argument=path)


QUERIES: Final[tuple[Query[Any], ...]] = (
    Query(
        "why",
        "Why pending",
        "Why a pod, claim or workload is pending: which devices it gets, or the code of the reason why it gets none,"
        " what excluded each device, and changes that were tried and help.",
        WhyRequest,
        (Explanation, ClassSelections),
        why,
        is_get=True,
    ),
    Query(
        "would-fit",
        "Would it fit",
        "Whether pods would get their devices now, on which nodes, and how many of them at the same time: for"
        " manifests, or for a number of GPUs.",
        FitRequest,
        (FitAnswer,),
        would_fit,
    ),
    Query(
        "free",
        "Free devices",
        "The devices of the cluster by node: which are free, who uses the others, and what is left of shared ones.",
        FreeRequest,
        (FreeReport,),
        free,
        is_get=True,
    ),
    Query(
        "check",
        "Check manifests",
        "The mistakes in manifests with claims, each with a code, its place and a fix.",
        CheckRequest,
        (CheckAnswer,),
        check,
    ),
    Query(
        "fix",
        "Fix manifests",
        "The manifests with their mistakes fixed, and the findings that remain. Nothing is written.",
        FixRequest,
        (CheckAnswer,),
        fix,
    ),
    Query(
        "what-if",
        "What if",
        "What happens if nodes are drained or removed, a device fails, a workload is scaled, machines are added: who"
        " loses devices, where pods go, who is stranded and why, and which machines would help.",
        WhatIfRequest,
        (WhatIfScreen,),
        what_if,
    ),
    Query(
        "plan",
        "Plan machines",
        "The cheapest machines of a catalog for pods, with a proven lower bound on the price.",
        PlanRequest,
        (PlanAnswer,),
        plan,
    ),
    Query(
        "explain-code",
        "Explain a code",
        "What a code means: of a reason (devices-in-use), a rule of check (M401) or a check of doctor (D301).",
        CodeRequest,
        (CodeMeaning,),
        explain_code,
        is_get=True,
    ),
)


def query_named(name: str) -> Query[Any]:
    """Return the query of a name. Raises InputError."""
    by_name = {query.name: query for query in QUERIES}
    if name not in by_name:
        raise InputError(f"unknown query {name!r}", suggestion(name, by_name) or f"known: {', '.join(by_name)}")
    return by_name[name]
