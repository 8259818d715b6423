"""Parses URL paths of the resource API into group, version, resource, namespace, name and subresource.

Results are cached, because clients request the same few paths repeatedly.
"""

from __future__ import annotations

from typing import Final, NamedTuple
from urllib.parse import unquote

from allotment.apiserver.memo import memoized

#: Subresources of a namespace; any other path segment after its name is a resource in the namespace.
_NAMESPACE_SUBRESOURCES: Final = frozenset({"status", "finalize"})
#: Bounded, because clients create an unlimited number of paths (events, pods).
_CACHE_SIZE: Final = 8192


class ResourcePath(NamedTuple):
    """A path to a resource. ``watch``: the deprecated ``/watch/`` prefix. ``rest``: what follows the subresource."""

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
    """Parse a percent-encoded path; None for paths outside the resource API, such as discovery and health.

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
