"""What a URL path asks for: a resource of a group and version, and where in it; or something else altogether.

Parsing is a pure function of the text and cached, for clients ask the same few paths again and again.
"""

from __future__ import annotations

from typing import Final, NamedTuple
from urllib.parse import unquote

from allotment.apiserver.memo import memoized

#: What may follow a namespace's name without being a resource in it.
_NAMESPACE_SUBRESOURCES: Final = frozenset({"status", "finalize"})
#: Rather short: a client that asks a new path each time (events, pods) must not fill the memory.
_CACHE_SIZE: Final = 8192


class ResourcePath(NamedTuple):
    """The resource that a path names. ``watch``: it is the old path of a watch. ``rest`` is behind the subresource."""

    group: str
    version: str
    plural: str
    namespace: str = ""
    name: str = ""
    subresource: str = ""
    rest: str = ""
    watch: bool = False


@memoized(_CACHE_SIZE)
def parse(path: str) -> ResourcePath | None:
    """The resource that a percent-encoded path names; None for discovery, health and all else.

    >>> parse("/apis/apps/v1/namespaces/shop/deployments/web/scale")[:6]
    ('apps', 'v1', 'deployments', 'shop', 'web', 'scale')
    >>> parse("/api/v1/namespaces/shop").plural
    'namespaces'
    >>> parse("/healthz")
    """
    steps = path.split("/")
    if steps[0] or len(steps) < 4 or "" in steps[1:-1]:
        return None
    if steps[-1] == "":
        steps.pop()
    if "%" in path:
        steps = [unquote(step) for step in steps]
    if steps[1] == "api":
        group, version, steps = "", steps[2], steps[3:]
    elif steps[1] == "apis" and len(steps) > 4:
        group, version, steps = steps[2], steps[3], steps[4:]
    else:
        return None
    watch = bool(steps) and steps[0] == "watch" and len(steps) > 1
    if watch:
        steps = steps[1:]
    if not steps:
        return None
    namespace = ""
    if steps[0] == "namespaces" and not group and len(steps) > 1:
        if len(steps) > 2 and steps[2] not in _NAMESPACE_SUBRESOURCES:
            namespace, steps = steps[1], steps[2:]
    elif steps[0] == "namespaces" and len(steps) > 2:
        namespace, steps = steps[1], steps[2:]
    plural, name, subresource = (*steps, "", "")[:3]
    return ResourcePath(group, version, plural, namespace, name, subresource, "/".join(steps[3:]), watch)
