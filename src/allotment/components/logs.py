"""What a component writes to standard error: a line for each thing that happened, for people or for programs.

As text, ``TIME LEVEL LOGGER: message``; as JSON, an object a line with ``ts``, ``level``, ``logger``, ``message``, the
object that it is about (``kind``, ``namespace``, ``name``, ``uid``, as far as known) and ``error`` with what Python
says of a mistake of ours. Tokens are never written, whoever puts one into a message.
"""

from __future__ import annotations

import logging
import re
import sys
import threading
from datetime import UTC, datetime
from types import TracebackType
from typing import Any, Final, Literal, TextIO

import msgspec

log = logging.getLogger(__name__)

#: What of an argument says which object is meant.
_OBJECT: Final = ("kind", "namespace", "name", "uid")
#: Of libraries, which tell each request.
_QUIET: Final = ("opentelemetry", "urllib3", "requests")
#: Bearer tokens, JSON web tokens, private keys, and the passwords in URLs (of proxies).
_SECRETS: Final = re.compile(
    r"(?i:(bearer\s+)[^\s'\",]+)|eyJ[\w-]{8,}\.[\w-]+\.[\w-]*"
    r"|-----BEGIN [A-Z ]*PRIVATE KEY-----[\s\S]*?-----END [A-Z ]*KEY-----"
    r"|(?<=://)[^/\s:@]+:[^/\s@]+(?=@)"
)


def set_up(form: Literal["text", "json"] = "text", *, verbose: bool = False, stream: TextIO | None = None) -> None:
    """Have all loggers of this process write so."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(Json() if form == "json" else Text())
    root = logging.getLogger()
    for old in tuple(root.handlers):
        root.removeHandler(old)
    root.addHandler(handler)
    root.setLevel(logging.DEBUG if verbose else logging.INFO)
    for name in _QUIET:
        logging.getLogger(name).setLevel(logging.WARNING)
    logging.getLogger("asyncio").setLevel(logging.WARNING)


def capture_uncaught() -> None:
    """Have what else would be written to standard error go the same way: warnings, and mistakes that nobody caught."""
    logging.captureWarnings(True)

    def uncaught(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        log.critical("uncaught exception", exc_info=(kind, error, trace))

    def in_thread(told: threading.ExceptHookArgs) -> None:
        if told.exc_type is not SystemExit and told.exc_value is not None:
            log.error("uncaught exception in a thread", exc_info=(told.exc_type, told.exc_value, told.exc_traceback))

    def ignored(told: sys.UnraisableHookArgs) -> None:
        error = told.exc_value
        log.error(
            "%s: %r", told.err_msg or "an exception was ignored in", told.object,
            exc_info=None if error is None else (told.exc_type, error, told.exc_traceback),
        )  # fmt: skip

    sys.excepthook, threading.excepthook, sys.unraisablehook = uncaught, in_thread, ignored


def redact(text: str) -> str:
    """A text without the secrets that may be in it.

    >>> redact("401 for Bearer abc.def")
    '401 for Bearer ***'
    """
    return _SECRETS.sub(lambda found: f"{found[1] or ''}***", text)


def object_fields(arguments: Any) -> dict[str, str]:
    """The object that a message is about: the first of its arguments that has a name and a namespace.

    >>> from allotment.model.meta import ObjectKey
    >>> object_fields((ObjectKey("default", "web"),))
    {'namespace': 'default', 'name': 'web'}
    """
    for argument in arguments if isinstance(arguments, tuple) else ():
        if hasattr(argument, "namespace") and hasattr(argument, "name"):
            found = {field: getattr(argument, field, "") for field in _OBJECT}
            return {field: value for field, value in found.items() if isinstance(value, str) and value}
    return {}


class Text(logging.Formatter):
    """For people."""

    def format(self, record: logging.LogRecord) -> str:
        """A line, and under it what Python says of a mistake."""
        line = f"{_time(record)} {record.levelname} {_name(record)}: {_message(record)}"
        if error := _error(self, record):
            line = f"{line}\n{error}"
        return redact(line)


class Json(logging.Formatter):
    """For programs."""

    def format(self, record: logging.LogRecord) -> str:
        """One object, one line."""
        fields = {
            "ts": _time(record),
            "level": record.levelname.lower(),
            "logger": _name(record),
            "message": redact(_message(record)),
            **object_fields(record.args),
        }
        if error := _error(self, record):
            fields["error"] = redact(error)
        return msgspec.json.encode(fields).decode()


def _time(record: logging.LogRecord) -> str:
    moment = datetime.fromtimestamp(record.created, UTC)
    return f"{moment.strftime('%Y-%m-%dT%H:%M:%S')}.{int(record.msecs):03d}Z"


def _name(record: logging.LogRecord) -> str:
    return record.name.removeprefix("allotment.")


def _message(record: logging.LogRecord) -> str:
    try:
        told = record.getMessage()
    except (TypeError, ValueError, LookupError):  # a message and arguments that do not go together must not be lost
        told = f"{record.msg} {record.args}"
    return told.encode("utf-8", "backslashreplace").decode()  # names of files may hold what is no text


def _error(formatter: logging.Formatter, record: logging.LogRecord) -> str:
    return formatter.formatException(record.exc_info) if record.exc_info else ""
