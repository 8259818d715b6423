from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from random import Random

from tests.power_cut.disk import Disk
from tests.power_cut.recording import Operation

ROOT = "/d"


def op(
    kind: str, path: str = "", target: str = "", identity: int = 0, position: int = 0, data: bytes = b""
) -> Operation:
    return Operation(kind, path, target, identity, position, data)


CREATED = (op("O", ROOT, identity=9), op("C", "/d/a", identity=1))
WRITTEN = (*CREATED, op("W", identity=1, data=b"x" * 512), op("W", identity=1, position=512, data=b"y" * 512))
FOLDER_SYNCED = (op("B", identity=9, position=5), op("S", identity=9, position=5))
FILE_SYNCED = (op("B", identity=1, position=5), op("S", identity=1, position=5))


def contents(operations: Sequence[Operation]) -> set[tuple[tuple[str, bytes | None], ...]]:
    """The possible contents of the folder after these operations."""
    disk = Disk(Path(ROOT))
    for operation in operations:
        disk.apply(operation)
    states = disk.states(Random(1), 300)
    return {tuple((path, content) for path, content in state.items() if path != ROOT) for state in states}


def test_what_was_not_synced_may_be_lost_or_kept_in_part() -> None:
    x, y = b"x" * 512, b"y" * 512
    assert contents([*WRITTEN, *FOLDER_SYNCED]) == {
        (("/d/a", b""),), (("/d/a", x),), (("/d/a", bytes(512) + y),), (("/d/a", x + y),),
    }  # fmt: skip


def test_a_synced_file_is_complete_if_its_name_is_on_the_disk() -> None:
    assert contents([*WRITTEN, *FILE_SYNCED]) == {(), (("/d/a", b"x" * 512 + b"y" * 512),)}
    assert contents([*WRITTEN, *FILE_SYNCED, *FOLDER_SYNCED]) == {(("/d/a", b"x" * 512 + b"y" * 512),)}


def test_a_sync_covers_only_writes_before_its_start() -> None:
    late = [*CREATED, *FOLDER_SYNCED, op("B", identity=1, position=5), op("W", identity=1, data=b"z"), FILE_SYNCED[1]]
    assert contents(late) == {(("/d/a", b""),), (("/d/a", b"z"),)}


def test_a_renamed_file_replaces_the_other_at_once() -> None:
    first = [*WRITTEN[:3], *FILE_SYNCED, *FOLDER_SYNCED]
    second = [op("C", "/d/b", identity=2), op("W", identity=2, data=b"z"), op("R", "/d/b", "/d/a")]
    old, unwritten, new = (("/d/a", b"x" * 512),), (("/d/a", b""),), (("/d/a", b"z"),)
    assert contents([*first, *second]) == {
        old, unwritten, new, (*old, ("/d/b", b"")), (*old, ("/d/b", b"z")),
    }  # fmt: skip


def test_a_truncation_may_be_lost() -> None:
    shortened = [*WRITTEN, *FILE_SYNCED, *FOLDER_SYNCED, op("T", identity=1, position=512)]
    assert contents(shortened) == {(("/d/a", b"x" * 512 + b"y" * 512),), (("/d/a", b"x" * 512),)}


def test_a_file_is_gone_with_its_folder() -> None:
    made = [op("O", ROOT, identity=9), op("M", "/d/f"), op("O", "/d/f", identity=8), op("C", "/d/f/a", identity=1)]
    synced = [*made, op("B", identity=8, position=5), op("S", identity=8, position=5)]
    assert contents(synced) == {(), (("/d/f", None), ("/d/f/a", b""))}
