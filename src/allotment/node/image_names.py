"""Names of container images, and images that a simulated node cannot pull.

Nothing is pulled in a lab. So that failing pulls can be tried, registries whose host name has the label ``invalid``
(``registry.invalid``, ``invalid.registry.k8s.io``) do not exist, as RFC 2606 reserves that name for this purpose.
"""

from __future__ import annotations

import re
from typing import Final

from allotment.model.quoting import quote
from allotment.model.trees import Tree
from allotment.node.runtimes.runtime import NotStarted

NEVER: Final = "ErrImageNeverPull"
PULL_FAILED: Final = "ErrImagePull"
INVALID_NAME: Final = "InvalidImageName"
_PART: Final = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
_HOST_PART: Final = r"(?:[a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9-]*[a-zA-Z0-9])"
_HOST: Final = rf"(?:{_HOST_PART}(?:\.{_HOST_PART})*|\[[a-fA-F0-9:]+\])(?::[0-9]+)?"
_TAG: Final = r"[\w][\w.-]{0,127}"
_DIGEST: Final = r"[A-Za-z][A-Za-z0-9]*(?:[-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9a-fA-F]{32,}"
_REFERENCE: Final = re.compile(
    rf"(?:(?P<host>{_HOST})/)?(?P<path>{_PART}(?:/{_PART})*)(?::(?P<tag>{_TAG}))?(?:@(?P<digest>{_DIGEST}))?", re.ASCII
)
_DEFAULT_HOST: Final = "docker.io"


def check_image(spec: Tree, *, pulls: bool) -> None:
    """Raise NotStarted if the image of a container cannot be used. ``pulls``: whether the node pulls images."""
    image: str = spec.get("image") or ""
    if problem := name_problem(image):
        text = f"couldn't parse image name {quote(image)}: {problem}"
        raise NotStarted(INVALID_NAME, f"Failed to apply default image tag {quote(image)}: {text}")
    if pulls and "invalid" in _host(image).lower().split(":")[0].split("."):
        if spec.get("imagePullPolicy") == "Never":
            raise NotStarted(NEVER, f'Container image "{image}" is not present with pull policy of Never')
        raise NotStarted(PULL_FAILED, _unknown_host(image))


def name_problem(image: str) -> str:
    """The reason why a name is not that of an image; empty if it is one.

    >>> name_problem("busybox"), name_problem("INVALID IMAGE"), name_problem("Nginx")
    ('', 'invalid reference format', 'invalid reference format: repository name (library/Nginx) must be lowercase')
    """
    host, path = _host(image), _path(image)
    name = path.partition("@")[0]
    name = name.rpartition(":")[0] or name
    if name.lower() != name and _REFERENCE.fullmatch(f"{host}/{path.replace(name, name.lower(), 1)}"):
        return f"invalid reference format: repository name ({name}) must be lowercase"
    return "" if _REFERENCE.fullmatch(f"{host}/{path}") else "invalid reference format"


def _host(image: str) -> str:
    first, slash, _ = image.partition("/")
    is_host = slash and ("." in first or ":" in first or first == "localhost" or first.lower() != first)
    return first if is_host else _DEFAULT_HOST


def _path(image: str) -> str:
    host = _host(image)
    path = image.removeprefix(f"{host}/")
    return f"library/{path}" if host == _DEFAULT_HOST and "/" not in path else path


def _unknown_host(image: str) -> str:
    """The error of containerd for a registry whose name cannot be resolved."""
    host, path = _host(image), _path(image)
    found = _REFERENCE.fullmatch(f"{host}/{path}")
    assert found is not None
    version = found["digest"] or found["tag"] or "latest"
    name = f"{host}/{found['path']}{'@' if found['digest'] else ':'}{version}"
    url = f"https://{host}/v2/{found['path']}/manifests/{version}"
    lookup = f"dial tcp: lookup {host.partition(':')[0]}: no such host"
    return (
        f'rpc error: code = Unknown desc = failed to pull and unpack image "{name}": failed to resolve reference '
        f'"{name}": failed to do request: Head "{url}": {lookup}'
    )
