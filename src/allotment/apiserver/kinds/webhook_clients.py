"""Validation of how the server reaches a webhook: a URL or a Service, and the versions of reviews."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final
from urllib.parse import urlsplit

from allotment.apiserver.kinds.field_validation import service_name_problems
from allotment.apiserver.kinds.kind import Errors
from allotment.model.quoting import quote
from allotment.model.trees import Tree
from allotment.model.validation import names
from allotment.model.validation.errors import invalid, required

#: The versions of reviews that the server sends.
REVIEW_VERSIONS: Final = ("v1", "v1beta1")
_FORM: Final = "; desired format: https://host[/path]"


def client_problems(config: Tree, path: str) -> Errors:
    """Yield the errors of a ``clientConfig``, which has a URL or a Service."""
    url, service = config.get("url"), config.get("service")
    if (url is None) == (service is None):
        yield required(path, "exactly one of url or service is required")
    elif url is not None:
        yield from _url(url, f"{path}.url")
    else:
        yield from _service(service or {}, f"{path}.service")


def _url(text: str, path: str) -> Errors:
    try:
        url = urlsplit(text)
    except ValueError as error:
        yield required(path, f"url must be a valid URL: {error}{_FORM}")
        return
    user, at, host = url.netloc.rpartition("@")
    if (port := host.rpartition(":")[2]) != host and not port.isdigit() and not host.endswith("]"):
        problem = f"parse {quote(text)}: invalid port {quote(':' + port)} after host"
        yield required(path, f"url must be a valid URL: {problem}{_FORM}")
        return
    if url.scheme != "https":
        yield invalid(path, url.scheme, f"'https' is the only allowed URL scheme{_FORM}")
    if not host:
        yield invalid(path, host, f"host must be specified{_FORM}")
    if at:
        yield invalid(path, user, "user information is not permitted in the URL")
    if url.fragment:
        yield invalid(path, url.fragment, "fragments are not permitted in the URL")
    if url.query:
        yield invalid(path, url.query, "query parameters are not permitted in the URL")


def _service(service: Tree, path: str) -> Errors:
    # Upstream mistakes one for the other: without a namespace, the name is reported as missing.
    if not service.get("namespace"):
        yield required(f"{path}.name")
    if not service.get("name"):
        yield required(f"{path}.namespace")
    port = service.get("port") or 0
    if not 1 <= port <= 65535:
        yield invalid(f"{path}.port", port, "port is not valid: must be between 1 and 65535, inclusive")
    yield from _service_path(service.get("path") or "", f"{path}.path")


def _service_path(text: str, path: str) -> Errors:
    if text in ("", "/"):
        return
    if text == "//":
        yield invalid(path, text, "segment[0] may not be empty")
        return
    if not text.startswith("/"):
        yield invalid(path, text, "must start with a '/'")
    for index, step in enumerate(text[1:].removesuffix("/").split("/")):
        if not step:
            yield invalid(path, text, f"segment[{index}] may not be empty")
        else:
            problems = names.subdomain_problems(step)
            yield from (invalid(path, text, f"segment[{index}]: {problem}") for problem in problems)


def distinct_versions(versions: Sequence[str], path: str) -> Errors:
    """Yield the errors of the names of versions."""
    for index, version in enumerate(versions):
        if version in versions[:index]:
            yield invalid(f"{path}[{index}]", version, "duplicate version")
        else:
            yield from (invalid(f"{path}[{index}]", version, problem) for problem in service_name_problems(version))
