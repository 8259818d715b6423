"""The kubelet's checkpoint of prepared claims, ``dra_manager_state``, in the kubelet's format.

A node's agent and a real kubelet can therefore replace each other on one machine: the second one unprepares what the
first had prepared. One JSON object: the data as text, and its CRC-32 (Kubernetes 1.34 and later).
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from allotment.files import atomic_write
from allotment.files.atomic_write import Sync
from allotment.kubelet_plugin.messages import PreparedDevice

FILE: Final = "dra_manager_state"
_KIND: Final = "DRACheckpoint"
_VERSION: Final = "checkpoint.dra.kubelet.k8s.io/v1"


class CorruptCheckpoint(ValueError):
    """Raised for a checkpoint with a wrong checksum or that cannot be parsed; a kubelet does not start then."""


class ClaimRecord(NamedTuple):
    """A claim that drivers prepared or are about to prepare.

    ``drivers``: the prepared devices by driver. ``skipped``: the drivers' operations that are skipped, if any.
    """

    namespace: str
    name: str
    uid: str
    pods: frozenset[str]
    drivers: Mapping[str, tuple[PreparedDevice, ...]]
    skipped: Mapping[str, tuple[str, ...]] = MappingProxyType({})


def encode(records: Iterable[ClaimRecord]) -> bytes:
    """The content of a checkpoint file."""
    data = json.dumps(
        {"kind": _KIND, "apiVersion": _VERSION, "ClaimInfoStateList": [_tree(record) for record in records]},
        separators=(",", ":"), ensure_ascii=False,
    )  # fmt: skip
    return json.dumps({"Data": data, "Checksum": zlib.crc32(data.encode())}, separators=(",", ":")).encode()


def decode(content: bytes) -> tuple[ClaimRecord, ...]:
    """Parse the content of a checkpoint file. Raises CorruptCheckpoint."""
    try:
        outer = json.loads(content)
        data, checksum = outer["Data"], outer["Checksum"]
        if zlib.crc32(data.encode()) != checksum:
            raise CorruptCheckpoint("checkpoint is corrupted: its checksum does not match")
        return tuple(_record(tree) for tree in json.loads(data).get("ClaimInfoStateList") or ())
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        if isinstance(error, CorruptCheckpoint):
            raise
        raise CorruptCheckpoint(f"checkpoint is corrupted: {error}") from error


def load(folder: Path) -> tuple[ClaimRecord, ...]:
    """Read the checkpoint in a folder; empty if there is none. Raises CorruptCheckpoint, OSError."""
    try:
        content = (folder / FILE).read_bytes()
    except FileNotFoundError:
        return ()
    return decode(content)


def save(folder: Path, records: Iterable[ClaimRecord]) -> None:
    """Replace the checkpoint durably. Raises OSError.

    Returns once the content is on disk; no driver may be called before.
    """
    folder.mkdir(parents=True, exist_ok=True)
    atomic_write.replace(folder / FILE, encode(records), sync=Sync.CONTENT, single_writer=True)


def _tree(record: ClaimRecord) -> dict[str, Any]:
    return {
        "ClaimUID": record.uid,
        "ClaimName": record.name,
        "Namespace": record.namespace,
        "PodUIDs": {uid: {} for uid in sorted(record.pods)},
        "DriverState": {
            driver: {
                "Devices": [_device_tree(device) for device in devices] or None,
                **({"skipNodeOperations": list(skipped)} if (skipped := record.skipped.get(driver)) else {}),
            }
            for driver, devices in record.drivers.items()
        },
    }


def _device_tree(device: PreparedDevice) -> dict[str, Any]:
    return {
        "PoolName": device.pool,
        "DeviceName": device.device,
        "ShareID": device.share_id or None,
        "RequestNames": list(device.requests) or None,
        "CDIDeviceIDs": list(device.cdi_ids) or None,
    }


def _record(tree: Mapping[str, Any]) -> ClaimRecord:
    states = {driver: state or {} for driver, state in (tree.get("DriverState") or {}).items()}
    return ClaimRecord(
        tree["Namespace"], tree["ClaimName"], tree["ClaimUID"], frozenset(tree.get("PodUIDs") or ()),
        {driver: tuple(map(_device, state.get("Devices") or ())) for driver, state in states.items()},
        {driver: tuple(skipped) for driver, state in states.items() if (skipped := state.get("skipNodeOperations"))},
    )  # fmt: skip


def _device(tree: Mapping[str, Any]) -> PreparedDevice:
    return PreparedDevice(
        tuple(tree.get("RequestNames") or ()), tree["PoolName"], tree["DeviceName"],
        tuple(tree.get("CDIDeviceIDs") or ()), tree.get("ShareID") or "",
    )  # fmt: skip
