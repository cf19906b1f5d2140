"""Ed25519 signatures of records, with keys made here."""

from __future__ import annotations

import base64
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ed25519, rsa, x25519

import dpkv
from dpkv.errors import UsageError
from dpkv.releases import Check, ReleaseRecord, verify
from dpkv.releases.signing import (
    SigningKey,
    public_key_text,
    trusted_here,
    trusted_key_texts,
    trusted_keys_path,
)
from dpkv.releases.verify import failed

X = np.random.default_rng(0).uniform(-0.9, 0.9, (60, 2))
PEM = serialization.Encoding.PEM
PLAIN = serialization.NoEncryption()
PKCS8 = serialization.PrivateFormat.PKCS8
PUBLIC = serialization.PublicFormat.SubjectPublicKeyInfo


class Keys:
    """A pair of keys in two files."""

    def __init__(self, folder: Path, name: str) -> None:
        self.key = ed25519.Ed25519PrivateKey.generate()
        self.private, self.public = folder / f"{name}.pem", folder / f"{name}-public.pem"
        self.private.write_bytes(self.key.private_bytes(PEM, PKCS8, PLAIN))
        self.public.write_bytes(self.key.public_key().public_bytes(PEM, PUBLIC))

    def sign(self, record: ReleaseRecord) -> ReleaseRecord:
        return SigningKey.from_pem(self.private).sign(record)


@pytest.fixture
def ours(tmp_path: Path) -> Keys:
    return Keys(tmp_path, "ours")


@pytest.fixture
def theirs(tmp_path: Path) -> Keys:
    return Keys(tmp_path, "theirs")


@pytest.fixture(scope="module")
def record() -> ReleaseRecord:
    return dpkv.release(X, k=2, eps=1.0, bounds=(-1, 1), workspace=None).record


def the_signature(record: ReleaseRecord, public: Path | None = None) -> Check:
    key = None if public is None else public_key_text(public)
    checks = verify(record, public_key=key)
    assert {wrong.name for wrong in failed(checks)} <= {"signature"}
    return signature_of(checks)


def signature_of(checks: tuple[Check, ...]) -> Check:
    (found,) = (check for check in checks if check.name == "signature")
    return found


def vouched(checks: tuple[Check, ...]) -> Check:
    assert checks[-1].name == "vouched for"
    return checks[-1]


def test_a_signed_record_is_the_record_and_a_signature(record: ReleaseRecord, ours: Keys) -> None:
    signed = ours.sign(record)
    assert signed.model_copy(update={"signature": None}) == record
    again = ReleaseRecord.model_validate_json(signed.to_json())
    assert again == signed
    for one in (signed, again):
        checked = the_signature(one, ours.public)
        assert checked.passed is True and checked.detail == "by the key expected"


def test_the_signature_is_plain_ed25519_of_the_json_without_it(
    record: ReleaseRecord, ours: Keys
) -> None:
    """Anyone can check it without dpkv: sorted keys, no spaces, ASCII."""
    fields = json.loads(ours.sign(record).to_json())
    signature = fields.pop("signature")
    assert signature["algorithm"] == "Ed25519"
    raw = base64.b64decode(signature["public_key"])
    assert raw == ours.key.public_key().public_bytes_raw()
    text = json.dumps(fields, sort_keys=True, separators=(",", ":"))
    ours.key.public_key().verify(base64.b64decode(signature["value"]), text.encode("ascii"))


def test_an_infinite_number_can_be_signed(ours: Keys) -> None:
    asked: dict[str, Any] = {"k": 2, "eps": 1.0, "bounds": (-1, 1), "gamma": float("inf")}
    signed = ours.sign(dpkv.release(X, **asked, workspace=None).record)
    again = ReleaseRecord.model_validate_json(signed.to_json())
    assert the_signature(again, ours.public).passed is True


