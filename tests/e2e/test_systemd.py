"""The systemd unit: what systemd thinks of it, and what pods need of it."""

import shutil

import pytest

import harness

UNIT = harness.ROOT / "deploy" / "systemd" / "berthd.service.in"


def settings():
    lines = [line for line in UNIT.read_text().splitlines() if "=" in line and not line.startswith("#")]
    return dict(line.split("=", 1) for line in lines)


def test_pods_outlive_the_daemon():
    unit = settings()
    assert (unit["KillMode"], unit["Delegate"], unit["RuntimeDirectoryPreserve"]) == ("process", "yes", "yes")
    private = [key for key in unit if key.startswith(("Private", "Protect", "ReadOnly", "ReadWrite", "Inaccessible",
                                                      "Bind", "Temporary", "RootDirectory", "MountFlags", "Dynamic"))]
    assert private == []  # each would give the daemon a mount namespace of its own
    inherited = [key for key in unit if key.startswith(("SystemCall", "Restrict", "NoNew", "Capability", "Lock", "MemoryDeny",
                                                        "SecureBits", "Limit")) and key != "LimitNOFILE"]
    assert inherited == []  # pods would inherit them, and keep them after the daemon


def test_a_reload_is_a_hangup_and_the_keyring_is_the_daemons_own():
    unit = settings()
    assert unit["ExecReload"] == "/bin/kill -HUP $MAINPID"
    assert (unit["KeyringMode"], unit["NotifyAccess"], unit["UMask"]) == ("private", "main", "0022")


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="there is no systemd-analyze")
def test_systemd_takes_it(tmp_path):
    copy = tmp_path / "berthd.service"
    copy.write_text(UNIT.read_text().replace("@sbindir@/berthd", str(harness.BERTHD)).replace("man:berthd(8)",
                                                                                              "https://example.org"))
    done = harness.run(["systemd-analyze", "verify", copy], env={"SYSTEMD_LOG_LEVEL": "warning", "PATH": "/usr/bin:/bin"})
    assert done.code == 0 and "berthd.service" not in done.err, done.err
