"""The Python library's own tests (python/tests), in a process of their own: they change its environment."""

import pathlib
import subprocess
import sys

import pytest

pytestmark = pytest.mark.plain
ROOT = pathlib.Path(__file__).resolve().parents[2]


def test_the_librarys_own_tests_pass():
    done = subprocess.run([sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(ROOT / "python" / "tests")],
                          cwd=ROOT / "python", capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
