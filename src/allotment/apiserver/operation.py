"""A write request, as admission and the verbs see it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from allotment.apiserver.kinds.kind import ServedKind, User
from allotment.apiserver.served_kinds import api_version
from allotment.model.trees import Tree

#: The user of writes by the server itself.
_SERVER: Final = User("system:apiserver", ("system:masters",))


def ignore_warning(text: str) -> None:
    """Discard a warning."""


class Operation(NamedTuple):
    """A request on an object or kind in one API version.

    ``warn`` adds a Warning header. ``options``: the fields of CreateOptions, UpdateOptions or DeleteOptions.
    ``is_admitted``: admission has decided about the request as a whole, such as an eviction. ``verb``: that of the
    request for authorization. ``is_collection``: a whole collection is deleted, so admission sees no name.
    """

    kind: ServedKind
    version: str
    namespace: str
    name: str
    user: User
    manager: str = "unknown"
    subresource: str = ""
    dry_run: bool = False
    warn: Callable[[str], None] = ignore_warning
    options: Tree | None = None
    is_admitted: bool = False
    verb: str = "update"
    is_collection: bool = False

    @property
    def api_version(self) -> str:
        """The group and version as in ``apiVersion``."""
        return api_version(self.kind, self.version)


def server_operation(kind: ServedKind, version: str, namespace: str, name: str, subresource: str = "") -> Operation:
    """A write of the server itself, which admission does not decide about."""
    return Operation(kind, version, namespace, name, _SERVER, "kube-apiserver", subresource, is_admitted=True)
