"""A start that finds less than was promised is refused with a sentence, and never kills what runs."""

import re
import shutil

import harness
import podkit
import pytest

CONFIGMAPS = "/api/v1/namespaces/default/configmaps"


def make(daemon, count, prefix="c"):
    for n in range(count):
        daemon.post(CONFIGMAPS, {"metadata": {"name": f"{prefix}{n}"}})


def names(daemon):
    return {i["metadata"]["name"] for i in daemon.get(CONFIGMAPS)["items"]}


def refusal(daemon):
    """The sentence with which the start is refused."""
    with pytest.raises(harness.Trouble, match="berthd ended with 1") as refused:
        daemon.start()
    return re.findall(r"^berthd: (.*)$", str(refused.value), re.M)[-1]


def start_lossy(daemon):
    daemon.flags.append("--accept-loss")
    daemon.start()
    daemon.flags.remove("--accept-loss")


def test_a_damaged_log_is_refused_and_can_be_accepted(own_daemon):
    daemon = own_daemon
    make(daemon, 60)
    daemon.kill9()
    wal = daemon.data / "berth.db-wal"
    text = bytearray(wal.read_bytes())
    text[len(text) // 2] ^= 1
    wal.write_bytes(text)
    said = refusal(daemon)
    assert re.search(r"the database ends at revision \d+, but revision \d+ was acknowledged; restore a backup with "
                     r"'berth restore FILE', or start berthd with --accept-loss", said), said
    start_lossy(daemon)
    assert names(daemon) < {f"c{n}" for n in range(60)}
    assert "accepted" in daemon.log()
    daemon.restart()  # said once


@pytest.mark.parametrize("what", ["missing", "empty", "with its mark"])
def test_a_lost_database_does_not_start_as_new(own_daemon, what):
    daemon = own_daemon
    make(daemon, 3)
    daemon.stop()
    db = daemon.data / "berth.db"
    if what == "empty":
        db.write_bytes(b"")
    else:
        db.unlink()
    if what == "with its mark":
        (daemon.data / "berth.db-mark").unlink()
    said = refusal(daemon)
    assert "is missing" in said and "--accept-loss" in said
    assert what == "empty" or not db.exists()
    start_lossy(daemon)
    assert not names(daemon) & {"c0", "c1", "c2"}


@pytest.mark.parametrize("what", ["gone", "another one"])
def test_a_lost_authority_is_not_made_anew_without_a_word(own_daemon, what):
    daemon = own_daemon
    daemon.stop()
    old = (daemon.data / "pki" / "ca.crt").read_text()
    shutil.rmtree(daemon.data / "pki")
    if what == "another one":
        with harness.Daemon(daemon.folder / "other") as other:
            shutil.copytree(other.data / "pki", daemon.data / "pki")
    said = refusal(daemon)
    assert f"the certificate authority in '{daemon.data}/pki' is {what}" in said and "--accept-loss" in said
    start_lossy(daemon)
    assert (daemon.data / "pki" / "ca.crt").read_text() != old
    daemon.restart()


def test_a_second_daemon_is_kept_out(own_daemon):
    with pytest.raises(harness.Trouble, match="is in use by another process"):
        other = harness.Daemon(own_daemon.folder / "second", start=False)
        other.data = own_daemon.data
        other.start()
    assert own_daemon.running()


def test_check_config_says_what_is_wrong(tmp_path):
    good, bad = tmp_path / "good.yaml", tmp_path / "bad.yaml"
    good.write_text("gpus: 2x1024\n")
    bad.write_text("gpuz: 2\n")
    said = harness.run([harness.BERTHD, "--check-config", "--config", good])
    assert said.code == 0 and f"the configuration is valid ({good})" in said.out
    said = harness.run([harness.BERTHD, "--check-config", "--config", bad])
    assert said.code == 2 and "unknown key 'gpuz': did you mean 'gpus'?" in said.err


@podkit.needs
@pytest.mark.plain
@pytest.mark.parametrize("how", ["accepted", "restored", "new"])
def test_what_runs_goes_on_although_its_pod_was_lost(tmp_path, how):
    daemon = podkit.start(tmp_path)
    backup = tmp_path / "b.tar.gz"
    try:
        assert daemon.berth("backup", backup).code == 0
        podkit.create(daemon, podkit.pod("kept", "trap 'exit 0' TERM; sleep 1000 & wait"))
        podkit.phase(daemon, "kept", "Running")
        inside = podkit.processes(daemon)
        assert inside
        daemon.kill9()
        if how == "restored":
            done = harness.run([harness.BERTH, "--data", daemon.data, "restore", backup])
            assert done.code == 0, done.err
            daemon.start()
        else:
            for name in ("berth.db", "berth.db-wal", "berth.db-shm"):
                (daemon.data / name).unlink(missing_ok=True)
            if how == "new":  # as if only the run folder knew
                (daemon.data / "berth.db-mark").unlink()
                for name in ("pki", "volumes", "pods", "logs"):
                    shutil.rmtree(daemon.data / name, ignore_errors=True)
                assert "belong to another database" in refusal(daemon)
            assert podkit.processes(daemon) >= inside
            start_lossy(daemon)
        assert "runs, but its pod is not known" in daemon.log()
        assert podkit.processes(daemon) >= inside
        daemon.restart()
        assert podkit.processes(daemon) >= inside
        (daemon.data / "keep-unknown").unlink()
        daemon.restart()
        harness.wait(lambda: not podkit.processes(daemon) & inside, "they end when the admin says so")
    finally:
        if not daemon.running():
            (daemon.data / "keep-unknown").unlink(missing_ok=True)
            start_lossy(daemon)
        podkit.close(daemon)
