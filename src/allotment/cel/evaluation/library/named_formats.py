"""Named formats (``format.dns1123Label().validate("x")``) with Kubernetes' messages."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import ClassVar, Final

from allotment.cel.evaluation.library.url import request_uri_error
from allotment.cel.evaluation.values import NONE, ListValue, Optional, Value

_LABEL: Final = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN: Final = rf"{_LABEL}(\.{_LABEL})*"
_LABEL_1035: Final = "[a-z]([-a-z0-9]*[a-z0-9])?"
_QUALIFIED: Final = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_LABEL_VALUE: Final = f"({_QUALIFIED})?"
_QUALIFIED_RULE: Final = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character "
    f"(e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '{_QUALIFIED}')"
)

_UUID: Final = re.compile("[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}", re.IGNORECASE | re.ASCII)
_BASE64: Final = re.compile("(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{4})", re.ASCII)
_DATE: Final = re.compile(r"(\d{4})-(\d\d)-(\d\d)", re.ASCII)
_CLOCK: Final = re.compile(r"(\d\d):(\d\d):(\d\d)(?:.\d+)?(?:z|[+-]\d\d:\d\d)", re.ASCII)


def _bytes(text: str) -> int:
    return len(text.encode("utf-8", "surrogateescape"))


def _pattern_rule(pattern: str, max_length: int, message: str) -> Callable[[str], list[str]]:
    compiled = re.compile(pattern, re.ASCII)

    def check(text: str) -> list[str]:
        problems = [f"must be no more than {max_length} characters"] if _bytes(text) > max_length else []
        if not compiled.fullmatch(text):
            problems.append(f"{message}, regex used for validation is '{pattern}')")
        return problems

    return check


_subdomain = _pattern_rule(
    _SUBDOMAIN, 253,
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'example.com'",
)  # fmt: skip
_label_only = _pattern_rule(
    _LABEL, 63,
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with "
    "an alphanumeric character (e.g. 'my-name',  or '123-abc'",
)  # fmt: skip
_label_1035 = _pattern_rule(
    _LABEL_1035, 63,
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, "
    "and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123'",
)  # fmt: skip


def _label(text: str) -> list[str]:
    problems = _label_only(text)
    if problems and re.fullmatch(_SUBDOMAIN, text, re.ASCII) and not re.fullmatch(_LABEL, text, re.ASCII):
        problems[-1] = "must not contain dots"
    return problems


def _prefix(check: Callable[[str], list[str]]) -> Callable[[str], list[str]]:
    """Prefixes can end in a dash. Upstream replaces the last *two* bytes by one letter before the check."""

    def check_prefix(text: str) -> list[str]:
        if len(text) > 1 and text.endswith("-"):
            raw = text.encode("utf-8", "surrogateescape")
            text = raw[:-2].decode("utf-8", "surrogateescape") + "a"
        return check(text)

    return check_prefix


def _qualified_name(text: str) -> list[str]:
    parts = text.split("/")
    problems: list[str] = []
    if len(parts) > 2:
        example = "with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
        return [f"a valid label key {_QUALIFIED_RULE} {example}"]
    if len(parts) == 2:
        if not parts[0]:
            problems.append("prefix part must be non-empty")
        else:
            problems += [f"prefix part {problem}" for problem in _content_subdomain(parts[0])]
    name = parts[-1]
    if not name:
        problems.append("name part must be non-empty")
    elif _bytes(name) > 63:
        problems.append("name part must be no more than 63 bytes")
    if not re.fullmatch(_QUALIFIED, name, re.ASCII):
        problems.append(f"name part {_QUALIFIED_RULE}")
    return problems


def _content_subdomain(text: str) -> list[str]:
    # The newer rules for qualified names report the limit in bytes.
    return [problem.replace("253 characters", "253 bytes") for problem in _subdomain(text)]


def _label_value(text: str) -> list[str]:
    problems = ["must be no more than 63 bytes"] if _bytes(text) > 63 else []
    if not re.fullmatch(_LABEL_VALUE, text, re.ASCII):
        problems.append(
            "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must "
            "start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for "
            f"validation is '{_LABEL_VALUE}')"
        )
    return problems


def _uri(text: str) -> list[str]:
    problem = request_uri_error(text)
    return [] if problem is None else [problem]


def _is_date(text: str) -> bool:
    found = _DATE.fullmatch(text)
    if found is None:
        return False
    year, month, day = map(int, found.groups())
    if not 1 <= month <= 12 or day < 1:
        return False
    leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    return day <= (31, 29 if leap else 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)[month - 1]


def _is_datetime(text: str) -> bool:
    parts = text.lower().split("t")
    if _bytes(text) < 4 or len(parts) < 2 or not _is_date(parts[0]):
        return False
    clock = _CLOCK.fullmatch(parts[1])
    return clock is not None and clock.group(1) <= "23" and clock.group(2) <= "59" and clock.group(3) <= "59"


def _predicate(test: Callable[[str], bool], message: str) -> Callable[[str], list[str]]:
    return lambda text: [] if test(text) else [message]


class NamedFormat:
    """A named format: ``check`` returns the errors of a text, ``regex_size`` is the pattern length for its cost."""

    __slots__ = ("check", "name", "regex_size")
    cel_type: ClassVar = "kubernetes.NamedFormat"
    go_type: ClassVar = "cel.Format"
    #: Upstream's struct contains a function, so it cannot be a map key.
    go_unhashable: ClassVar = True

    def __init__(self, name: str, check: Callable[[str], list[str]], regex_size: int) -> None:
        self.name = name
        self.check = check
        self.regex_size = regex_size

    def __eq__(self, other: object) -> bool:
        return isinstance(other, NamedFormat) and self.name == other.name

    def __hash__(self) -> int:
        return hash(self.name)


FORMATS: Final[dict[str, NamedFormat]] = {
    "dns1123Label": NamedFormat("DNS1123Label", _label, 30),
    "dns1123Subdomain": NamedFormat("DNS1123Subdomain", _subdomain, 60),
    "dns1035Label": NamedFormat("DNS1035Label", _label_1035, 30),
    "qualifiedName": NamedFormat("QualifiedName", _qualified_name, 60),
    "dns1123LabelPrefix": NamedFormat("DNS1123LabelPrefix", _prefix(_label), 30),
    "dns1123SubdomainPrefix": NamedFormat("DNS1123SubdomainPrefix", _prefix(_subdomain), 60),
    "dns1035LabelPrefix": NamedFormat("DNS1035LabelPrefix", _prefix(_label_1035), 30),
    "labelValue": NamedFormat("LabelValue", _label_value, 40),
    "uri": NamedFormat("URI", _uri, 1103),
    "uuid": NamedFormat("uuid", _predicate(lambda t: bool(_UUID.fullmatch(t)), "does not match the UUID format"), 70),
    "byte": NamedFormat("byte", _predicate(lambda t: bool(_BASE64.fullmatch(t)), "invalid base64"), 84),
    "date": NamedFormat("date", _predicate(_is_date, "invalid date"), 71),
    "datetime": NamedFormat("datetime", _predicate(_is_datetime, "invalid datetime"), 71),
}


def validate(named: NamedFormat, text: str) -> Optional:
    """The errors of a text as an optional list; none if it is valid."""
    problems = named.check(text)
    return Optional(ListValue(list(problems))) if problems else NONE


def _named(name: str) -> Optional:
    found = FORMATS.get(name)
    return NONE if found is None else Optional(found)


def _constant(named: NamedFormat) -> Callable[[], Value]:
    return lambda: named


OVERLOADS: Final[dict[str, Callable[..., Value]]] = {
    "format-named": _named,
    "format-validate": validate,
    **{f"format.{name}": _constant(named) for name, named in FORMATS.items()},
}
