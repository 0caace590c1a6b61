"""What every engine writes into a party's folder in the same way: private folders, keys and start scripts."""

from pathlib import Path

from ..storage import write_atomically


def private_folder(path: Path) -> Path:
    """A new folder for its owner alone, before anything is in it."""
    path.mkdir(parents=True)
    path.chmod(0o700)
    return path


def write_file(path: Path, content: bytes | str, mode: int = 0o644) -> None:
    """A file of a kit. Keys have mode 600, and lie in folders of mode 700."""
    write_atomically(path, content.encode() if isinstance(content, str) else content)
    path.chmod(mode)
