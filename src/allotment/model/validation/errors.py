"""Field errors as data: error type, path, value and detail.

The text is that of Kubernetes (apimachinery ``field.Error``); :func:`invalid_status` builds the ``Status`` of the API
server's response (422). Validators are generators of :class:`FieldError`, so that all errors are collected in
Kubernetes' order.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from enum import Enum
from typing import Any, Final, NamedTuple, TypeAlias

from allotment.model.quoting import quote
from allotment.model.validation.gotext import float_text, json_text


class ErrorType(Enum):
    """The types of field errors: the machine-readable reason of a cause, and the start of its message."""

    REQUIRED = ("FieldValueRequired", "Required value")
    INVALID = ("FieldValueInvalid", "Invalid value")
    TYPE_INVALID = ("FieldValueTypeInvalid", "Invalid value")
    NOT_SUPPORTED = ("FieldValueNotSupported", "Unsupported value")
    NOT_FOUND = ("FieldValueNotFound", "Not found")
    DUPLICATE = ("FieldValueDuplicate", "Duplicate value")
    FORBIDDEN = ("FieldValueForbidden", "Forbidden")
    TOO_LONG = ("FieldValueTooLong", "Too long")
    TOO_MANY = ("FieldValueTooMany", "Too many")
    INTERNAL = ("InternalError", "Internal error")

    @property
    def reason(self) -> str:
        """``reason`` of a cause."""
        return self.value[0]

    @property
    def text(self) -> str:
        """The start of the message."""
        return self.value[1]


#: Error types whose message contains the value.
_SHOWS_VALUE = frozenset(
    {
        ErrorType.INVALID,
        ErrorType.TYPE_INVALID,
        ErrorType.NOT_SUPPORTED,
        ErrorType.NOT_FOUND,
        ErrorType.DUPLICATE,
        ErrorType.TOO_MANY,
    }
)


#: A value that is omitted from the message, although messages of its error type usually contain one.
OMITTED: Final = object()


class FieldError(NamedTuple):
    """One error of one field. ``str`` returns Kubernetes' text.

    ``is_declared``: a declared rule may report the field for the same reason, which then replaces this error.

    >>> print(invalid("spec.devices.requests[0].exactly.count", -1, "must be greater than zero"))
    spec.devices.requests[0].exactly.count: Invalid value: -1: must be greater than zero
    """

    type: ErrorType
    path: str
    value: object
    detail: str
    is_declared: bool = True

    @property
    def body(self) -> str:
        """The text without the path, as in the ``message`` of a cause."""
        text = self.type.text
        if self.type in _SHOWS_VALUE and self.value is not OMITTED:
            text += f": {_value_text(self.value)}"
        return f"{text}: {self.detail}" if self.detail else text

    @property
    def cause(self) -> dict[str, str]:
        """The entry of ``status.details.causes``."""
        return {"reason": self.type.reason, "message": self.body, "field": self.path}

    def __str__(self) -> str:
        return f"{self.path}: {self.body}"


Errors: TypeAlias = Iterator[FieldError]


def _value_text(value: object) -> str:
    if type(value) is float:
        return float_text(value)
    return quote(value) if type(value) is str else json_text(value)


def required(path: str, detail: str = "") -> FieldError:
    """The error for a missing value."""
    return FieldError(ErrorType.REQUIRED, path, None, detail)


def invalid(path: str, value: object, detail: str) -> FieldError:
    """The error for an invalid value. Strings of a named Go type must be a :class:`~.gotext.GoNamedString`."""
    return FieldError(ErrorType.INVALID, path, value, detail)


def immutable(path: str, value: object) -> FieldError:
    """The error for a change of an immutable value."""
    return FieldError(ErrorType.INVALID, path, value, "field is immutable")


def not_supported(path: str, value: object, choices: Iterable[str]) -> FieldError:
    """The error for a value that is not among ``choices``."""
    return FieldError(ErrorType.NOT_SUPPORTED, path, value, "supported values: " + ", ".join(map(quote, choices)))


def not_found(path: str, value: object, detail: str = "") -> FieldError:
    """The error for a reference to something that does not exist."""
    return FieldError(ErrorType.NOT_FOUND, path, value, detail)


def duplicate(path: str, value: object) -> FieldError:
    """The error for a duplicate key."""
    return FieldError(ErrorType.DUPLICATE, path, value, "")


def forbidden(path: str, detail: str) -> FieldError:
    """The error for a well-formed value that is not allowed."""
    return FieldError(ErrorType.FORBIDDEN, path, None, detail)


def too_long(path: str, limit: int) -> FieldError:
    """The error for a text that exceeds its limit in bytes; the message does not contain the text."""
    return FieldError(ErrorType.TOO_LONG, path, None, f"may not be more than {limit} bytes")


def too_many(path: str, count: int, limit: int) -> FieldError:
    """The error for a list or map that exceeds its limit; its items are not validated."""
    return FieldError(ErrorType.TOO_MANY, path, count, f"must have at most {limit} {'item' if limit == 1 else 'items'}")


def internal(path: str, detail: str) -> FieldError:
    """The error for a failure of the validation itself."""
    return FieldError(ErrorType.INTERNAL, path, None, detail)


def summary(errors: Sequence[FieldError]) -> str:
    """All distinct errors as one text: a single one without brackets, several in brackets."""
    texts = list(dict.fromkeys(map(str, errors)))
    return texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"


def invalid_status(group: str, kind: str, name: str, errors: Sequence[FieldError]) -> dict[str, Any]:
    """The ``Status`` (422) for an invalid object; ``group`` is empty for the core group."""
    qualified = f"{kind}.{group}" if group else kind
    details: dict[str, Any] = {"name": name, "group": group, "kind": kind, "causes": [error.cause for error in errors]}
    return failure_status(
        422,
        "Invalid",
        f"{qualified} {quote(name)} is invalid: {summary(errors)}",
        {key: value for key, value in details.items() if value},
    )


def failure_status(code: int, reason: str, message: str, details: dict[str, Any] | None = None) -> dict[str, Any]:
    """A ``Status`` with status Failure."""
    status: dict[str, Any] = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": message,
        "reason": reason,
    }
    if details is not None:
        status["details"] = details
    return status | {"code": code}
