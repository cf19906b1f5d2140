"""Ed25519 signatures of release records (``pip install 'dpkv[sign]'``)."""

from __future__ import annotations

import base64
import binascii
import os
import re
import stat
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from dpkv import foreign
from dpkv.errors import UsageError
from dpkv.releases.record import ReleaseRecord, Signature

_RAW_KEY_BYTES = 32
_PUBLIC_KEY = re.compile(rb"-----BEGIN [A-Z0-9 ]+-----.*?-----END [A-Z0-9 ]+-----", re.DOTALL)
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
        value = self.sign_bytes(record.signed_bytes())
        signature = Signature(public_key=self.public_key, value=value)
        return record.model_copy(update={"signature": signature})

    def sign_bytes(self, contents: bytes) -> str:
        """Return the signature of anything."""
        return _text(self.key.sign(contents))


def find_exposure(path: Path) -> str | None:
    """Return what to say of a key's file that others on the machine can read or replace."""
    mode = stat.S_IMODE(path.stat().st_mode)
    if os.name != "posix" or not mode & 0o077:
        return None
    return (
        f"--sign {path} is open to other users (mode {mode:03o}), and whoever has it signs in your "
        f"name: run 'chmod 600 {path}', and take a new key if somebody may have read this one"
    )


def can_check_signatures() -> bool:
    """Tell whether the package that does it is here."""
    return find_spec("cryptography") is not None


def is_signed_by_its_key(record: ReleaseRecord) -> bool:
    """Tell whether the record's signature fits the record and the key it names."""
    assert record.signature is not None
    stated = record.signature
    return is_signature(stated.public_key, stated.value, record.signed_bytes())


def is_signature(public_key: str, value: str, contents: bytes) -> bool:
    """Tell whether a signature is that key's, of those contents."""
    _, ed25519 = _cryptography()
    from cryptography.exceptions import InvalidSignature  # noqa: PLC0415

    try:
        key = ed25519.Ed25519PublicKey.from_public_bytes(_bytes(public_key))
        key.verify(_bytes(value), contents)
    except (InvalidSignature, ValueError, binascii.Error):
        return False
    return True


def public_key_text(path: Path) -> str:
    """Return the public key of a PEM file, as records spell it."""
    key = _public_key(_read(path, "--public-key"))
    if key is None:
        raise UsageError(
            f"--public-key must be an Ed25519 public key in PEM form. {path} is not: make it with "
            "'openssl pkey -in key.pem -pubout -out public.pem'."
        )
    return key


def trusted_keys_path(workspace: Path) -> Path:
    """Return where a workspace keeps the public keys that its owner trusts."""
    return workspace / "keys" / "trusted.pem"


def trusted_key_texts(path: Path) -> tuple[str, ...]:
    """Return the keys of a file of public keys in PEM form, as records spell them.

    The file is such keys one after another; whatever stands between them is a comment.
    """
    blocks = _PUBLIC_KEY.findall(_read(path, "the file of trusted keys"))
    keys = [_public_key(block) for block in blocks]
    if not keys or None in keys:
        raise UsageError(
            f"the file of trusted keys must hold Ed25519 public keys in PEM form, one after "
            f"another. {path} does not: make one with 'cat alice.pem bob.pem > trusted.pem'."
        )
    return tuple(key for key in keys if key is not None)


def trusted_here(workspace: Path | None) -> tuple[str, ...]:
    """Return the keys that the owner of the workspace trusts; none where it has no such file."""
    if workspace is None or not can_check_signatures():
        return ()
    path = trusted_keys_path(workspace)
    return trusted_key_texts(path) if os.path.lexists(path) else ()


def _public_key(contents: bytes) -> str | None:
    """Return an Ed25519 public key in PEM form as records spell it; None where it is none."""
    serialization, ed25519 = _cryptography()
    try:
        key = serialization.load_pem_public_key(contents)
    except (ValueError, TypeError):
        return None
    return _text(_raw(key)) if isinstance(key, ed25519.Ed25519PublicKey) else None


def _raw(key: Any) -> bytes:
    serialization, _ = _cryptography()
    raw = serialization.Encoding.Raw, serialization.PublicFormat.Raw
    contents = bytes(key.public_bytes(*raw))
    assert len(contents) == _RAW_KEY_BYTES
    return contents


def _read(path: Path, option: str) -> bytes:
    try:
        return foreign.read_bytes(path, foreign.MOST_KEY_BYTES)
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
