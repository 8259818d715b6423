"""The committed code is the output of ``scripts/protos``."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from importlib import import_module
from importlib.metadata import version
from pathlib import Path

import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet

from allotment.kubelet_plugin import wire

ROOT = Path(__file__).parents[3]
COMMITTED = Path(wire.__file__).parent
PROTOS = COMMITTED.parent / "protos"

needs_tools = pytest.mark.skipif(importlib.util.find_spec("grpc_tools") is None, reason="grpcio-tools is not installed")


def pinned() -> str:
    found = re.search(r'"grpcio-tools==([^"]+)"', (ROOT / "pyproject.toml").read_text())
    assert found
    return found[1]


@needs_tools
def test_the_committed_code_matches_the_protos(tmp_path: Path) -> None:
    out = tmp_path / "set"
    names = sorted(f"allotment/kubelet_plugin/wire/{path.name}" for path in PROTOS.glob("*.proto"))
    protoc = [sys.executable, "-m", "grpc_tools.protoc", "-I", f"allotment/kubelet_plugin/wire={PROTOS}"]
    subprocess.run([*protoc, f"--descriptor_set_out={out}", *names], check=True)
    made = {file.name: file for file in FileDescriptorSet.FromString(out.read_bytes()).file}
    assert sorted(made) == names
    for name, file in made.items():
        module = import_module(name.removesuffix(".proto").replace("/", ".") + "_pb2")
        assert FileDescriptorProto.FromString(module.DESCRIPTOR.serialized_pb) == _bare(file)


def _bare(file: FileDescriptorProto) -> FileDescriptorProto:
    """Without the JSON names, which are not in the generated code."""
    for message in file.message_type:
        for part in (message, *message.nested_type):
            for field in part.field:
                field.ClearField("json_name")
    return file


@needs_tools
def test_generation_is_reproducible(tmp_path: Path) -> None:
    if version("grpcio-tools") != pinned():
        pytest.skip(f"grpcio-tools {version('grpcio-tools')} is installed, the code is made by {pinned()}")
    subprocess.run([ROOT / "scripts" / "protos", tmp_path], check=True, env={**os.environ, "PYTHON": sys.executable})
    made = {path.name: path.read_text() for path in (tmp_path / "allotment/kubelet_plugin/wire").iterdir()}
    assert made == {path.name: path.read_text() for path in COMMITTED.glob("*_pb2.py*")}
