"""berth backup and berth restore: online, whole, checked."""

import json
import tarfile
import threading

import harness
import pytest

CONFIGMAPS = "/api/v1/namespaces/default/configmaps"


def names(daemon):
    return {i["metadata"]["name"] for i in daemon.get(CONFIGMAPS)["items"]}


def make(daemon, *wanted):
    for name in wanted:
        daemon.post(CONFIGMAPS, {"metadata": {"name": name}})


def restored(path, folder):
    """A daemon on another data folder, from that backup."""
    daemon = harness.Daemon(folder, start=False)
    done = harness.run([harness.BERTH, "--data", daemon.data, "restore", path])
    assert done.code == 0, done.err
    daemon.said = done.out
    return daemon


def test_a_backup_starts_on_another_data_folder(own_daemon, tmp_path):
    daemon, path = own_daemon, tmp_path / "b.tar.gz"
    make(daemon, "one", "two")
    daemon.post("/api/v1/namespaces/default/persistentvolumeclaims", {
        "metadata": {"name": "scratch"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}})
    token = daemon.post("/v1/tokens", {"description": "kept"})["token"]
    done = daemon.berth("backup", path)
    assert done.code == 0 and f"wrote {path}" in done.err
    assert path.stat().st_mode & 0o777 == 0o600
    make(daemon, "later")
    with tarfile.open(path) as tar:
        members = {m.name for m in tar.getmembers()}
        claims = json.load(tar.extractfile("claims.json"))
    assert {"manifest.json", "berth.db", "claims.json", "pki/ca.crt", "pki/ca.key"} <= members
    assert [(c["namespace"], c["name"], c["size"]) for c in claims] == [("default", "scratch", "1Gi")]
    assert claims[0]["folder"] == f"{daemon.data}/volumes/{claims[0]['volume']}"
    with restored(path, tmp_path / "else") as other:
        assert "restored the backup of" in other.said and "what was there" not in other.said
        other.start()
        assert names(other) >= {"one", "two"} and "later" not in names(other)
        assert (other.data / "pki" / "ca.crt").read_text() == (daemon.data / "pki" / "ca.crt").read_text()
        assert other.request("GET", CONFIGMAPS, token=token, via="https").code == 200


def test_a_backup_under_load_holds_all_that_was_acknowledged_before(own_daemon, tmp_path):
    daemon, path, stop, made = own_daemon, tmp_path / "b.tar.gz", threading.Event(), []

    def write():
        while not stop.is_set():
            made.append(f"n{len(made)}")
            make(daemon, made[-1])

    writer = threading.Thread(target=write)
    writer.start()
    try:
        harness.wait(lambda: len(made) > 50, "some objects")
        before = set(made[:-1])
        assert daemon.berth("backup", path).code == 0
    finally:
        stop.set()
        writer.join()
    with restored(path, tmp_path / "else") as other:
        other.start()
        assert names(other) >= before


def test_restoring_in_place_keeps_what_was_there(own_daemon, tmp_path):
    daemon, path = own_daemon, tmp_path / "b.tar.gz"
    make(daemon, "one")
    assert daemon.berth("backup", path).code == 0
    make(daemon, "later")
    done = harness.run([harness.BERTH, "--data", daemon.data, "restore", path])
    assert done.code == 1 and f"berthd is using '{daemon.data}': stop it first" in done.err
    daemon.stop()
    done = harness.run([harness.BERTH, "--data", daemon.data, "restore", path])
    assert done.code == 0 and f"what was there is in {daemon.data}/replaced-" in done.out
    daemon.start()
    assert "one" in names(daemon) and "later" not in names(daemon)


def test_a_damaged_backup_is_refused(own_daemon, tmp_path):
    daemon, path = own_daemon, tmp_path / "b.tar.gz"
    make(daemon, "one")
    assert daemon.berth("backup", path).code == 0
    daemon.stop()
    text = bytearray(path.read_bytes())
    text[len(text) // 2] ^= 0xff
    path.write_bytes(text)
    done = harness.run([harness.BERTH, "--data", daemon.data, "restore", path])
    assert done.code == 1 and f"berthd: '{path}': " in done.err
    assert not list(daemon.data.glob(".restore-*")) and not list(daemon.data.glob("replaced-*"))
    daemon.start()
    assert "one" in names(daemon)


def test_only_admins_make_backups(own_daemon, tmp_path):
    token = own_daemon.post("/v1/tokens", {"user": "alice", "description": "x"})["token"]
    answer = own_daemon.request("GET", "/v1/backup", token=token, via="https")
    assert answer.code == 403


def test_a_failed_backup_leaves_no_file(own_daemon, tmp_path):
    done = own_daemon.berth("backup", tmp_path / "nowhere" / "b.tar.gz")
    assert done.code == 1 and "No such file or directory" in done.err


@pytest.mark.parametrize("keep", [2])
def test_daily_backups_are_made_and_pruned(tmp_path, keep):
    folder = tmp_path / "kept"
    folder.mkdir()
    for day in range(1, 5):
        (folder / f"berth-2026-01-0{day}T03:00:00Z.tar.gz").write_bytes(b"old")
    (folder / "other.txt").write_text("mine")
    with harness.Daemon(tmp_path / "d", "--backup-dir", folder, "--backup-keep", keep,
                        env={"BERTH_BACKUP_FIRST_LOOK_MS": "10"}) as daemon:
        newest = harness.wait(lambda: [p for p in folder.glob("berth-*.tar.gz") if p.stat().st_size > 100], "a backup")
        harness.wait(lambda: len(list(folder.glob("berth-*.tar.gz"))) == keep, "old ones gone")
        harness.wait(lambda: "lastBackup" in daemon.get("/v1/status"), "the status says so")
        assert (folder / "other.txt").exists()
    with restored(newest[0], tmp_path / "else") as other:
        other.start()


def test_backups_after_a_wrong_clock_and_a_kill(tmp_path):
    """One from a year that has not come yet neither counts as the newest nor drives out the others; parts go."""
    folder, data = tmp_path / "kept", tmp_path / "d" / "data"
    folder.mkdir()
    data.mkdir(parents=True)
    good = [folder / f"berth-2026-01-0{day}T03:00:00Z.tar.gz" for day in (1, 2)]
    future = folder / "berth-2199-01-01T03:00:00Z.tar.gz"
    parts = [folder / "berth-2026-01-03T03:00:00Z.tar.gz.db.part", folder / "berth-2026-01-03T03:00:00Z.tar.gz.part",
             data / ".backup-0011223344556677.tar.gz.db.part"]
    for path in (*good, future, *parts):
        path.write_bytes(b"old")
    with harness.Daemon(tmp_path / "d", "--backup-dir", folder, "--backup-keep", 3, env={"BERTH_BACKUP_FIRST_LOOK_MS": "10"}) as daemon:
        harness.wait(lambda: daemon.get("/v1/status").get("lastBackup", "") > "2026-01-03", "a backup")
        assert daemon.get("/v1/status")["lastBackup"] < "2199"
        assert not future.exists() and all(path.exists() for path in good)
        assert not any(path.exists() for path in parts)


def test_restore_does_not_guess_the_folder(own_daemon, tmp_path):
    path = tmp_path / "b.tar.gz"
    assert own_daemon.berth("backup", path).code == 0
    done = own_daemon.berth("restore", path)  # BERTH_SERVER names a daemon, not a folder
    assert done.code == 2 and "say which data folder" in done.err
