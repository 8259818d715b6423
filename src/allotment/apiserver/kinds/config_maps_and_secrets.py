"""Validation of ConfigMaps and Secrets.

In an immutable ConfigMap or Secret only the metadata can change (KEP-1412).
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping, Sequence
from typing import Final

from allotment.apiserver.kinds import field_validation
from allotment.apiserver.kinds.kind import Errors, KindRules, Write
from allotment.model.trees import Tree
from allotment.model.validation.errors import forbidden, immutable, invalid, required, too_long

_MAX_BYTES: Final = 1024 * 1024
_IMMUTABLE: Final = "field is immutable when `immutable` is set"
#: Keys required by the type of a secret.
_KEYS_BY_TYPE: Final[Mapping[str, Sequence[str]]] = {
    "kubernetes.io/dockercfg": (".dockercfg",), "kubernetes.io/dockerconfigjson": (".dockerconfigjson",),
    "kubernetes.io/ssh-auth": ("ssh-privatekey",), "kubernetes.io/tls": ("tls.crt", "tls.key"),
}  # fmt: skip
_ACCOUNT: Final = "kubernetes.io/service-account.name"


def _config_map(tree: Tree, write: Write) -> Errors:
    data, binary = tree.get("data") or {}, tree.get("binaryData") or {}
    for part, values, other_part, other_values in (
        ("data", data, "binaryData", binary),
        ("binaryData", binary, "data", data),
    ):
        for key in sorted(values):
            for problem in field_validation.config_key_problems(key):
                yield invalid(f"{part}[{key}]", key, problem)
            if key in other_values:
                yield invalid(f"{part}[{key}]", key, f"duplicate of key present in {other_part}")
    size = sum(len(value.encode(errors="replace")) for value in data.values())
    size += sum(len(value) * 3 // 4 for value in binary.values())
    if size > _MAX_BYTES:
        yield too_long("", _MAX_BYTES)


def _check_immutable(new: Tree, old: Tree, parts: Sequence[str]) -> Errors:
    if not old.get("immutable"):
        return
    if not new.get("immutable"):
        yield forbidden("immutable", _IMMUTABLE)
    for part in parts:
        if (new.get(part) or {}) != (old.get(part) or {}):
            yield forbidden(part, _IMMUTABLE)


def _config_map_update(new: Tree, old: Tree, write: Write) -> Errors:
    yield from _check_immutable(new, old, ("data", "binaryData"))
    yield from _config_map(new, write)


def _with_encoded_string_data(tree: Tree, write: Write) -> Tree:
    """``stringData`` is write-only; it is merged into ``data``."""
    strings = tree.get("stringData")
    if not strings:
        return tree
    encoded = {key: base64.b64encode(value.encode()).decode() for key, value in strings.items()}
    rest = {name: value for name, value in tree.items() if name != "stringData"}
    return {**rest, "data": {**(tree.get("data") or {}), **encoded}}


def _prepare_secret_update(new: Tree, old: Tree, write: Write) -> Tree:
    return _with_encoded_string_data(new, write)


def _secret(tree: Tree, write: Write) -> Errors:
    data: Mapping[str, str] = tree.get("data") or {}
    for key in sorted(data):
        for problem in field_validation.config_key_problems(key):
            yield invalid(f"data[{key}]", key, problem)
    if sum(len(value) * 3 // 4 for value in data.values()) > _MAX_BYTES:
        yield too_long("data", _MAX_BYTES)
    kind = tree.get("type") or ""
    if kind == "kubernetes.io/service-account-token":
        if not (tree["metadata"].get("annotations") or {}).get(_ACCOUNT):
            yield required(f"metadata.annotations[{_ACCOUNT}]")
    if kind == "kubernetes.io/basic-auth" and not {"username", "password"} & data.keys():
        yield required("data[username]")
        yield required("data[password]")
    for key in _KEYS_BY_TYPE.get(kind, ()):
        if key not in data:
            yield required(f"data[{key}]")
        elif key.startswith(".docker") and not _is_json(data[key]):
            yield invalid(f"data[{key}]", "<secret contents redacted>", "invalid character")


def _is_json(encoded: str) -> bool:
    try:
        text = base64.b64decode(encoded).decode()
    except (binascii.Error, UnicodeDecodeError):
        return False
    return text.lstrip().startswith("{") and text.rstrip().endswith("}")


def _secret_update(new: Tree, old: Tree, write: Write) -> Errors:
    if new.get("type") != old.get("type"):
        yield immutable("type", new.get("type") or "")
    yield from _check_immutable(new, old, ("data",))
    yield from _secret(new, write)


RULES: Final[Mapping[str, KindRules]] = {
    "configmaps": KindRules(validate_create=_config_map, validate_update=_config_map_update),
    "secrets": KindRules(
        prepare_create=_with_encoded_string_data, validate_create=_secret, prepare_update=_prepare_secret_update,
        validate_update=_secret_update,
    ),
}  # fmt: skip
