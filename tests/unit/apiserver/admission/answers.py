"""Compares the answers of an API to a sequence of requests with the expected ones."""

from __future__ import annotations

from collections.abc import Iterable

from tests.admission_requests.request import Request
from tests.unit.apiserver.served import Served

_MERGE = "application/merge-patch+json"


async def answers(served: Served, requests: Iterable[Request]) -> None:
    """Send requests in order, each as its user, and compare codes, messages and warnings."""
    for request in requests:
        media = _MERGE if request.method == "PATCH" else "application/json" if request.body is not None else ""
        headers = {name.lower(): value for name, value in impersonation(request.user).items()}
        response = await served.request(request.method, request.path, request.body, media, **headers)
        message = response.body.get("message", "") if response.code >= 400 else ""
        warnings = tuple(map(unquoted, response.warnings))
        assert request.shows(response.body), (request.method, request.path, response.body)
        expected = request.answer(served.api.verbs.features.kube)
        assert (response.code, message, warnings) == expected, (request.method, request.path, request.body)


def impersonation(user: str) -> dict[str, str]:
    """The headers of the administrator's requests as another user; nodes are in the group of nodes."""
    if user == "admin":
        return {}
    group = "system:nodes" if user.startswith("system:node:") else "system:authenticated"
    return {"Impersonate-User": user, "Impersonate-Group": group}


def unquoted(warning: str) -> str:
    """The text of a Warning header."""
    return warning.removeprefix('299 - "').removesuffix('"').replace('\\"', '"')
