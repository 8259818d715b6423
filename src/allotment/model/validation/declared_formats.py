"""The named formats of declarative validation (``+k8s:format``), with their own texts.

Most of them exist a second time in the code of the API server, with other texts: "prefix" for "domain", "bytes" for
"characters", segments of a pool name with their number.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from allotment.model.quoting import quote
from allotment.model.validation import names
from allotment.model.validation.errors import Errors, invalid, too_long
from allotment.model.validation.gotext import size
from allotment.model.validation.qualified_names import DOMAIN_MAX, c_identifier

_is_lower_uuid = re.compile("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}").fullmatch


def _of_problems(problems: Callable[[str], Iterable[str]]) -> Callable[[str, str], Errors]:
    def check(text: str, path: str) -> Errors:
        return (invalid(path, text, problem) for problem in problems(text))

    return check


def _uuid(text: str, path: str) -> Errors:
    if not _is_lower_uuid(text):
        yield invalid(path, text, "must be a lowercase UUID in 8-4-4-4-12 format")


def _pool_name(text: str, path: str) -> Errors:
    if size(text) > names.POOL_MAX:
        yield too_long(path, names.POOL_MAX)
    for index, part in enumerate(text.split("/")):
        if not part:
            yield invalid(path, text, f"segment {index}: must not be empty")
        for problem in names.subdomain_problems(part, unit="bytes") if part else ():
            yield invalid(path, part, f"segment {index}: {problem}")


def _extended_resource_name(text: str, path: str) -> Errors:
    if "/" not in text:
        yield invalid(path, text, "a name must be a domain-prefixed path, such as 'example.com/my-prop'")
    elif "kubernetes.io/" in text:
        yield invalid(path, text, f"must not have {quote('kubernetes.io/')} domain")
    if text.startswith("requests."):
        yield invalid(path, text, f"must not have {quote('requests.')} prefix")
    for problem in names.label_key_problems(f"requests.{text}"):
        yield invalid(path, text, problem)


def _fully_qualified_name(text: str, path: str) -> Errors:
    parts = text.split("/")
    if len(parts) == 1:
        yield from c_identifier(text, path)
        yield invalid(path, text, "a fully qualified name must be a domain and a name separated by a slash")
    elif len(parts) == 2:
        yield from _prefix(parts[0], path)
        if not parts[1]:
            yield invalid(path, "", "name must not be empty")
        else:
            yield from c_identifier(parts[1], path)


def _prefix(text: str, path: str) -> Errors:
    if not text:
        yield invalid(path, "", "prefix must not be empty")
        return
    if size(text) > DOMAIN_MAX:
        yield too_long(path, DOMAIN_MAX)
    for problem in names.subdomain_problems(text, unit="bytes"):
        yield invalid(path, text, f"prefix: {problem}")


#: By the name of the rule.
FORMATS: Final[Mapping[str, Callable[[str, str], Errors]]] = {
    "ShortName": _of_problems(lambda text: names.label_problems(text, unit="bytes")),
    "LongName": _of_problems(lambda text: names.subdomain_problems(text, unit="bytes")),
    "LongNameCaseless": _of_problems(names.caseless_subdomain_problems),
    "PathSegmentName": names.path_segment,
    "LabelKey": _of_problems(names.label_key_problems),
    "UUID": _uuid,
    "ResourcePoolName": _pool_name,
    "ExtendedResourceName": _extended_resource_name,
    "ResourceFullyQualifiedName": _fully_qualified_name,
}
