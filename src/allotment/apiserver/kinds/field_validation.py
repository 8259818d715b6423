"""Field validation shared by many kinds: numbers, ports, enums, quantities, label selectors, names."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from allotment.model.trees import Tree
from allotment.model.validation import names
from allotment.model.validation.errors import Errors, forbidden, invalid, not_supported, required
from allotment.model.validation.gotext import GoStruct

_matches_port_name: Final = re.compile("[-a-z0-9]+").fullmatch
_find_letter: Final = re.compile("[a-z]").search
_matches_config_key: Final = re.compile("[-._a-zA-Z0-9]+").fullmatch
_matches_env_name: Final = re.compile("[ -<>-~]+").fullmatch
_matches_service_name: Final = re.compile("[a-z]([-a-z0-9]*[a-z0-9])?").fullmatch
_HTTP_PATH_PATTERN: Final = r"[A-Za-z0-9/\-._~%!$&'()*+,;=:]+"
_matches_http_path: Final = re.compile(_HTTP_PATH_PATTERN).fullmatch
_matches_percent: Final = re.compile("[0-9]+%").fullmatch


def choice(value: Any, path: str, choices: Sequence[str]) -> Errors:
    """A required value of a closed set."""
    if value not in choices:
        yield not_supported(path, value, choices) if value else required(path)


def non_negative(value: Any, path: str) -> Errors:
    """A number >= 0, or unset."""
    if value is not None and value < 0:
        yield invalid(path, value, "must be greater than or equal to 0")


def port(value: Any, path: str) -> Errors:
    if not 1 <= value <= 65535:
        yield invalid(path, value, "must be between 1 and 65535, inclusive")


def port_name_problems(text: str) -> list[str]:
    """The errors of a port name (RFC 6335)."""
    problems = ["must be no more than 15 characters"] if len(text) > 15 else []
    if not _matches_port_name(text):
        problems.append("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)")
    if not _find_letter(text):
        problems.append("must contain at least one letter (a-z)")
    if "--" in text:
        problems.append("must not contain consecutive hyphens")
    if text and (text[0] == "-" or text[-1] == "-"):
        problems.append("must not begin or end with a hyphen")
    return problems


def port_or_name(value: Any, path: str) -> Errors:
    """A port, by number or name."""
    if isinstance(value, int):
        yield from port(value, path)
    else:
        for problem in port_name_problems(str(value)):
            yield invalid(path, value, problem)


def env_name_problems(text: str) -> list[str]:
    """The errors of an environment variable name: printable ASCII without an equals sign (KEP-4369)."""
    if _matches_env_name(text):
        return []
    problem = (
        "a valid environment variable name must consist only of printable ASCII characters other than '=' (e.g. "
        "'my.env-name',  or 'MY_ENV.NAME',  or 'MyEnvName1', regex used for validation is '[ -<>-~]+')"
    )
    return [problem]


def config_key_problems(text: str) -> list[str]:
    """The errors of a key of a ConfigMap or Secret."""
    problems = ["must be no more than 253 characters"] if len(text) > 253 else []
    if not _matches_config_key(text):
        problems.append(
            "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or "
            "'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')"
        )
    if text == ".":
        problems.append("must not be '.'")
    if text == "..":
        problems.append("must not be '..'")
    elif text.startswith(".."):
        problems.append("must not start with '..'")
    return problems


def service_name_problems(text: str) -> list[str]:
    """The errors of a Service name: a DNS label that starts with a letter (RFC 1035)."""
    problems = ["must be no more than 63 characters"] if len(text) > 63 else []
    if not _matches_service_name(text):
        problems.append(
            "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic "
            "character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for "
            "validation is '[a-z]([-a-z0-9]*[a-z0-9])?')"
        )
    return problems


path_segment_problems: Final = names.path_segment_problems


def path_segment(text: str, path: str, missing: str = "") -> Errors:
    """A required name that must only be usable as a path segment."""
    if not text:
        yield required(path, missing)
    yield from names.path_segment(text, path)


def domain_prefixed_path(text: str, path: str) -> Errors:
    """A name such as ``acme.io/foo``."""
    if not text:
        yield required(path)
        return
    host, _, rest = text.partition("/")
    if not host or not rest:
        yield invalid(path, text, 'must be a domain-prefixed path (such as "acme.io/foo")')
        return
    yield from (invalid(path, host, problem) for problem in names.subdomain_problems(host))
    if not _matches_http_path(rest):
        yield invalid(path, rest, f"Invalid path (regex used for validation is '{_HTTP_PATH_PATTERN}')")


# --- label selectors -------------------------------------------------------------------------------------------------


def labels(values: Mapping[str, str], path: str) -> Errors:
    """Labels or ``matchLabels``."""
    for key in sorted(values):
        yield from names.label_key(key, path)
        yield from names.label_value(values[key], path)


def selector_value(selector: Tree | None) -> GoStruct | None:
    """A LabelSelector as printed in messages."""
    if selector is None:
        return None
    expressions = [_requirement_value(item) for item in selector.get("matchExpressions") or ()]
    parts = {"matchLabels": selector.get("matchLabels"), "matchExpressions": expressions}
    return GoStruct({name: value for name, value in parts.items() if value})


def _requirement_value(requirement: Tree) -> GoStruct:
    return GoStruct(
        key=requirement.get("key") or "", operator=requirement.get("operator") or "",
        **({"values": requirement["values"]} if requirement.get("values") else {}),
    )  # fmt: skip


def is_valid_selector(selector: Tree | None) -> bool:
    """Whether a selector is valid, which upstream checks in addition to reporting its errors."""
    return not any(label_selector(selector, ""))


def label_selector(selector: Tree | None, path: str) -> Errors:
    """A LabelSelector: operators, their values, label keys and values."""
    if not selector:
        return
    yield from labels(selector.get("matchLabels") or {}, f"{path}.matchLabels")
    for index, requirement in enumerate(selector.get("matchExpressions") or ()):
        item_path = f"{path}.matchExpressions[{index}]"
        operator, values = requirement.get("operator") or "", requirement.get("values") or ()
        if operator in ("In", "NotIn"):
            if not values:
                yield required(f"{item_path}.values", "must be specified when `operator` is 'In' or 'NotIn'")
        elif operator in ("Exists", "DoesNotExist"):
            if values:
                detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
                yield forbidden(f"{item_path}.values", detail)
        else:
            yield invalid(f"{item_path}.operator", operator, "not a valid selector operator")
        yield from names.label_key(requirement.get("key") or "", f"{item_path}.key")
        for position, value in enumerate(values):
            yield from names.label_value(value, f"{item_path}.values[{position}]")


def selector_matches(selector: Tree | None, values: Mapping[str, str]) -> bool:
    """Whether a valid selector matches labels; an absent one matches nothing, an empty one everything."""
    if selector is None:
        return False
    if any(values.get(key) != value for key, value in (selector.get("matchLabels") or {}).items()):
        return False
    return all(_requirement_matches(requirement, values) for requirement in selector.get("matchExpressions") or ())


def _requirement_matches(requirement: Tree, values: Mapping[str, str]) -> bool:
    key, operator = requirement.get("key") or "", requirement.get("operator")
    if operator == "In":
        return key in values and values[key] in (requirement.get("values") or ())
    if operator == "NotIn":
        return key not in values or values[key] not in (requirement.get("values") or ())
    return (key in values) == (operator == "Exists")


def int_or_percent(value: Any, path: str) -> Errors:
    """A number >= 0, or a percentage."""
    if not isinstance(value, str):
        yield from non_negative(value, path)
    elif not is_percent(value):
        yield invalid(
            path, value,
            "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', "
            "regex used for validation is '[0-9]+%')",
        )  # fmt: skip


def at_most_100_percent(value: Any, path: str) -> Errors:
    """A percentage of at most 100%; numbers pass."""
    if isinstance(value, str) and is_percent(value) and int(value[:-1]) > 100:
        yield invalid(path, value, "must not be greater than 100%")


def is_zero(value: Any) -> bool:
    """Whether a number or percentage is zero; a string that is neither counts as zero."""
    if isinstance(value, str):
        text = value.removesuffix("%")
        return not text.isdecimal() or int(text) == 0
    return not value


def is_percent(text: str) -> bool:
    """Whether a string is a percentage such as ``25%``."""
    return _matches_percent(text) is not None