def test_an_unknown_key_counts_for_nothing(record: ReleaseRecord, ours: Keys) -> None:
    """Anybody can make a key and sign with it."""
    signed = ours.sign(record)
    key = public_key_text(ours.public)
    checked = the_signature(signed)
    assert checked.passed is None
    assert key in checked.detail and "unknown here" in checked.detail
    assert vouched(verify(signed)).passed is None
    assert vouched(verify(signed)).detail.startswith("by nobody")
    for named in ({"public_key": key}, {"trusted_keys": ("another", key)}):
        checks = verify(signed, **named)
        assert signature_of(checks).passed is True
        assert vouched(checks) == Check("vouched for", True, f"by the key {key}")


def test_an_unknown_key_whose_signature_does_not_fit_fails(
    record: ReleaseRecord, ours: Keys
) -> None:
    altered = ours.sign(record).model_copy(update={"dpkv_version": "9.9"})
    assert the_signature(altered).passed is False


# --- files of trusted keys --------------------------------------------------------------------


def test_a_file_of_trusted_keys_is_keys_one_after_another(
    ours: Keys, theirs: Keys, tmp_path: Path
) -> None:
    path = tmp_path / "trusted.pem"
    both = ours.public.read_text(), theirs.public.read_text()
    path.write_text("# Alice, of the clinic\n" + "\n# Bob\n".join(both), encoding="utf-8")
    keys = tuple(public_key_text(one.public) for one in (ours, theirs))
    assert trusted_key_texts(path) == keys
    (tmp_path / "keys").mkdir()
    assert trusted_here(tmp_path) == () and trusted_here(None) == ()
    path.rename(trusted_keys_path(tmp_path))
    assert trusted_here(tmp_path) == keys


def test_what_is_no_file_of_trusted_keys_is_refused(ours: Keys, tmp_path: Path) -> None:
    path = tmp_path / "trusted.pem"
    good = ours.public.read_text()
    private = ours.private.read_text()
    for text in ("", "hello", private, good + private, good + good.replace("M", "N")):
        path.write_text(text, encoding="utf-8")
        with pytest.raises(UsageError, match="must hold Ed25519 public keys in PEM form"):
            trusted_key_texts(path)
    path.write_bytes(bytes(2 << 20))
    with pytest.raises(UsageError, match=r"cannot be read: it is larger than 1 MB"):
        trusted_key_texts(path)
    with pytest.raises(UsageError, match="cannot be read: No such file"):
        trusted_key_texts(tmp_path / "nowhere.pem")


def test_another_key_is_found(record: ReleaseRecord, ours: Keys, theirs: Keys) -> None:
    checked = the_signature(theirs.sign(record), ours.public)
    assert (checked.passed, checked.detail) == (False, "signed by another key than expected")


def test_a_missing_signature_is_found_where_one_is_expected(
    record: ReleaseRecord, ours: Keys
) -> None:
    checked = the_signature(record, ours.public)
    assert checked.passed is False and "expected, and there is none" in checked.detail
    assert the_signature(record).passed is None


@pytest.mark.parametrize(
    "update",
    [
        {"created": "2001-01-01T00:00:00+00:00"},
        {"versions": {"python": "2.7"}},
        {"dpkv_version": "9.9"},
        {"release_id": "another"},
        {"n_records": 61},
        {"columns": ("x2", "x1")},
        {"clusters": ()},
    ],
    ids=lambda update: next(iter(update)),
)
def test_an_altered_signed_record_is_found(
    update: dict[str, Any], record: ReleaseRecord, ours: Keys
) -> None:
    """What nothing else would notice as well: a signature covers every field."""
    altered = ours.sign(record).model_copy(update=update)
    checks = verify(altered, public_key=public_key_text(ours.public))
    fault = Check("signature", False, "the signature does not fit the record")
    assert signature_of(checks) == fault


@pytest.mark.parametrize("field", ["public_key", "value"])
@pytest.mark.parametrize("text", ["", "AAAA", "not base64!", "ä", "A" * 44, "=" * 10])
def test_a_signature_that_is_none_is_found(
    field: str, text: str, record: ReleaseRecord, ours: Keys
) -> None:
    signed = ours.sign(record)
    assert signed.signature is not None
    broken = signed.model_copy(
        update={"signature": signed.signature.model_copy(update={field: text})}
    )
    assert the_signature(broken).passed is False


