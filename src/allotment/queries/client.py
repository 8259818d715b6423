"""``WebClient``: the answers of a page that `allot web` serves, or that runs in a cluster, as typed values."""

from __future__ import annotations

import ssl
from collections.abc import Mapping, Sequence
from decimal import Decimal
from http.client import HTTPException
from os import PathLike, fspath
from typing import Any, Final, TypeVar
from urllib.error import HTTPError, URLError
from urllib.parse import parse_qs, urlsplit, urlunsplit
from urllib.request import (
    BaseHandler,
    HTTPRedirectHandler,
    HTTPSHandler,
    OpenerDirector,
    ProxyHandler,
    Request,
    build_opener,
)

import msgspec

from allotment.api.claim import Vendor
from allotment.api.load import Source
from allotment.api.manifest_files import ManifestFiles, read_manifest_files
from allotment.cluster.errors import StatusError, Unreachable
from allotment.decoding import decodable
from allotment.errors import InputError, InvalidManifests
from allotment.explanation.report import Explanation
from allotment.model.problems import InputProblem, Position
from allotment.model.quantity import Quantity
from allotment.phrases import split_words
from allotment.planning.limits import CapacityPolicy
from allotment.queries.answers import CheckAnswer, ClassSelections, CodeMeaning, FitAnswer, PlanAnswer
from allotment.queries.openapi import PREFIX
from allotment.queries.problems import MANIFESTS, UNREACHABLE, Problem
from allotment.queries.requests import (
    CheckRequest,
    CodeRequest,
    FitRequest,
    FixRequest,
    FreeRequest,
    PlanRequest,
    WhyRequest,
)
from allotment.screens.hypothetical_changes import change_of
from allotment.screens.what_if import WhatIfRequest, WhatIfScreen
from allotment.tools.free import FreeReport

T = TypeVar("T")

#: Seconds for which an answer may take.
_TIMEOUT: Final = 60.0
_JSON: Final = "application/json"
_LOOPBACK: Final = ("127.0.0.1", "localhost", "::1")


def connect(
    url: str,
    token: str = "",
    *,
    timeout: float = _TIMEOUT,
    certificate_authority: str | PathLike[str] | None = None,
) -> WebClient:  # fmt: skip
    """Return a client of the page at a URL, which is not contacted yet.

    ``url``: as ``allot web`` prints it, with the token; or without, and ``token``: in a cluster, that of the user whose
    permissions count. ``timeout``: seconds for an answer. ``certificate_authority``: a file in PEM that verifies the
    server; by default the authorities of the system. Raises InputError for a URL that is not HTTP.
    """
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.netloc:
        raise InputError(f"expected a URL such as http://127.0.0.1:8780, found {url!r}", argument="url")
    known = token or next(iter(parse_qs(parts.query).get("token", ())), "")
    base = urlunsplit((parts.scheme, parts.netloc, parts.path.rstrip("/"), "", ""))
    handlers: list[BaseHandler] = [_NoRedirects()]
    if certificate_authority:
        handlers.append(HTTPSHandler(context=ssl.create_default_context(cafile=fspath(certificate_authority))))
    if parts.hostname in _LOOPBACK:
        handlers.append(ProxyHandler({}))  # a proxy cannot reach this machine
    return WebClient(base, known, timeout, build_opener(*handlers))


class _NoRedirects(HTTPRedirectHandler):
    """Follows no redirect: it would send the token to the other server."""

    def redirect_request(self, *arguments: object) -> None:
        """Return None, so that the response is an error."""


