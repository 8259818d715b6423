"""Small checks that many kinds share: numbers, ports, choices, quantities, label selectors, references to names."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

from allotment.model.quantity import Quantity
from allotment.model.trees import Tree
from allotment.model.validation import names
from allotment.model.validation.errors import Errors, forbidden, invalid, not_supported, required
from allotment.model.validation.gotext import GoStruct

_PORT_NAME: Final = re.compile("[-a-z0-9]+").fullmatch
_LETTER: Final = re.compile("[a-z]").search
_CONFIG_KEY: Final = re.compile("[-._a-zA-Z0-9]+").fullmatch
_ENV_NAME: Final = re.compile("[ -<>-~]+").fullmatch
_SERVICE_NAME: Final = re.compile("[a-z]([-a-z0-9]*[a-z0-9])?").fullmatch
_HTTP_PATH_TEXT: Final = r"[A-Za-z0-9/\-._~%!$&'()*+,;=:]+"
_HTTP_PATH: Final = re.compile(_HTTP_PATH_TEXT).fullmatch
_PERCENT: Final = re.compile("[0-9]+%").fullmatch
STANDARD: Final = frozenset(
    {"cpu", "memory", "ephemeral-storage", "storage", "pods", "services", "replicationcontrollers", "resourcequotas",
     "secrets", "configmaps", "persistentvolumeclaims", "requests.cpu", "requests.memory", "requests.storage",
     "requests.ephemeral-storage", "limits.cpu", "limits.memory", "limits.ephemeral-storage", "services.nodeports",
     "services.loadbalancers"}
)  # fmt: skip
_FOR_CONTAINERS: Final = frozenset({"cpu", "memory", "ephemeral-storage"})
#: Counted, so no fractions.
_WHOLE: Final = frozenset(
    {"pods", "services", "replicationcontrollers", "resourcequotas", "secrets", "configmaps",
     "persistentvolumeclaims", "services.nodeports", "services.loadbalancers"}
)  # fmt: skip
_NANO: Final = 10**9


def choice(value: Any, path: str, choices: Sequence[str]) -> Errors:
    """A value from a closed set, which must be there."""
    if value not in choices:
        yield not_supported(path, value, choices) if value else required(path)


def non_negative(value: Any, path: str) -> Errors:
    """A number that may be zero; unset is fine."""
    if value is not None and value < 0:
        yield invalid(path, value, "must be greater than or equal to 0")


def port(value: Any, path: str) -> Errors:
    """A port number."""
    if not 1 <= value <= 65535:
        yield invalid(path, value, "must be between 1 and 65535, inclusive")


def port_name_problems(text: str) -> list[str]:
    """What keeps a text from naming a port (RFC 6335)."""
    problems = ["must be no more than 15 characters"] if len(text) > 15 else []
    if not _PORT_NAME(text):
        problems.append("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)")
    if not _LETTER(text):
        problems.append("must contain at least one letter (a-z)")
    if "--" in text:
        problems.append("must not contain consecutive hyphens")
    if text and (text[0] == "-" or text[-1] == "-"):
        problems.append("must not begin or end with a hyphen")
    return problems


def port_or_name(value: Any, path: str) -> Errors:
    """A port by number or name."""
    if isinstance(value, int):
        yield from port(value, path)
    else:
        for problem in port_name_problems(str(value)):
            yield invalid(path, value, problem)


def env_name_problems(text: str) -> list[str]:
    """What keeps a text from naming an environment variable: printable ASCII without an equals sign (KEP-4369)."""
    if _ENV_NAME(text):
        return []
    problem = (
        "a valid environment variable name must consist only of printable ASCII characters other than '=' (e.g. "
        "'my.env-name',  or 'MY_ENV.NAME',  or 'MyEnvName1', regex used for validation is '[ -<>-~]+')"
    )
    return [problem]


def config_key_problems(text: str) -> list[str]:
    """What keeps a text from being a key of a ConfigMap or Secret."""
    problems = ["must be no more than 253 characters"] if len(text) > 253 else []
    if not _CONFIG_KEY(text):
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
    """What keeps a text from naming a Service: a DNS label that starts with a letter (RFC 1035)."""
    problems = ["must be no more than 63 characters"] if len(text) > 63 else []
    if not _SERVICE_NAME(text):
        problems.append(
            "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic "
            "character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for "
            "validation is '[a-z]([-a-z0-9]*[a-z0-9])?')"
        )
    return problems


def path_segment_problems(text: str) -> list[str]:
    """What keeps a text from standing in a path as one segment: very little."""
    if text in (".", ".."):
        return [f"may not be '{text}'"]
    return [f"may not contain '{illegal}'" for illegal in "/%" if illegal in text]


def path_segment(text: str, path: str, missing: str = "") -> Errors:
    """A name that must be there and must only be able to stand in a path."""
    if not text:
        yield required(path, missing)
    yield from (invalid(path, text, problem) for problem in path_segment_problems(text))


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
    if not _HTTP_PATH(rest):
        yield invalid(path, rest, f"Invalid path (regex used for validation is '{_HTTP_PATH_TEXT}')")


# --- quantities ------------------------------------------------------------------------------------------------------


def extended(name: str) -> bool:
    """Whether a resource is counted in whole pieces and never shared: a device, say."""
    return names.is_extended_resource(name)


def overcommittable(name: str) -> bool:
    """Whether a limit may exceed the request: Kubernetes' own resources apart from huge pages."""
    return names.is_native_resource(name) and not name.startswith("hugepages-")