def test_a_signature_of_another_record_does_not_fit(record: ReleaseRecord, ours: Keys) -> None:
    other = dpkv.release(X, k=2, eps=2.0, bounds=(-1, 1), workspace=None).record
    moved = other.model_copy(update={"signature": ours.sign(record).signature})
    assert the_signature(moved, ours.public).passed is False


# --- files that are no key --------------------------------------------------------------------


def no_keys(folder: Path, *, private: bool) -> dict[str, Path]:
    """Files that are not the key asked for; the keys are made with ``cryptography``."""
    key = ed25519.Ed25519PrivateKey.generate()
    numbers = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    exchange = x25519.X25519PrivateKey.generate()
    locked = serialization.BestAvailableEncryption(b"secret")
    if private:
        contents = {
            "rsa": numbers.private_bytes(PEM, PKCS8, PLAIN),
            "x25519": exchange.private_bytes(PEM, PKCS8, PLAIN),
            "encrypted": key.private_bytes(PEM, PKCS8, locked),
            "the public key": key.public_key().public_bytes(PEM, PUBLIC),
            "der": key.private_bytes(serialization.Encoding.DER, PKCS8, PLAIN),
        }
    else:
        contents = {
            "rsa": numbers.public_key().public_bytes(PEM, PUBLIC),
            "x25519": exchange.public_key().public_bytes(PEM, PUBLIC),
            "the private key": key.private_bytes(PEM, PKCS8, PLAIN),
            "der": key.public_key().public_bytes(serialization.Encoding.DER, PUBLIC),
        }
    contents |= {"empty": b"", "text": b"hello", "binary": bytes(range(256))}
    contents["damaged"] = contents["rsa"].replace(b"A", b"B")
    for name, text in contents.items():
        (folder / name).write_bytes(text)
    return {name: folder / name for name in contents}


def test_only_an_unencrypted_ed25519_private_key_signs(tmp_path: Path) -> None:
    for path in no_keys(tmp_path, private=True).values():
        with pytest.raises(UsageError) as refusal:
            SigningKey.from_pem(path)
        message = str(refusal.value)
        assert message.startswith("--sign must be an unencrypted Ed25519 private key in PEM form.")
        assert str(path) in message and "openssl genpkey -algorithm ed25519" in message


def test_only_an_ed25519_public_key_verifies(tmp_path: Path) -> None:
    for path in no_keys(tmp_path, private=False).values():
        with pytest.raises(UsageError) as refusal:
            public_key_text(path)
        assert str(refusal.value).startswith("--public-key must be an Ed25519 public key in PEM")
        assert str(path) in str(refusal.value)


def test_a_missing_key_is_told(tmp_path: Path) -> None:
    missing = tmp_path / "nowhere.pem"
    with pytest.raises(UsageError, match=r"^--sign .*nowhere.pem cannot be read: No such file"):
        SigningKey.from_pem(missing)
    with pytest.raises(UsageError, match=r"^--public-key .*cannot be read: No such file"):
        public_key_text(missing)
    with pytest.raises(UsageError, match=r"^--sign .*cannot be read: Is a directory"):
        SigningKey.from_pem(tmp_path)


def test_a_key_does_not_show_itself(ours: Keys) -> None:
    secret = ours.key.private_bytes_raw()
    shown = repr(SigningKey.from_pem(ours.private))
    assert secret.hex() not in shown and base64.b64encode(secret).decode() not in shown


def test_without_cryptography_it_says_what_to_install(
    record: ReleaseRecord, ours: Keys, monkeypatch: pytest.MonkeyPatch
) -> None:
    signed = ours.sign(record)
    for name in [name for name in sys.modules if name.split(".")[0] == "cryptography"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "cryptography", None)
    for call in (lambda: SigningKey.from_pem(ours.private), lambda: public_key_text(ours.public)):
        with pytest.raises(UsageError, match=r"pip install 'dpkv\[sign\]'"):
            call()
    checked = signature_of(verify(signed))
    assert checked.passed is not True and "dpkv[sign]" in checked.detail
