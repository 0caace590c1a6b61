"""Keys and certificates of a deployment: one authority, one server, one key for each site."""

import ipaddress
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from ..party import SERVER, Layout, write_file
from .layout import ADDRESS, NODE_KEY, SERVER_CERTIFICATE, SERVER_KEY

Key = ec.EllipticCurvePrivateKey

AUTHORITY_DAYS = 3650
SERVER_DAYS = 730


def new_key() -> Key:
    """A fresh key on a curve that Flower admits."""
    return ec.generate_private_key(ec.SECP384R1())


def private_pem(key: Key) -> bytes:
    """A private key as a TLS server reads it."""
    pkcs8 = serialization.PrivateFormat.PKCS8
    return key.private_bytes(serialization.Encoding.PEM, pkcs8, serialization.NoEncryption())


def private_ssh(key: Key) -> bytes:
    """A private key as a SuperNode reads it."""
    ssh = serialization.PrivateFormat.OpenSSH
    return key.private_bytes(serialization.Encoding.PEM, ssh, serialization.NoEncryption())


def public_ssh(key: Key) -> bytes:
    """A public key as it is registered."""
    return key.public_key().public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH) + b"\n"


def make_public(own: Path, name: str) -> str:
    """At a party that makes its own key in this folder, unless it is there: a site's public half, the server's request
    to sign its own."""
    own.mkdir(mode=0o700, parents=True, exist_ok=True)
    if name == SERVER:
        return _make_request(own / SERVER_KEY)
    if not (own / NODE_KEY).exists():
        write_file(own / NODE_KEY, private_ssh(new_key()), 0o600)
    key: Any = serialization.load_ssh_private_key((own / NODE_KEY).read_bytes(), None)
    return public_ssh(key).decode()


def _make_request(file: Path) -> str:
    if not file.exists():
        write_file(file, private_pem(new_key()), 0o600)
    key: Any = serialization.load_pem_private_key(file.read_bytes(), None)
    request = x509.CertificateSigningRequestBuilder().subject_name(_name(SERVER)).sign(key, hashes.SHA384())
    return request.public_bytes(serialization.Encoding.PEM).decode()


def sign(layout: Layout, request: str) -> Path:
    """At the authority: the server's certificate, for the key in its request and the host of this deployment."""
    asked = x509.load_pem_x509_csr(request.encode())
    if not asked.is_signature_valid or asked.subject != _name(SERVER):
        raise ValueError("the signing request of the server is not its own: it must be signed by its key")
    issuer = x509.load_pem_x509_certificate((layout.authority / "ca.crt").read_bytes())
    issuer_key: Any = serialization.load_pem_private_key((layout.authority / "ca.key").read_bytes(), None)
    host = json.loads((layout.server / ADDRESS).read_text())["host"]
    file = layout.server / SERVER_CERTIFICATE
    write_file(file, certificate_pem(server_certificate(asked.public_key(), host, issuer, issuer_key)))
    return file


def admit(server: Path, name: str, public: str) -> Path:
    """Let the server register a site's public key; its file."""
    if not isinstance(serialization.load_ssh_public_key(public.encode()), ec.EllipticCurvePublicKey):
        raise ValueError(f"the key of {name} must be of an elliptic curve, as Flower has them")
    file = server / "keys" / f"{name}.pub"
    write_file(file, public)
    return file


def names_by_key(folder: Path) -> dict[bytes, str]:
    """The sites by their public keys, in the form in which Flower reports a node's key."""
    pem, info = serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    files = sorted(folder.glob("*.pub"))
    return {serialization.load_ssh_public_key(file.read_bytes()).public_bytes(pem, info): file.stem for file in files}


def authority(key: Key) -> x509.Certificate:
    """The deployment's own authority: whoever trusts it trusts this server alone."""
    name = _name("fedualex deployment authority")
    usage = _usage(key_cert_sign=True, crl_sign=True)
    builder = _builder(name, name, key.public_key(), AUTHORITY_DAYS, usage)
    return builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), True).sign(key, hashes.SHA384())


def server_certificate(key: Any, host: str, issuer: x509.Certificate, issuer_key: Key) -> x509.Certificate:
    """A certificate for the public key of the server at `host`, and on its own machine at the loopback address."""
    builder = _builder(_name(host), issuer.subject, key, SERVER_DAYS, _usage(digital_signature=True))
    alternatives = [_general_name(name) for name in dict.fromkeys((host, "localhost", "127.0.0.1"))]
    identifier = x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key.public_key())
    return (
        builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), True)
        .add_extension(x509.SubjectAlternativeName(alternatives), False)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), False)
        .add_extension(identifier, False)
        .sign(issuer_key, hashes.SHA384())
    )


def certificate_pem(certificate: x509.Certificate) -> bytes:
    """A certificate as a file."""
    return certificate.public_bytes(serialization.Encoding.PEM)


def _builder(
    subject: x509.Name, issuer: x509.Name, key: Any, days: int, usage: x509.KeyUsage
) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))  # clocks differ
        .not_valid_after(now + timedelta(days=days))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), False)
        .add_extension(usage, True)
    )


def _usage(digital_signature: bool = False, key_cert_sign: bool = False, crl_sign: bool = False) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=digital_signature,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=key_cert_sign,
        crl_sign=crl_sign,
        encipher_only=False,
        decipher_only=False,
    )


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text[:64])])


def _general_name(text: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(text))
    except ValueError:
        return x509.DNSName(text)
