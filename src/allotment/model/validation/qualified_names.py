"""Names of attributes and capacities: ``identifier`` or ``domain/identifier``."""

from __future__ import annotations

from allotment.model.validation import names
from allotment.model.validation.errors import Errors, invalid, too_long
from allotment.model.validation.gotext import GoNamedString, size

DOMAIN_MAX = 63
IDENTIFIER_MAX = 32
#: The maximum length of a name; longer keys are shortened in paths.
NAME_MAX = DOMAIN_MAX + 1 + IDENTIFIER_MAX


def qualified_name(name: str, path: str) -> Errors:
    """Validate a name with or without domain. Names with several slashes are accepted (an upstream TODO)."""
    parts = name.split("/")
    if len(parts) == 1:
        yield from c_identifier(name, path)
    elif len(parts) == 2:
        domain, identifier = parts
        if not domain:
            yield invalid(path, "", "the domain must not be empty")
        else:
            yield from names.driver_name(domain, path)
        if not identifier:
            yield invalid(path, "", "the name must not be empty")
        else:
            yield from c_identifier(identifier, path)


def fully_qualified_name(name: str, path: str) -> Errors:
    """Validate a name that must have a domain, as in constraints."""
    yield from qualified_name(name, path)
    if "/" not in name:
        yield invalid(
            path, GoNamedString(name), "a fully qualified name must be a domain and a name separated by a slash"
        )


def c_identifier(text: str, path: str) -> Errors:
    """Validate the part of a name after its domain: a C identifier."""
    if size(text) > IDENTIFIER_MAX:
        yield too_long(path, IDENTIFIER_MAX)
    for problem in names.identifier_problems(text):
        yield invalid(path, text, problem)
