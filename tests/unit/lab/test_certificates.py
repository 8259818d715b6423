from __future__ import annotations

import stat
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509

from allotment.lab import certificates
from allotment.lab.secret_files import DamagedFile

NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def certificate(path: Path) -> x509.Certificate:
    return x509.load_pem_x509_certificate(path.read_bytes())


def test_files_are_created_once_and_kept(tmp_path: Path) -> None:
    made = certificates.ensure(tmp_path / "pki", NOW)
    first = files(tmp_path / "pki")
    assert sorted(first) == ["ca.crt", "ca.key", "client-allotment-admin.crt", "client-allotment-admin.key",
                             "server.crt", "server.key", "token"]  # fmt: skip
    assert certificates.ensure(tmp_path / "pki", NOW + timedelta(days=300)) == made
    assert files(tmp_path / "pki") == first


def test_secret_files_are_private(tmp_path: Path) -> None:
    certificates.ensure(tmp_path / "pki", NOW)
    assert stat.S_IMODE((tmp_path / "pki").stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "pki").iterdir()} == {0o600}


def test_the_administrator_is_in_the_masters_group(tmp_path: Path) -> None:
    made = certificates.ensure(tmp_path, NOW)
    assert certificate(made.admin.certificate).subject.rfc4514_string() == "CN=allotment-admin,O=system:masters"
    assert len(made.token) >= 40


def test_expiring_certificates_are_renewed_with_the_same_authority(tmp_path: Path) -> None:
    certificates.ensure(tmp_path, NOW)
    before = files(tmp_path)
    certificates.ensure(tmp_path, NOW + timedelta(days=340))
    after = files(tmp_path)
    changed = {name for name in before if before[name] != after[name]}
    assert changed == {"server.crt", "server.key", "client-allotment-admin.crt", "client-allotment-admin.key"}


def test_a_new_authority_renews_all_certificates(tmp_path: Path) -> None:
    made = certificates.ensure(tmp_path, NOW)
    before = files(tmp_path)
    made.authority.unlink()
    certificates.ensure(tmp_path, NOW)
    after = files(tmp_path)
    assert {name for name in before if before[name] == after[name]} == {"token"}
    for identity in (made.server, made.admin):
        certificate(identity.certificate).verify_directly_issued_by(certificate(made.authority))


@pytest.mark.parametrize("name", ["ca.crt", "ca.key", "token"])
@pytest.mark.parametrize("content", [b"", b"damaged", b"\xff\x00", None])
def test_damaged_keys_and_authorities_are_rejected(tmp_path: Path, name: str, content: bytes | None) -> None:
    certificates.ensure(tmp_path, NOW)
    path = tmp_path / name
    path.write_bytes(path.read_bytes()[:20] if content is None else content)
    before = files(tmp_path)
    with pytest.raises(DamagedFile, match=rf"{name}: expected .*, found .*: restore .* from a backup, or remove "):
        certificates.ensure(tmp_path, NOW)
    assert files(tmp_path) == before


def test_an_authority_with_a_mismatched_key_is_rejected(tmp_path: Path) -> None:
    certificates.ensure(tmp_path / "one", NOW)
    certificates.ensure(tmp_path / "two", NOW)
    key = tmp_path / "one" / "ca.key"
    key.write_bytes((tmp_path / "two" / "ca.key").read_bytes())
    with pytest.raises(
        DamagedFile, match=r"ca\.key: expected the private key of ca\.crt in PEM format, found a different key"
    ):
        certificates.ensure(tmp_path / "one", NOW)
    key.unlink()
    with pytest.raises(DamagedFile, match="found no file"):
        certificates.issue(tmp_path / "one", "x", [], NOW)


@pytest.mark.parametrize("years", [0, 10])
def test_an_interrupted_authority_creation_is_completed_at_the_next_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, years: int
) -> None:
    """Both the first authority and the one that replaces it before it expires."""
    now = NOW
    if years:
        certificates.ensure(tmp_path, NOW)
        now += timedelta(days=365 * years)
    replace = Path.replace
    for stop in ("ca.key", "ca.crt"):

        def killed(self: Path, target: Path, stop: str = stop) -> Path:
            if target.name == stop:
                raise KeyboardInterrupt
            return replace(self, target)

        with monkeypatch.context() as patched:
            patched.setattr(Path, "replace", killed)
            with pytest.raises(KeyboardInterrupt):
                certificates.ensure(tmp_path, now)
    made = certificates.ensure(tmp_path, now)
    certificate(made.server.certificate).verify_directly_issued_by(certificate(made.authority))


@pytest.mark.parametrize("name", ["server.key", "server.crt"])
def test_missing_or_foreign_certificates_are_renewed(tmp_path: Path, name: str) -> None:
    made = certificates.ensure(tmp_path / "one", NOW)
    other = certificates.ensure(tmp_path / "two", NOW)
    (tmp_path / "one" / name).write_bytes((tmp_path / "two" / name).read_bytes())
    assert certificates.ensure(tmp_path / "one", NOW) == made
    certificate(made.server.certificate).verify_directly_issued_by(certificate(made.authority))
    made.server.key.unlink()
    certificates.ensure(tmp_path / "one", NOW)
    assert made.server.key.exists()
    assert other.token != made.token


def test_additional_server_names_are_covered(tmp_path: Path) -> None:
    made = certificates.ensure(tmp_path, NOW)
    first = made.server.certificate.read_bytes()
    certificates.ensure(tmp_path, NOW, ["lab.example.com", "10.0.0.7"])
    names = certificate(made.server.certificate).extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert [str(name.value) for name in names] == ["localhost", "127.0.0.1", "::1", "lab.example.com", "10.0.0.7"]
    second = made.server.certificate.read_bytes()
    assert second != first
    certificates.ensure(tmp_path, NOW, ["10.0.0.7"])
    assert made.server.certificate.read_bytes() == second


def test_another_client_name_gets_a_separate_certificate(tmp_path: Path) -> None:
    certificates.ensure(tmp_path, NOW)
    kubelet = certificates.issue(tmp_path, "system:node:n1", ["system:nodes"], NOW)
    assert certificate(kubelet.certificate).subject.rfc4514_string() == "CN=system:node:n1,O=system:nodes"
    with pytest.raises(FileNotFoundError, match="no usable certificate authority"):
        certificates.issue(tmp_path / "elsewhere", "x", [], NOW)