def amount(name: str, text: Any, path: str) -> Errors:
    """The amount of a resource: not negative, whole for what is counted."""
    value = Quantity.parse(str(text))
    if value.nano < 0:
        yield invalid(path, str(value), "must be greater than or equal to 0")
    if value.nano % _NANO and (name in _WHOLE or extended(name)):
        yield invalid(path, value, "must be an integer")


@lru_cache(maxsize=4096)
def container_resource_problems(name: str) -> tuple[str, ...]:
    """What keeps a text from naming a resource of a container."""
    problems = names.label_key_problems(name)
    if problems:
        return tuple(problems)
    if "/" not in name:
        found = []
        if name not in STANDARD and not name.startswith("hugepages-"):
            found.append("must be a standard resource type or fully qualified")
        if name not in _FOR_CONTAINERS and not name.startswith("hugepages-"):
            found.append("must be a standard resource for containers")
        return tuple(found)
    if not names.is_native_resource(name) and not names.is_extended_resource(name):
        return ("doesn't follow extended resource name standard",)
    return ()


# --- label selectors -------------------------------------------------------------------------------------------------


def labels(given: Mapping[str, str], path: str) -> Errors:
    """Labels, or what selects by them."""
    for key in sorted(given):
        yield from names.label_key(key, path)
        yield from names.label_value(given[key], path)


def shown(selector: Tree | None) -> GoStruct | None:
    """A LabelSelector as messages show it."""
    if selector is None:
        return None
    wanted = [_ordered(item) for item in selector.get("matchExpressions") or ()]
    parts = {"matchLabels": selector.get("matchLabels"), "matchExpressions": wanted}
    return GoStruct({name: value for name, value in parts.items() if value})


def _ordered(requirement: Tree) -> GoStruct:
    return GoStruct(
        key=requirement.get("key") or "", operator=requirement.get("operator") or "",
        **({"values": requirement["values"]} if requirement.get("values") else {}),
    )  # fmt: skip


def readable(selector: Tree | None) -> bool:
    """Whether a selector can be used at all, which upstream asks beside what is wrong with it."""
    return not any(label_selector(selector, ""))


def label_selector(selector: Tree | None, path: str) -> Errors:
    """A LabelSelector: operators, their values, label keys and values."""
    if not selector:
        return
    yield from labels(selector.get("matchLabels") or {}, f"{path}.matchLabels")
    for index, requirement in enumerate(selector.get("matchExpressions") or ()):
        at = f"{path}.matchExpressions[{index}]"
        operator, values = requirement.get("operator") or "", requirement.get("values") or ()
        if operator in ("In", "NotIn"):
            if not values:
                yield required(f"{at}.values", "must be specified when `operator` is 'In' or 'NotIn'")
        elif operator in ("Exists", "DoesNotExist"):
            if values:
                detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
                yield forbidden(f"{at}.values", detail)
        else:
            yield invalid(f"{at}.operator", operator, "not a valid selector operator")
        yield from names.label_key(requirement.get("key") or "", f"{at}.key")
        for position, value in enumerate(values):
            yield from names.label_value(value, f"{at}.values[{position}]")


def matches(selector: Tree | None, found: Mapping[str, str]) -> bool:
    """Whether a valid selector matches labels; an absent one matches nothing, an empty one everything."""
    if selector is None:
        return False
    if any(found.get(key) != value for key, value in (selector.get("matchLabels") or {}).items()):
        return False
    return all(_meets(requirement, found) for requirement in selector.get("matchExpressions") or ())


def _meets(requirement: Tree, found: Mapping[str, str]) -> bool:
    key, operator = requirement.get("key") or "", requirement.get("operator")
    if operator == "In":
        return key in found and found[key] in (requirement.get("values") or ())
    if operator == "NotIn":
        return key not in found or found[key] not in (requirement.get("values") or ())
    return (key in found) == (operator == "Exists")


def count_or_percent(value: Any, path: str) -> Errors:
    """A number that is not negative, or a percentage."""
    if not isinstance(value, str):
        yield from non_negative(value, path)
    elif not is_percent(value):
        yield invalid(
            path, value,
            "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', "
            "regex used for validation is '[0-9]+%')",
        )  # fmt: skip


def at_most_all(value: Any, path: str) -> Errors:
    """Not more than 100%, if it is a percentage."""
    if isinstance(value, str) and is_percent(value) and int(value[:-1]) > 100:
        yield invalid(path, value, "must not be greater than 100%")


def counts_nothing(value: Any) -> bool:
    """Whether a number or percentage is zero; what can be read as neither counts as zero, too."""
    if isinstance(value, str):
        text = value.removesuffix("%")
        return not text.isdecimal() or int(text) == 0
    return not value


def is_percent(text: str) -> bool:
    """Whether a text is a percentage such as ``25%``."""
    return _PERCENT(text) is not None
