"""What the packages say of themselves: one version everywhere, and a config file with every key."""

import re
import tomllib

import yaml

import harness


def settings():
    """(flag, key) of every row of the table in src/daemon/config.c."""
    table = (harness.ROOT / "src/daemon/config.c").read_text().split("struct row rows[] = {")[1].split("\n};")[0]
    return re.findall(r'^    \{"([a-z-]+)", "(\w+)"', table, re.M)


def test_there_is_one_version():
    version = re.search(r"^  version: '(.*)',$", (harness.ROOT / "meson.build").read_text(), re.M)[1]
    assert harness.run([harness.BERTHD, "--version"]).ok() == f"berthd {version}\n"
    assert tomllib.loads((harness.ROOT / "python/pyproject.toml").read_text())["project"]["version"] == version
    assert (harness.ROOT / "debian/changelog").read_text().startswith(f"berth ({version}) ")
    assert re.search(r"^## (\S+)", (harness.ROOT / "CHANGELOG.md").read_text(), re.M)[1] == version


def test_the_config_file_has_every_key_and_changes_nothing(tmp_path):
    text = harness.run([harness.BERTHD, "--print-config"]).ok()
    keys = [key for _, key in settings()]
    assert len(keys) > 40 and re.findall(r"^#(\w+): ", text, re.M) == keys
    assert all(not line or line.startswith("#") for line in text.splitlines()) and yaml.safe_load(text) is None
    file = tmp_path / "berthd.yaml"
    file.write_text(text)
    assert "is valid" in harness.run([harness.BERTHD, "--config", file, "--check-config"]).ok()


def test_every_key_is_in_the_manual():
    manual = (harness.ROOT / "docs/configuration.md").read_text()
    for flag, key in settings():
        assert f"`--{flag}" in manual and f"`{key}`" in manual, key
