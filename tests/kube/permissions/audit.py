"""The requests that a kube-apiserver received and its answers, from its audit log, which is read as it grows."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from allotment.model.trees import Tree
from allotment.permissions.access_reviews import AccessRequest

#: Records the user, resource and verb of every request of the accounts under test; written before the response is sent.
POLICY: Final = """\
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- {level: Metadata, userGroups: ["system:serviceaccounts"]}
- {level: None}
"""
#: The start of RBAC's error messages; those of a quota start differently.
_NOT_ALLOWED: Final = 'forbidden: User "'
#: The missing permission in the message; it may have another verb than the request where one permission covers several.
_MISSING: Final = re.compile(r'cannot (\S+) (?:resource|path) "([^"]+)"(?: in API group "([^"]*)")?')
#: Matches a validation error about a permission that no request is authorized by.
_VALIDATION: Final = 'requires resource="'


class Request(NamedTuple):
    """One request of an account. ``resource`` includes the subresource; ``why`` is the message of a rejected
    request."""

    user: str
    verb: str
    group: str
    resource: str
    name: str
    namespace: str
    code: int
    why: str

    @property
    def is_forbidden(self) -> bool:
        """Whether a permission was missing."""
        return (self.code == 403 and _NOT_ALLOWED in self.why) or _VALIDATION in self.why

    def __str__(self) -> str:
        return f"{self.verb} {self.resource}.{self.group} {self.namespace}/{self.name}: {self.code} {self.why}"

    def requires(self, permission: AccessRequest) -> bool:
        """Whether the permission is required for this request."""
        if permission.path:
            return (self.verb, self.resource) == (permission.verb, permission.path)
        whole = f"{permission.resource}/{permission.subresource}" if permission.subresource else permission.resource
        return (
            (self.verb, self.group, self.resource) == (permission.verb, permission.group, whole)
            and permission.name in ("", self.name)
            and permission.namespace in ("", self.namespace)
        )

    def lacks(self, permission: AccessRequest) -> bool:
        """Whether it was rejected because this permission is missing."""
        if _VALIDATION in self.why:
            return (
                f"{permission.resource}/{permission.subresource}" in self.why
                and permission.verb in self.why
                and permission.name in self.why
            )
        missing = _MISSING.search(self.why)
        assert missing is not None, self.why
        return self._replace(verb=missing[1], resource=missing[2], group=missing[3] or "").requires(permission)


class Audit:
    """An audit log; ``arguments`` configure a kube-apiserver to write it."""

    def __init__(self, folder: Path) -> None:
        self._log, policy = folder / "audit.log", folder / "audit.yaml"
        policy.write_text(POLICY)
        self.arguments = (f"--audit-policy-file={policy}", f"--audit-log-path={self._log}")
        self._read = 0
        self._found: dict[str, list[Request]] = {}

    def requests_of(self, user: str) -> list[Request]:
        """All requests of a user until now."""
        for request in self._read_new():
            self._found.setdefault(request.user, []).append(request)
        return self._found.get(user, [])

    def _read_new(self) -> Iterator[Request]:
        if not self._log.exists():
            return
        with self._log.open("rb") as file:
            file.seek(self._read)
            text = file.read()
        whole = text[: text.rfind(b"\n") + 1]
        self._read += len(whole)
        for line in whole.splitlines():
            yield _request(json.loads(line))


def _request(event: Tree) -> Request:
    about, answer = event.get("objectRef") or {}, event.get("responseStatus") or {}
    resource = "/".join(filter(None, (about.get("resource", ""), about.get("subresource", ""))))
    return Request(
        event["user"]["username"], event["verb"], about.get("apiGroup", ""), resource or event["requestURI"],
        about.get("name", ""), about.get("namespace", ""), answer.get("code", 0), answer.get("message", ""),
    )  # fmt: skip
