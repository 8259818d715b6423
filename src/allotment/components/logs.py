"""Logging of components to standard error, as text or JSON.

Text lines are ``TIME LEVEL LOGGER: message``. JSON lines are objects with ``ts``, ``level``, ``logger``, ``message``,
the Kubernetes object concerned (``kind``, ``namespace``, ``name``, ``uid``, if known) and ``error`` with the traceback.
Secrets in messages are redacted.
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

#: Attributes of a log argument that identify an object.
_OBJECT: Final = ("kind", "namespace", "name", "uid")
#: Loggers of libraries, which log each request.
_QUIET: Final = ("opentelemetry", "urllib3", "requests")
#: Bearer tokens, JSON web tokens, private keys, and the passwords in URLs (of proxies).
_SECRETS: Final = re.compile(
    r"(?i:(bearer\s+)[^\s'\",]+)|eyJ[\w-]{8,}\.[\w-]+\.[\w-]*"
    r"|-----BEGIN [A-Z ]*PRIVATE KEY-----[\s\S]*?-----END [A-Z ]*KEY-----"
    r"|(?<=://)[^/\s:@]+:[^/\s@]+(?=@)"
)


def set_up(form: Literal["text", "json"] = "text", *, verbose: bool = False, stream: TextIO | None = None) -> None:
    """Configure all loggers of this process."""
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
    """Log warnings and uncaught exceptions instead of printing them to standard error."""
    logging.captureWarnings(True)

    def uncaught(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        log.critical("uncaught exception", exc_info=(kind, error, trace))

    def in_thread(hook: threading.ExceptHookArgs) -> None:
        if hook.exc_type is not SystemExit and hook.exc_value is not None:
            log.error("uncaught exception in a thread", exc_info=(hook.exc_type, hook.exc_value, hook.exc_traceback))

    def ignored(hook: sys.UnraisableHookArgs) -> None:
        error = hook.exc_value
        log.error(
            "%s: %r", hook.err_msg or "ignored an exception in", hook.object,
            exc_info=None if error is None else (hook.exc_type, error, hook.exc_traceback),
        )  # fmt: skip

    sys.excepthook, threading.excepthook, sys.unraisablehook = uncaught, in_thread, ignored


def redact(text: str) -> str:
    """Redact the secrets in a text.

    >>> redact("401 for Bearer abc.def")
    '401 for Bearer ***'
    """
    return _SECRETS.sub(lambda found: f"{found[1] or ''}***", text)


def object_fields(arguments: Any) -> dict[str, str]:
    """The object that a message is about: the first argument with a name and a namespace.

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
    """Format records as text."""

    def format(self, record: logging.LogRecord) -> str:
        """A line, followed by the traceback if there is one."""
        line = f"{_time(record)} {record.levelname} {_name(record)}: {_message(record)}"
        if error := _error(self, record):
            line = f"{line}\n{error}"
        return redact(line)


class Json(logging.Formatter):
    """Format records as JSON."""

    def format(self, record: logging.LogRecord) -> str:
        """One JSON object on one line."""
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
        message = record.getMessage()
    except (TypeError, ValueError, LookupError):  # a message that does not match its arguments must not be lost
        message = f"{record.msg} {record.args}"
    return message.encode("utf-8", "backslashreplace").decode()  # file names may contain surrogates


def _error(formatter: logging.Formatter, record: logging.LogRecord) -> str:
    return formatter.formatException(record.exc_info) if record.exc_info else ""
