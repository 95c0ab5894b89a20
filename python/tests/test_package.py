"""A wheel and an sdist are made without a network, with both packages, types and no dependency."""

import glob
import importlib.util
import os
import subprocess
import sys
import tarfile
import zipfile

import pytest

pytest.importorskip("setuptools", reason="setuptools is not installed")
pytest.importorskip("wheel", reason="wheel is not installed")

ROOT = os.path.join(os.path.dirname(__file__), "..")


def test_wheel_and_sdist_build_offline(tmp_path):
    copy = tmp_path / "python"
    subprocess.run(["cp", "-r", ROOT, str(copy)], check=True)
    for what in ("wheel", "sdist"):
        code = "import setuptools.build_meta as b; b.build_%s(%r)" % (what, str(tmp_path))
        done = subprocess.run([sys.executable, "-c", code], cwd=copy, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
    with zipfile.ZipFile(glob.glob(str(tmp_path / "*.whl"))[0]) as wheel:
        names = wheel.namelist()
        meta = wheel.read([it for it in names if it.endswith("METADATA")][0]).decode()
    for name in ("berth/__init__.py", "berth/py.typed", "kubernetesdlprofile/kubeprofiler.py",
                 "kubernetesdlprofile/py.typed"):
        assert name in names
    assert "Requires-Dist" not in meta and "Requires-Python: >=3.8" in meta
    for line in ("License: Apache-2.0", "Description-Content-Type: text/markdown", "Classifier: Typing :: Typed",
                 "Classifier: License :: OSI Approved :: Apache Software License"):
        assert line in meta, meta
    if importlib.util.find_spec("twine"):
        made = glob.glob(str(tmp_path / "*.whl")) + glob.glob(str(tmp_path / "*.tar.gz"))
        check = subprocess.run([sys.executable, "-m", "twine", "check", "--strict", *made], capture_output=True, text=True)
        assert check.returncode == 0, check.stdout + check.stderr
    with tarfile.open(glob.glob(str(tmp_path / "*.tar.gz"))[0]) as sdist:
        assert any(it.endswith("src/berth/_sender.py") for it in sdist.getnames())
