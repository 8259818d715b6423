"""A server certificate from files, reloaded when they change."""

from __future__ import annotations

import logging
import ssl
from pathlib import Path

log = logging.getLogger(__name__)

_Stamp = tuple[int, int]


class CertificateError(Exception):
    """Raised if the files do not contain a certificate and its key. The text contains paths and reason."""


class Certificate:
    """A PEM certificate and its key. Raises CertificateError; if a reload fails, the previous one stays in use."""

    def __init__(self, certificate: Path, key: Path) -> None:
        self._files = certificate, key
        self._read = self._stamps()
        self._context = self._loaded()

    def context(self) -> ssl.SSLContext:
        """The TLS context for the next connection."""
        try:
            stamps = self._stamps()
            if stamps != self._read:
                self._context = self._loaded()
                self._read = stamps
                log.info("%s: reloaded", self._files[0])
        except CertificateError as error:  # perhaps only one of the files has been replaced yet
            log.warning("%s; the previous certificate stays in use", error)
        return self._context

    def _stamps(self) -> tuple[_Stamp, ...]:
        return tuple(self._stamp(file) for file in self._files)

    def _stamp(self, file: Path) -> _Stamp:
        try:
            found = file.stat()
        except OSError as error:
            raise CertificateError(f"{file}: {error.strerror}") from None
        return found.st_ino, found.st_mtime_ns

    def _loaded(self) -> ssl.SSLContext:
        certificate, key = self._files
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        try:
            context.load_cert_chain(certificate, key)
        except (ssl.SSLError, OSError) as error:
            why = error.strerror or str(error)
            raise CertificateError(f"{certificate} and {key}are not a certificate and its private key: {why}") from None
        return context
