"""Ed25519 signatures of release records (``pip install 'dpkv[sign]'``)."""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from dpkv.errors import UsageError
from dpkv.releases.record import ReleaseRecord, Signature

_RAW_KEY_BYTES = 32
NEEDS_CRYPTOGRAPHY = "signatures need the package cryptography: pip install 'dpkv[sign]'."


@dataclass(frozen=True, eq=False, repr=False)
class SigningKey:
    """A private key; it is never printed."""

    key: Any

    @classmethod
    def from_pem(cls, path: Path) -> SigningKey:
        """Read an unencrypted Ed25519 private key."""
        serialization, ed25519 = _cryptography()
        contents = _read(path, "--sign")
        try:
            key = serialization.load_pem_private_key(contents, password=None)
        except (ValueError, TypeError):
            key = None
        if not isinstance(key, ed25519.Ed25519PrivateKey):
            raise UsageError(
                f"--sign must be an unencrypted Ed25519 private key in PEM form. {path} is not: "
                "make one with 'openssl genpkey -algorithm ed25519 -out key.pem'."
            )
        return cls(key)

    @property
    def public_key(self) -> str:
        """The public key, as records spell it."""
        return _text(_raw(self.key.public_key()))

    def sign(self, record: ReleaseRecord) -> ReleaseRecord:
        """Return the record with its signature."""
        signature = Signature(
            public_key=self.public_key,
            value=_text(self.key.sign(record.signed_bytes())),
        )
        return record.model_copy(update={"signature": signature})


def can_check_signatures() -> bool:
    """Tell whether the package that does it is here."""
    return find_spec("cryptography") is not None


def is_signed_by_its_key(record: ReleaseRecord) -> bool:
    """Tell whether the record's signature fits the record and the key it names."""
    assert record.signature is not None
    _, ed25519 = _cryptography()
    from cryptography.exceptions import InvalidSignature  # noqa: PLC0415

    try:
        key = ed25519.Ed25519PublicKey.from_public_bytes(_bytes(record.signature.public_key))
        key.verify(_bytes(record.signature.value), record.signed_bytes())
    except (InvalidSignature, ValueError, binascii.Error):
        return False
    return True


def public_key_text(path: Path) -> str:
    """Return the public key of a PEM file, as records spell it."""
    serialization, ed25519 = _cryptography()
    contents = _read(path, "--public-key")
    try:
        key = serialization.load_pem_public_key(contents)
    except (ValueError, TypeError):
        key = None
    if not isinstance(key, ed25519.Ed25519PublicKey):
        raise UsageError(
            f"--public-key must be an Ed25519 public key in PEM form. {path} is not: make it with "
            "'openssl pkey -in key.pem -pubout -out public.pem'."
        )
    return _text(_raw(key))


def _raw(key: Any) -> bytes:
    serialization, _ = _cryptography()
    raw = serialization.Encoding.Raw, serialization.PublicFormat.Raw
    contents = bytes(key.public_bytes(*raw))
    assert len(contents) == _RAW_KEY_BYTES
    return contents


def _read(path: Path, option: str) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise UsageError(f"{option} {path} cannot be read: {error.strerror}.") from None


def _cryptography() -> tuple[Any, Any]:
    try:
        from cryptography.hazmat.primitives import serialization  # noqa: PLC0415
        from cryptography.hazmat.primitives.asymmetric import ed25519  # noqa: PLC0415
    except ImportError:
        raise UsageError(NEEDS_CRYPTOGRAPHY) from None
    return serialization, ed25519


def _text(contents: bytes) -> str:
    return base64.b64encode(contents).decode("ascii")


def _bytes(text: str) -> bytes:
    return base64.b64decode(text, validate=True)
