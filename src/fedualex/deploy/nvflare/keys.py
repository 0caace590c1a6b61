"""Keys that a site makes itself: a signing request for the authority, and the certificate that comes back."""

import json
import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from nvflare.lighter.utils import (
    Identity,
    generate_cert,
    generate_keys,
    load_crt,
    serialize_cert,
    serialize_pri_key,
    x509_name,
)

from ..party import Layout, write_file

KIT, STARTUP = "kit", "startup"
ORGANIZATION = "fedualex"
PROJECT = "deployment"
PRIVATE, CERTIFICATE = "client.key", "client.crt"
"""In a site's kit."""
OWN = "transport.key"
"""A key that a site made itself, in its own folder of keys: kits that replace the kit leave it alone."""
DAYS = 360


def make_request(own: Path, name: str) -> str:
    """At a site: its own key, unless it is there, and a request to sign its public half."""
    own.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not (own / OWN).exists():
        key, _ = generate_keys()
        write_file(own / OWN, serialize_pri_key(key), 0o600)
    request = x509.CertificateSigningRequestBuilder().subject_name(x509_name(name, ORGANIZATION))
    return request.sign(_private(own / OWN), hashes.SHA256()).public_bytes(serialization.Encoding.PEM).decode()


def sign_request(layout: Layout, name: str, request: str) -> Path:
    """At the authority: a certificate for the key in a site's request, in the site's kit here; its file."""
    asked = x509.load_pem_x509_csr(request.encode())
    if not asked.is_signature_valid or asked.subject != x509_name(name, ORGANIZATION):
        raise ValueError(f"the signing request of {name} is not its own: it must be signed by its key, and name {name}")
    known = json.loads((layout.authority / PROJECT / "state" / "cert.json").read_text())
    root = x509.load_pem_x509_certificate(known["root_cert"].encode())
    signer: Any = serialization.load_pem_private_key(known["root_pri_key"].encode(), None)
    issuer = str(root.subject.get_attributes_for_oid(x509.NameOID.COMMON_NAME)[0].value)
    last = min(root.not_valid_after_utc, datetime.now(UTC) + timedelta(days=DAYS))
    made = generate_cert(
        Identity(name, ORGANIZATION), Identity(issuer), signer, asked.public_key(), not_valid_after=last
    )
    file = layout.site(name) / KIT / STARTUP / CERTIFICATE
    write_file(file, serialize_cert(made))
    return file


def take_keys_away(party: Path) -> None:
    """Of a kit, whose site will make its own."""
    for name in (PRIVATE, CERTIFICATE):
        (party / KIT / STARTUP / name).unlink()


def install_own_key(party: Path, own: Path) -> None:
    """Give a site's kit the key that the site made itself, once its certificate is there. Before, say what is missing.

    A new key without its certificate waits: until then the site goes on with the key of before.
    """
    startup = party / KIT / STARTUP
    if not (startup / CERTIFICATE).exists():
        raise SystemExit(
            f"{startup} has no {CERTIFICATE} yet: `fedualex deploy join`, and put the one there that `fedualex deploy "
            "admit` makes"
        )
    kept = [file for file in (own / OWN, startup / PRIVATE) if file.exists()]
    fitting = [file for file in kept if _public(_private(file).public_key()) == _certified(startup)]
    if not fitting:
        raise SystemExit(
            f"{startup / CERTIFICATE} is of another key than this site's own: `fedualex deploy join` asks for a new one"
        )
    if fitting[0] == own / OWN:
        shutil.copyfile(own / OWN, startup / PRIVATE)
        (startup / PRIVATE).chmod(0o600)


def _certified(startup: Path) -> bytes:
    return _public(load_crt(str(startup / CERTIFICATE)).public_key())


def _private(file: Path) -> Any:
    return serialization.load_pem_private_key(file.read_bytes(), None)


def _public(key: Any) -> bytes:
    found: bytes = key.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
    return found
