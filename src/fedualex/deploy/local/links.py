"""The two ends of a loopback connection: who is there is proved by a shared key, then frames of bytes follow."""

import contextlib
import hashlib
import hmac
import secrets
import socket
import struct
from collections.abc import Mapping

from ..encoding import LARGEST

FRAME = struct.Struct("<Q")
NONCE = PROOF = 32
HANDSHAKE_SECONDS = 30.0


class Link:
    """Frames of bytes over a socket; a closed or broken one raises OSError or EOFError."""

    def __init__(self, connection: socket.socket):
        self._connection = connection
        connection.settimeout(HANDSHAKE_SECONDS)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def send(self, content: bytes) -> None:
        """One frame."""
        self._connection.sendall(FRAME.pack(len(content)))
        self._connection.sendall(content)

    def receive(self, largest: int = LARGEST) -> bytes:
        """The next frame; one that is too large is refused before it is read."""
        (length,) = FRAME.unpack(self._exactly(FRAME.size))
        if length > largest:
            raise ConnectionError(f"a frame has at most {largest} bytes, got {length}")
        return self._exactly(length)

    def close(self) -> None:
        """Also wakes whoever waits for a frame."""
        with contextlib.suppress(OSError):  # it may be closed already
            self._connection.shutdown(socket.SHUT_RDWR)
        self._connection.close()

    def patient(self) -> None:
        """After the handshake one side may be silent for as long as it works."""
        self._connection.settimeout(None)

    def _exactly(self, length: int) -> bytes:
        found = bytearray()
        while len(found) < length:
            part = self._connection.recv(min(length - len(found), 1 << 20))
            if not part:
                raise EOFError("the other side has closed the connection")
            found += part
        return bytes(found)


def welcome(link: Link, keys: Mapping[str, bytes]) -> str:
    """The server's side of a handshake: the name of the site that proved to have its key, or PermissionError."""
    challenge = secrets.token_bytes(NONCE)
    link.send(challenge)
    name = link.receive(100).decode(errors="replace")
    answer = link.receive(NONCE + PROOF)
    counter, proof = answer[:NONCE], answer[NONCE:]
    key = keys.get(name, secrets.token_bytes(PROOF))  # an unknown name takes as long as a wrong key
    if not hmac.compare_digest(proof, _proof(key, b"site", challenge, counter)):
        raise PermissionError(f"somebody who says to be {name[:63]!r} does not have its key")
    link.send(_proof(key, b"server", challenge, counter))
    link.patient()
    return name


def introduce(link: Link, name: str, key: bytes) -> None:
    """A site's side of a handshake; the server must have the key as well."""
    challenge, counter = link.receive(NONCE), secrets.token_bytes(NONCE)
    link.send(name.encode())
    link.send(counter + _proof(key, b"site", challenge, counter))
    if not hmac.compare_digest(link.receive(PROOF), _proof(key, b"server", challenge, counter)):
        raise PermissionError("the server does not have this site's key")
    link.patient()


def _proof(key: bytes, side: bytes, challenge: bytes, counter: bytes) -> bytes:
    return hmac.digest(key, side + challenge + counter, hashlib.sha256)