class WebClient:
    """A client of the page that ``allot web`` serves. ``connect`` returns it.

    Each method sends a query, blocks until the server answers, and returns what the function of the same name would
    return there. Manifests are read here and sent as texts. The methods raise InputError and InvalidManifests for the
    arguments and for a URL of another server, StatusError if the server rejects the request (401: the token is wrong;
    503: it takes too long), and Unreachable.
    """

    def __init__(self, url: str, token: str, timeout: float, opener: OpenerDirector) -> None:
        self.url = url
        self._token = token
        self._timeout = timeout
        self._opener = opener

    def explain(self, objects: Source | None = None, *, name: str = "", namespace: str = "") -> Explanation:
        """Return the devices that pods and claims get, or why they get none.

        ``objects``: manifests; without them, all pending pods. ``name``: only this object: ``pod/trainer-0``.
        """
        request = WhyRequest(name=name, namespace=namespace, manifests=_text(objects))
        body = self._send("why", request)
        if "classes" in self._decoded(body, dict[str, msgspec.Raw]):
            raise InputError("the manifests contain only DeviceClasses", "use explain_classes", argument="objects")
        return self._decoded(body, Explanation)

    def explain_classes(self, objects: Source) -> ClassSelections:
        """Return the devices that each DeviceClass of the objects selects, by node, or why it selects none.

        ``objects``: manifests that contain nothing else.
        """
        body = self._send("why", WhyRequest(manifests=_text(objects)))
        if "classes" not in self._decoded(body, dict[str, msgspec.Raw]):
            raise InputError("the manifests contain not only DeviceClasses", "use explain", argument="objects")
        return self._decoded(body, ClassSelections)

    def would_fit(
        self,
        objects: Source | None = None,
        *,
        gpus: int = 0,
        memory: str = "",
        model: str = "",
        vendor: Vendor = "",
        mig: str = "",
        share: str = "",
        copies: int = 1,
        namespace: str = "",
    ) -> FitAnswer:
        """Return whether pods would get their devices now, and how many of them at the same time.

        ``objects``: manifests; or instead the devices of each of ``copies`` equal pods, in the words of ``claim``.
        """
        request = FitRequest(
            manifests=_text(objects), namespace=namespace, gpus=gpus, memory=memory, model=model, vendor=vendor,
            mig=mig, share=share, copies=copies,
        )  # fmt: skip
        return self._decoded(self._send("would-fit", request), FitAnswer)

    def free(
        self, *, objects: Source | None = None, tolerations: Sequence[str] = (), namespace: str = ""
    ) -> FreeReport:  # fmt: skip
        """Return all devices, which of them are free, and who uses the others.

        ``objects``: manifests to add to the cluster. ``tolerations``: as for the function ``free``.
        """
        request = FreeRequest(tolerations=_words(tolerations), namespace=namespace, manifests=_text(objects))
        return self._decoded(self._send("free", request), FreeReport)

    def check(
        self,
        *sources: Source,
        select: Sequence[str] = (),
        ignore: Sequence[str] = (),
        drivers: Mapping[str, str] | None = None,
        namespace: str = "",
    ) -> CheckAnswer:
        """Return the mistakes in manifests, also whether the workloads get their devices in the cluster."""
        request = CheckRequest(
            files=_files(*sources), namespace=namespace, select=_words(select), ignore=_words(ignore),
            drivers=dict(drivers or {}),
        )  # fmt: skip
        return self._decoded(self._send("check", request), CheckAnswer)

    def fix(
        self,
        *sources: Source,
        unsafe: bool = False,
        select: Sequence[str] = (),
        ignore: Sequence[str] = (),
        drivers: Mapping[str, str] | None = None,
        namespace: str = "",
    ) -> CheckAnswer:
        """Return the fixed manifests (``texts``), and the findings that remain. No file is written.

        ``unsafe``: also apply fixes that guess the intent.
        """
        request = FixRequest(
            files=_files(*sources), unsafe=unsafe, namespace=namespace, select=_words(select), ignore=_words(ignore),
            drivers=dict(drivers or {}),
        )  # fmt: skip
        return self._decoded(self._send("fix", request), CheckAnswer)

    def what_if(self, *changes: str) -> WhatIfScreen:
        """Return what happens after changes, in this order: who loses devices, where pods go, who is stranded and why.

        ``changes``: ``drain:NODE``, ``remove:NODE``, ``fail-device:NODE/DEVICE``, ``taint:NODE:KEY=VALUE:EFFECT``,
        ``scale:NAMESPACE/KIND/NAME:REPLICAS``, ``mig-mode:NODE:MODE``, ``kube-version:RELEASE``,
        ``add-machines:HARDWARE``.
        """
        return self._decoded(self._send("what-if", WhatIfRequest(tuple(map(change_of, changes)))), WhatIfScreen)

    def plan(
        self,
        objects: Source | None = None,
        *,
        only: str = "",
        catalog: Sequence[str] = (),
        types: Sequence[str] = (),
        exclude_types: Sequence[str] = (),
        zones: Sequence[str] = (),
        capacity_type: CapacityPolicy = "on-demand",
        max_spot: Decimal | float | str | None = None,
        budget: Decimal | float | str | None = None,
        max_machines: int | None = None,
        max_per_type: Mapping[str, int] = {},
        modes: Sequence[str] = (),
        time_limit: float | None = None,
        seed: int = 0,
        compare: bool = False,
        namespace: str = "",
    ) -> PlanAnswer:
        """Return the cheapest machines for pods, with a proven bound. The arguments are those of the function ``plan``.

        ``catalog``: only names of providers, because files are not sent.
        """
        request = PlanRequest(
            manifests=_text(objects), namespace=namespace, only=only, catalog=_words(catalog), types=_words(types),
            exclude_types=_words(exclude_types), zones=_words(zones), capacity_type=capacity_type,
            max_spot="" if max_spot is None else str(max_spot), budget="" if budget is None else str(budget),
            max_machines=max_machines, max_per_type=dict(max_per_type), modes=_words(modes), time_limit=time_limit,
            seed=seed, compare=compare,
        )  # fmt: skip
        return self._decoded(self._send("plan", request), PlanAnswer)

    def explain_code(self, code: str) -> CodeMeaning:
        """Return what the code of a reason, a rule or a check of doctor means."""
        return self._decoded(self._send("explain-code", CodeRequest(code=code)), CodeMeaning)

    # --- requests ----------------------------------------------------------------------------------------------------

    def _send(self, query: str, request: msgspec.Struct) -> bytes:
        """Return the answer to a query as JSON. Raises InputError, InvalidManifests, StatusError and Unreachable."""
        url = f"{self.url}{PREFIX}{query}"
        headers = {"Content-Type": _JSON, "Accept": _JSON, "Authorization": f"Bearer {self._token}"}
        if not self._token:
            del headers["Authorization"]
        posted = Request(url, msgspec.json.encode(request), headers)
        try:
            with self._opener.open(posted, timeout=self._timeout) as response:
                body: bytes = response.read()
                kind = response.headers.get_content_type()
        except HTTPError as error:
            with error:
                raise _error(error.code, error.read(), url) from None
        except (URLError, OSError, HTTPException) as error:
            reason = getattr(error, "reason", None) or error
            raise Unreachable(f"{url}: {reason}") from None
        if kind != _JSON:
            raise self._not_allotment(f"its answer is {kind}")
        return body

    def _decoded(self, body: bytes, type_: type[T]) -> T:
        """Return an answer as a value. Raises InputError if it is not that of an Allotment server."""
        try:
            return msgspec.json.decode(body, type=decodable(type_), dec_hook=_value_of)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise self._not_allotment(str(error)) from None

    def _not_allotment(self, reason: str) -> InputError:
        hint = "use the address that allot web prints, and the same release of Allotment"
        return InputError(f"{self.url} is not a page of allot web: {reason}", hint, argument="url")


