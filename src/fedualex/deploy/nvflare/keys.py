"""Keys that a party makes itself: a signing request for the authority, and the certificate that comes back."""

import json
import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from nvflare.lighter.impl.cert import MAX_CN_LENGTH
from nvflare.lighter.utils import (
    Identity,
    generate_cert,
    generate_keys,
    load_crt,
    serialize_cert,
    serialize_pri_key,
    x509_name,
)

from ..party import ADMIN, SERVER, Layout, write_file

KIT, STARTUP = "kit", "startup"
ORGANIZATION = "fedualex"
PROJECT = "deployment"
PRIVATE, CERTIFICATE = ".key", ".crt"
"""How the files of a kit's key and certificate end."""
OWN = "transport.key"
"""A key that a party made itself, in its own folder of keys: kits that replace the kit leave it alone."""
SUBMITTER = "lead"
"""The role of whoever submits runs."""
ADMINISTRATOR = f"{ADMIN}@{ORGANIZATION}.org"
DAYS = 360


def make_request(own: Path, name: str) -> str:
    """At a party: its own key, unless it is there, and a request to sign its public half."""
    own.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not (own / OWN).exists():
        key, _ = generate_keys()
        write_file(own / OWN, serialize_pri_key(key), 0o600)
    request = x509.CertificateSigningRequestBuilder().subject_name(x509_name(name, ORGANIZATION))
    return request.sign(_private(own / OWN), hashes.SHA256()).public_bytes(serialization.Encoding.PEM).decode()


def sign_request(layout: Layout, name: str, request: str) -> Path:
    """At the authority: a certificate for the key in a party's request, in the party's kit here; its file."""
    asked = x509.load_pem_x509_csr(request.encode())
    if not asked.is_signature_valid or asked.subject != x509_name(name, ORGANIZATION):
        raise ValueError(f"the signing request of {name} is not its own: it must be signed by its key, and name {name}")
    known = json.loads((layout.authority / PROJECT / "state" / "cert.json").read_text())
    root = x509.load_pem_x509_certificate(known["root_cert"].encode())
    signer: Any = serialization.load_pem_private_key(known["root_pri_key"].encode(), None)
    issuer = str(root.subject.get_attributes_for_oid(x509.NameOID.COMMON_NAME)[0].value)
    last = min(root.not_valid_after_utc, datetime.now(UTC) + timedelta(days=DAYS))
    made = generate_cert(
        _identity(layout, name),
        Identity(issuer),
        signer,
        asked.public_key(),
        server_default_host=_host(layout) if name == SERVER else None,
        not_valid_after=last,
    )
    file = _file(layout.party(name), CERTIFICATE)
    write_file(file, serialize_cert(made))
    return file


def _identity(layout: Layout, name: str) -> Identity:
    """As NVFlare's own provisioner has it in certificates."""
    if name == SERVER:
        return Identity(_host(layout)[:MAX_CN_LENGTH], ORGANIZATION)
    return Identity(ADMINISTRATOR, ORGANIZATION, SUBMITTER) if name == ADMIN else Identity(name, ORGANIZATION)


def _host(layout: Layout) -> str:
    project = json.loads((layout.authority / "project.yml").read_text())
    return next(str(party["name"]) for party in project["participants"] if party["type"] == "server")


def _file(party: Path, ending: str) -> Path:
    """The key or the certificate of a party's kit."""
    startup = party / KIT / STARTUP
    return startup / f"{'server' if (startup / 'fed_server.json').exists() else 'client'}{ending}"


def take_keys_away(party: Path) -> None:
    """Of a kit, whose party will make its own."""
    for ending in (PRIVATE, CERTIFICATE):
        _file(party, ending).unlink()


def install_own_key(party: Path, own: Path) -> None:
    """Give a party's kit the key that the party made itself, once its certificate is there, unless the kit's own fits.

    Before, a PermissionError says what is missing. A new key without its certificate waits: until then the party goes
    on with the key of before.
    """
    private, certificate = _file(party, PRIVATE), _file(party, CERTIFICATE)
    if private.exists() and not (own / OWN).exists():
        return
    if not certificate.exists():
        raise PermissionError(
            f"{certificate.parent} has no {certificate.name} yet: `fedualex deploy join`, and put the one there that "
            "`fedualex deploy admit` makes"
        )
    certified = _public(load_crt(str(certificate)).public_key())
    kept = [file for file in (private, own / OWN) if file.exists()]
    fitting = [file for file in kept if _public(_private(file).public_key()) == certified]
    if not fitting:
        raise PermissionError(
            f"{certificate} is of another key than this party's own: `fedualex deploy join` asks for a new one"
        )
    if fitting[0] == own / OWN:
        shutil.copyfile(own / OWN, private)
        private.chmod(0o600)


def _private(file: Path) -> Any:
    return serialization.load_pem_private_key(file.read_bytes(), None)


def _public(key: Any) -> bytes:
    content: bytes = key.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
    return content
