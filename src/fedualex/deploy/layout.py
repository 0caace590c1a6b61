"""Where the files of a deployment are: one folder for each party, and the rule for their names."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

SERVER = "server"
RESERVED = (SERVER, "admin", "authority", "localhost")
"""Names that a site cannot have."""


@dataclass(frozen=True)
class Layout:
    """A deployment's folder. A party has its own part of it, which may lie on another machine."""

    root: Path

    @property
    def server(self) -> Path:
        """The server's folder."""
        return self.root / SERVER

    @property
    def run(self) -> Path:
        """The run folder, at the server."""
        return self.server / "run"

    @property
    def admin(self) -> Path:
        """The folder of whoever submits runs, where an engine has such a party."""
        return self.root / "admin"

    @property
    def authority(self) -> Path:
        """What signs keys and certificates; it belongs on no server."""
        return self.root / "authority"

    def site(self, name: str) -> Path:
        """A site's folder."""
        return self.root / "sites" / name

    def viewer(self, name: str) -> Path:
        """The folder of somebody who may only look."""
        return self.root / "viewers" / name

    def party(self, name: str) -> Path:
        """The folder of the server or of a site."""
        return self.server if name == SERVER else self.site(name)

    def sites(self) -> list[str]:
        """The sites whose folders are here."""
        folder = self.site("")
        return sorted(path.name for path in folder.iterdir() if path.is_dir()) if folder.exists() else []

    def refuse_existing(self) -> None:
        """Keys are not replaced: whoever holds the old ones would be locked out."""
        for path in (self.server, self.site(""), self.admin, self.authority):
            if path.exists():
                raise FileExistsError(f"{self.root} holds a deployment already: {path.name} exists")


def check_name(name: str, what: str = "a site's name") -> str:
    """A letter, then letters, digits and dashes, at most 63 in all: what every engine and certificate admits."""
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9-]{0,62}", name) or name in RESERVED:
        raise ValueError(
            f"{what} must be a letter, then letters, digits and dashes, at most 63 in all and none of "
            f"{', '.join(RESERVED)}, got {name!r}"
        )
    return name


def check_sites(names: Sequence[str]) -> None:
    """At least one site, each name once and in order."""
    for name in names:
        check_name(name)
    if not names or len(set(names)) < len(names):
        raise ValueError(f"sites must be at least one name, each once, got {list(names)!r}")


def check_address(host: str, port: int) -> None:
    """By which sites reach the server."""
    if not isinstance(host, str) or not re.fullmatch(r"[A-Za-z0-9.-]{1,253}", host):
        raise ValueError(f"host must be a name or an IPv4 address, got {host!r}")
    if type(port) is not int or not 0 < port < 65536:
        raise ValueError(f"port must be between 1 and 65535, got {port!r}")
