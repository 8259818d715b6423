"""The Homebrew formula: installs the zipapp of the platform, the command for kubectl, and shell completion."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from release.platforms import PLATFORMS, Platform

FORMULA: Final = "allotment.rb"
_PYTHON: Final = "3.13"
_SYSTEMS: Final = {"darwin": "on_macos", "linux": "on_linux"}
_PROCESSORS: Final = {"amd64": "on_intel", "arm64": "on_arm"}
_TEMPLATE: Final = """\
class Allotment < Formula
  desc "Dynamic Resource Allocation for GPUs in Kubernetes, with the reasons"
  homepage "{url}"
  version "{version}"
  license "Apache-2.0"

  depends_on "python@{python}"

{downloads}
  def install
    # The program recognizes a call by kubectl by its own name.
    libexec.install Dir["*.pyz"].first => "allot"
    libexec.install_symlink "allot" => "kubectl-allot"
    python = Formula["python@{python}"].opt_bin/"python{python}"
    %w[allot kubectl-allot].each do |name|
      (bin/name).write <<~SH
        #!/bin/sh
        exec "#{{python}}" "#{{libexec}}/#{{name}}" "$@"
      SH
      (bin/name).chmod 0755
    end
    generate_completions_from_executable(bin/"allot", "completion", shells: [:bash, :zsh, :fish])
  end

  test do
    assert_match version.to_s, shell_output("#{{bin}}/allot --version")
    assert_match "ResourceSlice", shell_output("#{{bin}}/allot fleet slices t4-4x-pcie")
  end
end
"""
# A zipapp is not an archive to unpack.
_DOWNLOAD: Final = """\
  {system} do
{processors}  end

"""
_PROCESSOR: Final = """\
    {processor} do
      url "{url}/{name}", using: :nounzip
      sha256 "{digest}"
    end
"""


def formula(version: str, url: str, zipapps: Mapping[Platform, Path]) -> str:
    """The formula. ``url``: of the folder from which Homebrew downloads the files."""
    downloads = ""
    for system, block in _SYSTEMS.items():
        processors = "".join(
            _PROCESSOR.format(
                processor=_PROCESSORS[platform.processor], url=url, name=zipapps[platform].name,
                digest=hashlib.sha256(zipapps[platform].read_bytes()).hexdigest(),
            )
            for platform in PLATFORMS.values()
            if platform.system == system and platform in zipapps
        )  # fmt: skip
        if processors:
            downloads += _DOWNLOAD.format(system=block, processors=processors)
    return _TEMPLATE.format(version=version, url=url, python=_PYTHON, downloads=downloads.rstrip("\n") + "\n")
