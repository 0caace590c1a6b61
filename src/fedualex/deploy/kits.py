"""What every engine writes into a party's folder in the same way: private folders, keys and start scripts."""

from pathlib import Path

from ..storage import write_atomically

UNIT = """\
# A systemd unit for {who}. It assumes that this folder lies in {place} and belongs to a user `fedualex`, and that
# fedualex is installed in /opt/fedualex. Adapt these three, copy it to /etc/systemd/system/{name}.service, and:
#     systemctl daemon-reload && systemctl enable --now {name}
[Unit]
Description=fedualex, {who}
Wants=network-online.target
After=network-online.target

[Service]
User=fedualex
Environment=PYTHON=/opt/fedualex/bin/python
Environment=PATH=/opt/fedualex/bin:/usr/bin:/bin
ExecStart={place}/start.sh
Restart=on-failure
RestartSec=10
KillMode=control-group
UMask=0077
NoNewPrivileges=true
PrivateTmp=true
ProtectSystem=strict
ProtectHome=read-only
ReadWritePaths={place}

[Install]
WantedBy=multi-user.target
"""
"""Whatever a party's process has started ends with it (`control-group`), and only its own folder can be written."""


def write_unit(party: Path, who: str) -> None:
    """A systemd unit beside a party's start script."""
    name = f"fedualex-{party.name}"
    write_file(party / f"{name}.service", UNIT.format(who=who, name=name, place=f"/srv/fedualex/{party.name}"))


def private_folder(path: Path) -> Path:
    """A new folder for its owner alone, before anything is in it."""
    path.mkdir(parents=True)
    path.chmod(0o700)
    return path


def write_file(path: Path, content: bytes | str, mode: int = 0o644) -> None:
    """A file of a kit. Keys have mode 600, and lie in folders of mode 700."""
    write_atomically(path, content.encode() if isinstance(content, str) else content)
    path.chmod(mode)
