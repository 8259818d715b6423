"""Requests in plain words become manifests in which check finds nothing, and that fit on their hardware."""

from __future__ import annotations

from pathlib import Path

import pytest

from allotment.cli.main import main
from allotment.model.releases import RELEASES, release_key
from tests.claim_requests import ClaimRequest, claim_requests

REQUESTS = pytest.mark.parametrize("request_", claim_requests(), ids=lambda request: request.phrase)


def written(request: ClaimRequest, folder: Path, capsys: pytest.CaptureFixture[str], *options: str) -> Path:
    """The file that ``allot claim`` writes for a request."""
    app = folder / "app.yaml"
    app.write_text(request.manifest())
    code = main(["claim", *request.arguments, "--for", f"{request.kind.lower()}/app", "-f", str(app), *options])
    output = capsys.readouterr()
    assert code == 0, output.err
    file = folder / "written.yaml"
    file.write_text(output.out)
    return file


def succeeds(capsys: pytest.CaptureFixture[str], *arguments: str) -> None:
    """Run a command, which must report nothing wrong."""
    code = main(list(arguments))
    assert code == 0, capsys.readouterr().out
    capsys.readouterr()


def test_there_are_forty() -> None:
    assert len({request.phrase for request in claim_requests()}) >= 40


@REQUESTS
def test_a_request_is_written_for_its_hardware(
    request_: ClaimRequest, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = written(request_, tmp_path, capsys, "--fleet", request_.fleet)
    succeeds(capsys, "check", str(file), "--fleet", request_.fleet, "--fail-on", "note")
    succeeds(capsys, "explain", "-f", str(file), "--fleet", request_.fleet)


@REQUESTS
def test_a_request_is_written_without_hardware(
    request_: ClaimRequest, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if request_.needs_hardware:
        return
    for release in RELEASES:
        if request_.since and release_key(release) < release_key(request_.since):
            continue
        file = written(request_, tmp_path, capsys, "--kube-version", release)
        succeeds(capsys, "check", str(file), "--kube-version", release, "--fail-on", "note")
    succeeds(capsys, "explain", "-f", str(file), "--fleet", request_.fleet)