def _error(status: int, body: bytes, url: str) -> Exception:
    """Return the exception for a response with an error."""
    try:
        found = msgspec.json.decode(body, type=decodable(Problem))
    except msgspec.DecodeError:
        return StatusError({"code": status, "message": f"{url}: the server responded with status {status}"})
    if found.type == MANIFESTS:
        problems = [_input_problem(each) for each in found.errors]
        return InvalidManifests(problems, lambda _: None)
    if status == 400:
        return InputError(found.detail, found.hint)
    if found.type == UNREACHABLE:
        return Unreachable(f"{url}: {found.detail}")
    message = "; ".join(filter(None, (f"{found.title}: {found.detail}" if found.detail else found.title, found.hint)))
    return StatusError({"code": status, "message": message})


def _input_problem(data: Mapping[str, Any]) -> InputProblem:
    position = Position(data.get("file", ""), data.get("line", 1), data.get("column", 1))
    named = {name: data.get(name, "") for name in ("code", "message", "path", "hint", "suggestion")}
    return InputProblem(position=position, **named)


def _value_of(type_: type, value: Any) -> Any:
    if type_ is Quantity:
        return Quantity.parse(value)
    raise NotImplementedError(type_)


def _words(values: Sequence[str]) -> tuple[str, ...]:
    """Return a sequence of strings, for which one string is enough."""
    return tuple(split_words(values)) if isinstance(values, str) else tuple(values)


def _text(objects: Source | None) -> str:
    """Return manifests as one text. Raises InputError, and InvalidManifests for a file that cannot be read."""
    return "" if objects is None else "\n---\n".join(_files(objects).values())


def _files(*sources: Source) -> dict[str, str]:
    """Return manifests as texts by file."""
    found: ManifestFiles = read_manifest_files(sources)
    return found.sources
