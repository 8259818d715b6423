"""Validation of projected volumes: files from several objects in one folder, with paths that do not collide."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, TypeAlias

from allotment.apiserver.kinds.certificates import bundle_name_problems
from allotment.apiserver.kinds.containers import descending_path
from allotment.model.trees import Tree
from allotment.model.validation.errors import Errors, forbidden, invalid, not_supported, required
from allotment.model.validation.gotext import GoStruct

_KEY_TYPES: Final = ("RSA3072", "RSA4096", "ECDSAP256", "ECDSAP384", "ECDSAP521", "ED25519")
_HOUR: Final = 3600
_DAY: Final = 24 * _HOUR
#: The longest validity that a pod may request from its own signers and from those of Kubernetes.
_LONGEST: Final = 91 * _DAY
_LONGEST_OF_KUBERNETES: Final = _DAY
_CERTIFICATE_PATHS: Final = ("credentialBundlePath", "keyPath", "certificateChainPath")
_MIN_TOKEN_SECONDS: Final = 600
_MAX_TOKEN_SECONDS: Final = 1 << 32

#: Validates the fields ``items`` and ``defaultMode`` of a source; the arguments are the source and its path.
Files: TypeAlias = Callable[[Tree, str], Errors]


def projected_volume(source: Tree, path: str, files: Files) -> Errors:
    """The errors of a projected volume; ``files`` validates the files of ConfigMaps and Secrets."""
    taken: set[str] = set()
    for index, part in enumerate(source.get("sources") or ()):
        item_path = f"{path}.sources[{index}]"
        present = [name for name in (*_WITH_ITEMS, *_OTHERS) if part.get(name) is not None]
        for name in present:
            projection, inner_path = part[name], f"{item_path}.{name}"
            if name in _WITH_ITEMS:
                if not projection.get("name"):
                    yield required(f"{inner_path}.name")
                yield from files(projection, inner_path)
            else:
                yield from _OTHERS[name](projection, inner_path)
            for written in _paths(name, projection):
                if written in taken:
                    shown = (projection.get("name") or "") if name in _WITH_ITEMS else written
                    yield invalid(path, shown, "conflicting duplicate paths")
                taken.add(written)
        if len(present) > 1:
            yield forbidden(item_path, "may not specify more than 1 volume type per source")


def _paths(name: str, projection: Tree) -> Iterator[str]:
    """The paths of the files of a source that must not collide; those of tokens may."""
    if name == "podCertificate":
        written = [projection.get(field) for field in _CERTIFICATE_PATHS]
    elif name == "clusterTrustBundle":
        written = [projection.get("path")]
    else:
        written = [item.get("path") for item in projection.get("items") or ()]
    yield from filter(None, written)


def _token(token: Tree, path: str) -> Errors:
    seconds = token.get("expirationSeconds") or 0
    if seconds < _MIN_TOKEN_SECONDS:
        yield invalid(f"{path}.expirationSeconds", seconds, "may not specify a duration less than 10 minutes")
    if seconds > _MAX_TOKEN_SECONDS:
        yield invalid(f"{path}.expirationSeconds", seconds, "may not specify a duration larger than 2^32 seconds")
    # Kubernetes reports the path of the volume, without the source.
    place = f"{path.rpartition('.sources[')[0]}.path"
    if not token.get("path"):
        yield required(place)
    else:
        yield from _free_path(token["path"], place)


def _trust_bundle(bundle: Tree, path: str) -> Errors:
    name, signer = bundle.get("name"), bundle.get("signerName")
    if name is not None and signer is not None:
        yield invalid(path, _in_go(bundle), "only one of name and signerName may be used")
    elif name is not None:
        if not name:
            yield required(f"{path}.name", "must be a valid object name")
        for problem in bundle_name_problems(name):
            yield invalid(f"{path}.name", name, f"not a valid clustertrustbundlename: {problem}")
        if (selector := bundle.get("labelSelector")) is not None:
            yield invalid(f"{path}.labelSelector", selector, "labelSelector must be unset if name is specified")
    elif signer is not None:
        if not signer:
            yield required(f"{path}.signerName", "must be a valid signer name")
        yield from _signer(signer, f"{path}.signerName")
    else:
        yield required(path, "either name or signerName must be specified")
    if not bundle.get("path"):
        yield required(f"{path}.path")
    yield from _free_path(bundle.get("path") or "", f"{path}.path")


def _in_go(bundle: Tree) -> GoStruct:
    """A projection as messages show it: with the names of the fields in Go."""
    names = ("name", "signerName", "labelSelector", "optional", "path", "user")
    return GoStruct({f"{name[0].upper()}{name[1:]}": bundle.get(name) for name in names})


def _pod_certificate(certificate: Tree, path: str) -> Errors:
    signer = certificate.get("signerName") or ""
    yield from _signer(signer, f"{path}.signerName")
    if (key_type := certificate.get("keyType") or "") not in _KEY_TYPES:
        yield not_supported(f"{path}.keyType", key_type, _KEY_TYPES)
    seconds = certificate.get("maxExpirationSeconds")
    if seconds is not None:
        place, longest = f"{path}.maxExpirationSeconds", _LONGEST
        if seconds < _HOUR:
            yield invalid(place, seconds, f"if provided, maxExpirationSeconds must be >= {_HOUR}")
        if signer.startswith("kubernetes.io/"):
            longest = _LONGEST_OF_KUBERNETES
        if seconds > longest:
            yield invalid(place, seconds, f"if provided, maxExpirationSeconds must be <= {longest}")
    written = [field for field in _CERTIFICATE_PATHS if certificate.get(field)]
    for field in written:
        yield from _free_path(certificate[field], f"{path}.{field}")
    if not written:
        yield required(path, "specify at least one of credentialBundlePath, keyPath, and certificateChainPath")


def _signer(name: str, path: str) -> Errors:
    if not name:
        yield required(path)
    elif name.count("/") != 1:
        yield invalid(path, name, "must be a fully qualified domain and path of the form 'example.com/signer-name'")


def _free_path(text: str, path: str) -> Errors:
    """A relative path whose first part is not one of the kubelet's own."""
    yield from descending_path(text, path)
    if text.startswith("..") and not text.startswith("../"):
        yield invalid(path, text, "must not start with '..'")


_WITH_ITEMS: Final = ("secret", "configMap")
_OTHERS: Final[dict[str, Files]] = {
    "downwardAPI": lambda source, path: iter(()),
    "serviceAccountToken": _token,
    "clusterTrustBundle": _trust_bundle,
    "podCertificate": _pod_certificate,
}
