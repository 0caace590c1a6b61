"""`make docs`: the site is built without network, and every warning is an error."""

import re
import subprocess
import sys

import pytest
from support.pages import ROOT


@pytest.mark.slow
def test_the_site_builds_without_a_warning(tmp_path):
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-n", "-b", "html"]
    command += ["-d", str(tmp_path / "doctrees"), str(ROOT / "docs"), str(tmp_path / "site")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    front = (tmp_path / "site/index.html").read_text()
    assert "fedualex" in front
    loaded = re.findall(r'<(?:script|link|img)[^>]*(?:src|href)="(https?:[^"]*)"', front)
    assert loaded == []  # a reader without network sees the same page
