"""Names: DNS labels and subdomains, label keys and values, identifiers, driver, pool and node names, UIDs.

Each check has two functions: ``*_problems`` returns the messages for a string, and a generator of field errors adds a
path. Kubernetes has two copies of some rules with different units in length messages ("characters" in the older,
"bytes" in the newer); callers select the unit.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache

from allotment.model.quoting import quote
from allotment.model.validation.errors import Errors, invalid, required, too_long
from allotment.model.validation.gotext import size

LABEL_MAX = 63
SUBDOMAIN_MAX = 253
DRIVER_MAX = 63
POOL_MAX = 253

_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = rf"{_LABEL}(\.{_LABEL})*"
_KEY = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_IDENTIFIER = "[A-Za-z_][A-Za-z0-9_]*"

_is_label = re.compile(_LABEL).fullmatch
_is_subdomain = re.compile(_SUBDOMAIN).fullmatch
_is_subdomain_caseless = re.compile(_SUBDOMAIN, re.IGNORECASE | re.ASCII).fullmatch
_is_key = re.compile(_KEY).fullmatch
_is_identifier = re.compile(_IDENTIFIER).fullmatch
_is_uuid = re.compile("[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}").fullmatch

Problems = list[str]


def _regex_error(rule: str, pattern: str, *examples: str) -> str:
    examples_text = " or ".join(f"'{example}', " for example in examples)
    return f"{rule} (e.g. {examples_text}regex used for validation is '{pattern}')"


_LABEL_TEXT = _regex_error(
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with "
    "an alphanumeric character",
    _LABEL,
    "my-name",
    "123-abc",
)
_SUBDOMAIN_TEXT = _regex_error(
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and "
    "end with an alphanumeric character",
    _SUBDOMAIN,
    "example.com",
)
_SUBDOMAIN_CASELESS_TEXT = _regex_error(
    "an RFC 1123 subdomain must consist of alphanumeric characters, '-' or '.', and must start and end with an "
    "alphanumeric character",
    _SUBDOMAIN,
    "Example.com",
)
_KEY_TEXT = _regex_error(
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character",
    _KEY,
    "MyName",
    "my.name",
    "123-abc",
)
_VALUE_TEXT = _regex_error(
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and "
    "end with an alphanumeric character",
    f"({_KEY})?",
    "MyValue",
    "my_value",
    "12345",
)
_IDENTIFIER_TEXT = _regex_error(
    "a valid C identifier must start with alphabetic character or '_', followed by a string of alphanumeric characters "
    "or '_'",
    _IDENTIFIER,
    "my_name",
    "MY_NAME",
    "MyName",
)


def label_problems(text: str, *, unit: str = "characters") -> Problems:
    """The errors of a DNS label (RFC 1123)."""
    problems = [f"must be no more than {LABEL_MAX} {unit}"] if size(text) > LABEL_MAX else []
    if not _is_label(text):
        problems.append("must not contain dots" if _is_subdomain(text) else _LABEL_TEXT)
    return problems


def subdomain_problems(text: str, *, unit: str = "characters") -> Problems:
    """The errors of a DNS subdomain."""
    problems = [f"must be no more than {SUBDOMAIN_MAX} {unit}"] if size(text) > SUBDOMAIN_MAX else []
    if not _is_subdomain(text):
        problems.append(_SUBDOMAIN_TEXT)
    return problems


def caseless_subdomain_problems(text: str) -> Problems:
    """The errors of a DNS subdomain that can contain upper case."""
    problems = [f"must be no more than {SUBDOMAIN_MAX} bytes"] if size(text) > SUBDOMAIN_MAX else []
    if not _is_subdomain_caseless(text):
        problems.append(_SUBDOMAIN_CASELESS_TEXT)
    return problems


def prefix_problems(text: str) -> Problems:
    """The errors of a prefix of generated names: a subdomain that can end in a dash."""
    return subdomain_problems(as_prefix(text))


def as_prefix(text: str) -> str:
    """Replace the dash at the end of a name prefix, so that it can be validated as a name."""
    return text[:-2] + "a" if len(text) > 1 and text.endswith("-") else text


@lru_cache(maxsize=4096)  # most objects have the same few keys
def label_key_problems(text: str) -> Sequence[str]:
    """The errors of a label key (a qualified name in Kubernetes): ``[prefix/]name``."""
    problems: Problems = []
    prefix, slash, name = text.rpartition("/")
    if "/" in prefix:
        return [
            f"a valid label key {_KEY_TEXT} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
        ]
    if slash and not prefix:
        problems.append("prefix part must be non-empty")
    elif slash:
        problems.extend(f"prefix part {problem}" for problem in subdomain_problems(prefix, unit="bytes"))
    if not name:
        problems.append("name part must be non-empty")
    elif size(name) > LABEL_MAX:
        problems.append(f"name part must be no more than {LABEL_MAX} bytes")
    if not _is_key(name):
        problems.append(f"name part {_KEY_TEXT}")
    return problems


@lru_cache(maxsize=4096)
def label_value_problems(text: str) -> Sequence[str]:
    """The errors of a label value."""
    problems = [f"must be no more than {LABEL_MAX} bytes"] if size(text) > LABEL_MAX else []
    if text and not _is_key(text):
        problems.append(_VALUE_TEXT)
    return problems


def identifier_problems(text: str) -> Problems:
    """The errors of a C identifier."""
    return [] if _is_identifier(text) else [_IDENTIFIER_TEXT]


def path_segment_problems(text: str) -> Problems:
    """The errors of a name that must only be usable as a path segment."""
    if text in (".", ".."):
        return [f"may not be '{text}'"]
    return [f"may not contain '{illegal}'" for illegal in "/%" if illegal in text]


def is_extended_resource(text: str) -> bool:
    """Whether a text is a valid extended resource name: outside kubernetes.io, and valid as a quota key."""
    return (
        not is_native_resource(text) and not text.startswith("requests.") and not label_key_problems(f"requests.{text}")
    )


def is_native_resource(text: str) -> bool:
    """Whether a resource name is native: without a domain, or in kubernetes.io."""
    return "/" not in text or "kubernetes.io/" in text


def is_allocatable_resource(text: str) -> bool:
    """Whether devices can take a resource from the allocatable resources of their node: cpu, memory, huge pages."""
    return text in ("cpu", "memory") or text.startswith("hugepages-")


def _field_check(problems: Callable[[str], Iterable[str]]) -> Callable[[str, str], Errors]:
    def check(text: str, path: str) -> Errors:
        return (invalid(path, text, problem) for problem in problems(text))

    return check


label = _field_check(label_problems)
subdomain = _field_check(subdomain_problems)
label_key = _field_check(label_key_problems)
label_value = _field_check(label_value_problems)
path_segment = _field_check(path_segment_problems)


def driver_name(text: str, path: str) -> Errors:
    """Validate a driver name: a DNS subdomain of at most 63 bytes; upper case only causes a warning."""
    if not text:
        yield required(path)
        return
    if size(text) > DRIVER_MAX:
        yield too_long(path, DRIVER_MAX)
    for problem in subdomain_problems(text.lower()):
        yield invalid(path, text, problem)


def pool_name(text: str, path: str) -> Errors:
    """Validate a pool name: DNS subdomains joined by slashes."""
    if not text:
        yield required(path)
        return
    if size(text) > POOL_MAX:
        yield too_long(path, POOL_MAX)
    for part in text.split("/"):
        yield from subdomain(part, path)


def class_name(text: str, path: str) -> Errors:
    """Validate a reference to a DeviceClass; the API server does not check whether it exists."""
    if not text:
        yield required(path)
    else:
        yield from subdomain(text, path)


def share_id(text: str, path: str) -> Errors:
    """Validate a share ID: a lower-case UUID."""
    if problem := _uuid_problem(text):
        yield invalid(path, text, f"error validating uid: {problem}")
    elif len(text) != 36 or text != text.lower():
        yield invalid(
            path,
            text,
            "uid must be in RFC 4122 normalized form, `xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx` with lowercase "
            "hexadecimal characters",
        )


def _uuid_problem(text: str) -> str:
    """The error of a UUID in any of the four notations of the upstream parser; empty if it is valid."""
    length = size(text)
    if length == 32:
        return "" if re.fullmatch("[0-9a-fA-F]{32}", text) else "invalid UUID format"
    if length == 36 + 9:
        if text[:9].lower() != "urn:uuid:":
            return f"invalid urn prefix: {quote(text[:9])}"
        text = text[9:]
    elif length == 36 + 2:
        if text[0] != "{" or text[-1] != "}":
            return "invalid bracketed UUID format"
        text = text[1:-1]
    elif length != 36:
        return f"invalid UUID length: {length}"
    return "" if _is_uuid(text) else "invalid UUID format"
