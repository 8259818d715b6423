"""What is wrong with a field, as data: which rule, where, the value found, and the detail.

The rendered text is Kubernetes' own (apimachinery ``field.Error``); :func:`invalid_status` makes the ``Status``
object an API server answers with (422). Validators are generators of :class:`FieldError`: all problems are collected,
in Kubernetes' order.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from enum import Enum
from typing import Any, Final, NamedTuple, TypeAlias

from allotment.model.quoting import quote
from allotment.model.validation.gotext import float_text, json_text


class ErrorType(Enum):
    """The kinds of field error: the machine-readable reason of a cause, and the words in its message."""

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
        """How the message starts."""
        return self.value[1]


#: Kinds whose message shows the value found.
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


#: The value of a problem whose message shows none, although messages of its type usually do.
OMITTED: Final = object()


class FieldError(NamedTuple):
    """One problem of one field. ``str`` gives Kubernetes' line for it.

    >>> print(invalid("spec.devices.requests[0].exactly.count", -1, "must be greater than zero"))
    spec.devices.requests[0].exactly.count: Invalid value: -1: must be greater than zero
    """

    type: ErrorType
    path: str
    value: object
    detail: str

    @property
    def body(self) -> str:
        """The text without the path: the ``message`` of a cause."""
        text = self.type.text
        if self.type in _SHOWS_VALUE and self.value is not OMITTED:
            text += f": {_shown(self.value)}"
        return f"{text}: {self.detail}" if self.detail else text

    @property
    def cause(self) -> dict[str, str]:
        """The entry of ``status.details.causes``."""
        return {"reason": self.type.reason, "message": self.body, "field": self.path}

    def __str__(self) -> str:
        return f"{self.path}: {self.body}"


Errors: TypeAlias = Iterator[FieldError]


def _shown(value: object) -> str:
    if type(value) is float:
        return float_text(value)
    return quote(value) if type(value) is str else json_text(value)


def required(path: str, detail: str = "") -> FieldError:
    """A value is missing."""
    return FieldError(ErrorType.REQUIRED, path, None, detail)


def invalid(path: str, value: object, detail: str) -> FieldError:
    """A value breaks a rule. Wrap strings of a Go type of their own in :class:`~.gotext.Named`."""
    return FieldError(ErrorType.INVALID, path, value, detail)


def immutable(path: str, value: object) -> FieldError:
    """A value changed that may not."""
    return FieldError(ErrorType.INVALID, path, value, "field is immutable")


def not_supported(path: str, value: object, choices: Iterable[str]) -> FieldError:
    """A value is none of the possible ones."""
    return FieldError(ErrorType.NOT_SUPPORTED, path, value, "supported values: " + ", ".join(map(quote, choices)))


def not_found(path: str, value: object, detail: str = "") -> FieldError:
    """A value refers to nothing."""
    return FieldError(ErrorType.NOT_FOUND, path, value, detail)


def duplicate(path: str, value: object) -> FieldError:
    """A key occurs twice."""
    return FieldError(ErrorType.DUPLICATE, path, value, "")


def forbidden(path: str, detail: str) -> FieldError:
    """A value is well formed but not allowed here."""
    return FieldError(ErrorType.FORBIDDEN, path, None, detail)


def too_long(path: str, limit: int) -> FieldError:
    """A text exceeds its limit in bytes; the text itself is not shown."""
    return FieldError(ErrorType.TOO_LONG, path, None, f"may not be more than {limit} bytes")


def too_many(path: str, count: int, limit: int) -> FieldError:
    """A list or map exceeds its limit; its items are not looked at."""
    return FieldError(ErrorType.TOO_MANY, path, count, f"must have at most {limit} items")


def internal(path: str, detail: str) -> FieldError:
    """The check itself failed."""
    return FieldError(ErrorType.INTERNAL, path, None, detail)


def summary(errors: Sequence[FieldError]) -> str:
    """All errors in one text: a single one bare, several in brackets, each distinct one once."""
    texts = list(dict.fromkeys(map(str, errors)))
    return texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"


def invalid_status(group: str, kind: str, name: str, errors: Sequence[FieldError]) -> dict[str, Any]:
    """The ``Status`` (422) for an object that does not pass; ``group`` is empty for the core group."""
    qualified = f"{kind}.{group}" if group else kind
    details: dict[str, Any] = {"name": name, "group": group, "kind": kind, "causes": [error.cause for error in errors]}
    return failure_status(
        422,
        "Invalid",
        f"{qualified} {quote(name)} is invalid: {summary(errors)}",
        {key: value for key, value in details.items() if value},
    )


def failure_status(code: int, reason: str, message: str, details: dict[str, Any] | None = None) -> dict[str, Any]:
    """A ``Status`` of failure."""
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
