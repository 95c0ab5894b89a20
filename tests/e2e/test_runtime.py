"""An OCI runtime that cannot start containers here is found out at start, not by the first job."""

import json
import pathlib
import shutil

import pytest

import harness
import podkit

pytestmark = podkit.needs

# Refuses as crun does: a line of JSON in the file after --log.
REFUSES = """#!/bin/sh
while [ $# -gt 0 ]; do
    [ "$1" = --log ] && echo '{"level": "error", "msg": "cgroups in hybrid mode not supported"}' >"$2"
    shift
done
exit 1
"""


@pytest.fixture
def broken(tmp_path):
    """A folder with a crun that refuses everything."""
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "crun").write_text(REFUSES)
    (folder / "crun").chmod(0o755)
    return folder


@pytest.mark.skipif(not (shutil.which("runc") or pathlib.Path("/usr/sbin/runc").exists()), reason="there is no runc")
def test_where_crun_refuses_runc_is_used_and_everybody_is_told(tmp_path, broken):
    node = podkit.start(tmp_path / "d", env={"PATH": f"{broken}:/usr/sbin:/usr/bin:/sbin:/bin"})
    try:
        podkit.create(node, podkit.pod("fine", "echo it runs"))
        podkit.phase(node, "fine", "Succeeded")
        status = node.get("/v1/status")
        why = f"{broken}/crun cannot start containers here: cgroups in hybrid mode not supported"
        assert status["agent"].startswith("on: /") and "/runc, " in status["agent"] and status["agentWarning"] == why
        assert why in node.berth("status").ok() and f"{why}; using /" in node.log()
        found = {i["check"]: i for i in json.loads(node.berth("doctor", "-o", "json").out)["items"]}
        assert found["agent"]["result"] == "warn" and why in found["agent"]["text"]
    finally:
        podkit.close(node)


def test_where_none_works_the_agent_is_off_with_the_reason(tmp_path, broken):
    with harness.Daemon(tmp_path / "d", "--agent", "auto", "--oci-runtime", broken / "crun",
                        env={"BERTH_SHIM": str(podkit.SHIM)}) as node:
        said = f"off: runtime: {broken}/crun cannot start containers here: cgroups in hybrid mode not supported"
        assert node.get("/v1/status")["agent"] == said
        assert "agentWarning" not in node.get("/v1/status")


def test_in_a_chroot_that_is_no_mount_point_the_way_out_is_told(tmp_path):
    root = tmp_path / "root"
    root.mkdir()
    script = """
        for each in /*; do
            if [ -L "$each" ]; then cp -d "$each" "$1$each"
            elif [ -d "$each" ]; then mkdir -p "$1$each" && mount --rbind "$each" "$1$each"; fi
        done
        exec chroot "$@"
    """
    ended = harness.run(["unshare", "--mount", "--propagation", "private", "sh", "-c", script, "sh", root, harness.BERTHD,
                         "--data", tmp_path / "d", "--socket", tmp_path / "s", "--http", "off", "--https", "off",
                         "--agent", "on"], env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "BERTH_SHIM": str(podkit.SHIM)})
    assert "no container can be started in this chroot, because its root is not a mount point: run 'mount --bind" in \
        ended.fails()
