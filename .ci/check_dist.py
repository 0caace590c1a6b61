"""Install wheel and sdist into new environments with the core dependencies alone, and use them.

python .ci/check_dist.py dist
"""

import email
import re
import subprocess
import sys
import tempfile
import venv
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
EXTRAS = ("matplotlib", "sklearn", "pandas", "pyarrow", "nvflare", "flwr", "pytest", "cvxpy", "sphinx")
ABSENT = f"import importlib.util; assert not [m for m in {EXTRAS} if importlib.util.find_spec(m)]"


def run(*command: object, cwd: Path) -> str:
    """What the command prints; an error if it fails."""
    done = subprocess.run([str(part) for part in command], cwd=cwd, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))}\n{done.stdout}{done.stderr}")
    return done.stdout


def check_description(wheel: Path, version: str) -> None:
    """Version and the text that a package index shows: nothing in it leads into the repository."""
    with zipfile.ZipFile(wheel) as archive:
        name = next(name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        metadata = email.message_from_string(archive.read(name).decode())
        assert "fedualex/py.typed" in archive.namelist(), "the wheel has no py.typed"
    assert metadata["Version"] == version, metadata["Version"]
    text = re.sub(r"`[^`\n]*`", "", re.sub(r"^```.*?^```$", "", metadata.get_payload(), flags=re.DOTALL | re.MULTILINE))
    assert not re.findall(r"\]\((?!https?:)[^)]*\)", text), "the description has links into the repository"


def check_installed(archive: Path, version: str) -> None:
    """Import, the command line, a fit of a CSV file and the README's Python, in an empty folder."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        venv.create(place / "env", with_pip=True)
        python, fedualex = place / "env/bin/python", place / "env/bin/fedualex"
        pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        run(*pip, "--constraint", ROOT / "constraints.txt", archive, cwd=place)
        run(python, "-c", ABSENT, cwd=place)
        assert run(python, "-c", "import fedualex; print(fedualex.__version__)", cwd=place).strip() == version
        assert "fit" in run(fedualex, "--help", cwd=place)
        assert version in run(fedualex, "--version", cwd=place)
        pages = {page: (ROOT / page).read_text() for page in ("README.md", "docs/get_started.md")}
        for page, text in pages.items():
            (place / "page.py").write_text(
                "\n".join(re.findall(r"^```python\n(.*?)^```$", text, re.DOTALL | re.MULTILINE))
            )
            printed = run(python, "page.py", cwd=place)
            assert page != "README.md" or "OPTIMAL, TOLERANCE: certified gap <= " in printed
        fitted = run(fedualex, "fit", "patients.csv", "--target", "outcome", "--clients", "hospital", cwd=place)
        assert "Certified: " in fitted
        run(fedualex, "report", "fits/patients-logistic", cwd=place)
        print(f"{archive.name}: installed, imported and used with the core dependencies alone")


def main() -> None:
    """Both archives of a folder."""
    folder = Path(sys.argv[1]).resolve()
    version = re.search(r'__version__ = "(.*)"', (ROOT / "src/fedualex/__init__.py").read_text())[1]
    (wheel,), (sdist,) = folder.glob("*.whl"), folder.glob("*.tar.gz")
    check_description(wheel, version)
    for archive in (wheel, sdist):
        check_installed(archive, version)


if __name__ == "__main__":
    main()
