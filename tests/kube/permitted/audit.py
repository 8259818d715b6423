"""What a kube-apiserver was asked, by whom, and what it answered: its own audit log, read as it grows."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from allotment.model.trees import Tree
from allotment.tools.permissions.access_reviews import AccessRequest

#: Who and what, of every request that concerns our accounts; before the answer goes out.
POLICY: Final = """\
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- {level: Metadata, userGroups: ["system:serviceaccounts"]}
- {level: None}
"""
#: How RBAC's refusals begin; a quota's begin otherwise.
_NOT_ALLOWED: Final = 'forbidden: User "'
#: What of it says which one is missing: another than the request's verb where that stands for several.
_MISSING: Final = re.compile(r'cannot (\S+) (?:resource|path) "([^"]+)"(?: in API group "([^"]*)")?')
#: How a validation tells that a permission is missing that no request is authorized by.
_LACKS: Final = 'requires resource="'


class Request(NamedTuple):
    """One request of an account. ``resource`` with its subresource; ``why`` is told of refusals."""

    user: str
    verb: str
    group: str
    resource: str
    name: str
    namespace: str
    code: int
    why: str

    @property
    def refused(self) -> bool:
        """Whether a permission was missing."""
        return (self.code == 403 and _NOT_ALLOWED in self.why) or _LACKS in self.why

    def __str__(self) -> str:
        return f"{self.verb} {self.resource}.{self.group} {self.namespace}/{self.name}: {self.code} {self.why}"

    def uses(self, ask: AccessRequest) -> bool:
        """Whether it is what a permission is for."""
        if ask.path:
            return (self.verb, self.resource) == (ask.verb, ask.path)
        whole = f"{ask.resource}/{ask.subresource}" if ask.subresource else ask.resource
        return (
            (self.verb, self.group, self.resource) == (ask.verb, ask.group, whole)
            and ask.name in ("", self.name)
            and ask.namespace in ("", self.namespace)
        )

    def lacks(self, ask: AccessRequest) -> bool:
        """Whether it was refused for want of this permission."""
        if _LACKS in self.why:
            return f"{ask.resource}/{ask.subresource}" in self.why and ask.verb in self.why and ask.name in self.why
        missing = _MISSING.search(self.why)
        assert missing is not None, self.why
        return self._replace(verb=missing[1], resource=missing[2], group=missing[3] or "").uses(ask)


class Audit:
    """An audit log; ``arguments`` have a kube-apiserver write it."""

    def __init__(self, folder: Path) -> None:
        self._log, policy = folder / "audit.log", folder / "audit.yaml"
        policy.write_text(POLICY)
        self.arguments = (f"--audit-policy-file={policy}", f"--audit-log-path={self._log}")
        self._read = 0
        self._found: dict[str, list[Request]] = {}

    def of(self, user: str) -> list[Request]:
        """All that a user has asked until now."""
        for request in self._news():
            self._found.setdefault(request.user, []).append(request)
        return self._found.get(user, [])

    def _news(self) -> Iterator[Request]:
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
