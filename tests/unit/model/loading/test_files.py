"""Files, folders and standard input."""

from __future__ import annotations

import gzip
import io
import os
from pathlib import Path

import pytest

from allotment.model.loading import load_paths


def test_folders_are_read_recursively_in_order_without_hidden_files(tmp_path: Path) -> None:
    for name in ("b.yaml", "a.yml", "c.json", "d.txt", ".e.yaml", "sub/z.yaml", ".git/y.yaml"):
        file = tmp_path / name
        file.parent.mkdir(exist_ok=True)
        file.write_text('{"kind": "A"}')
    loaded = load_paths([tmp_path])
    assert [Path(document.file).relative_to(tmp_path).as_posix() for document in loaded.documents] == [
        "a.yml",
        "b.yaml",
        "c.json",
        "sub/z.yaml",
    ]
    assert loaded.problems == []


def test_files_and_standard_input_keep_the_given_order(tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    file.write_bytes(b"\xef\xbb\xbfkind: A\n")
    loaded = load_paths([file, "-"], io.BytesIO(b"kind: B\nx: [\n"))
    assert [document.kind for document in loaded.documents] == ["A"]
    assert [str(problem.position) for problem in loaded.problems] == ["<stdin>:3:1"]


def test_links_to_parent_folders_are_not_followed(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("kind: A")
    (tmp_path / "up").symlink_to(tmp_path, target_is_directory=True)
    assert len(load_paths([tmp_path]).documents) == 1


def test_each_unreadable_path_is_one_problem(tmp_path: Path) -> None:
    binary = tmp_path / "binary.yaml"
    binary.write_bytes(b"\x7fELF\0\0")
    packed = tmp_path / "packed.yaml.gz"
    packed.write_bytes(gzip.compress(b"kind: Pod"))
    empty = tmp_path / "empty"
    empty.mkdir()
    missing = tmp_path / "missing.yaml"
    dangling = tmp_path / "dangling.yaml"
    dangling.symlink_to(missing)
    loaded = load_paths([binary, packed, empty, missing, dangling, "a\0b"])
    assert [(problem.code, problem.message) for problem in loaded.problems] == [
        ("bad-text", "a binary file, not YAML or JSON"),
        ("bad-text", "compressed with gzip: decompress it first"),
        ("no-files", "no .yaml, .yml or .json files in this directory"),
        ("unreadable", "cannot read the file: no such file or directory"),
        ("unreadable", "cannot read the file: no such file or directory"),
        ("unreadable", "cannot read the file: invalid file name"),
    ]
    assert all(problem.position.line == 1 for problem in loaded.problems)


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_folder_without_permission_is_a_problem(tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0)
    (problem,) = load_paths([tmp_path]).problems
    assert problem.message == "cannot read the directory: permission denied"


@pytest.mark.skipif(not Path("/dev/zero").exists(), reason="no /dev/zero")
def test_endless_device_is_a_problem() -> None:
    (problem,) = load_paths(["/dev/zero"]).problems
    assert problem.code == "bad-text"


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes")
def test_named_pipes_in_a_folder_are_skipped(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.yaml")
    (tmp_path / "pod.yaml").write_text("kind: Pod\napiVersion: v1\n")
    loaded = load_paths([tmp_path])
    assert [document.kind for document in loaded.documents] == ["Pod"]
    assert loaded.problems == []


def test_nul_byte_is_reported_with_its_position(tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    file.write_bytes(b"kind: Pod\nname: a\0b\n")
    (problem,) = load_paths([file]).problems
    assert (problem.position.line, problem.position.column) == (2, 8)
