"""A disk that is full, on a small file system of the test's own: a start does not fail on it, reads go on, writes say why."""

import contextlib
import os
import pathlib
import subprocess
import threading

import pytest

import harness

MIB = 64
PATH = "/api/v1/namespaces/default/configmaps"


@pytest.fixture
def disk(tmp_path):
    """A daemon's folder whose data lie on a disk of their own."""
    if os.geteuid() != 0:
        pytest.skip("mounting a disk needs root")
    image, mount = tmp_path / "disk.img", tmp_path / "berth" / "data"
    mount.mkdir(parents=True)
    with open(image, "wb") as file:
        file.truncate(MIB << 20)
    subprocess.run(["mkfs.ext4", "-q", "-F", image], check=True)
    if subprocess.run(["mount", "-o", "loop", image, mount], check=False, capture_output=True).returncode:
        pytest.skip("no loop device can be mounted here")
    yield mount
    subprocess.run(["umount", "-l", mount], check=False)


def fill(mount, name):
    with open(mount / name, "wb", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            os.posix_fallocate(file.fileno(), os.fstat(file.fileno()).st_size, 1 << 20)
    with open(mount / f"{name}-rest", "wb", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(bytes(4096))


def free(mount, name):
    for one in (name, f"{name}-rest"):
        os.unlink(mount / one)


def create(daemon, name):
    return daemon.request("POST", PATH, {"metadata": {"name": name}})


def names(daemon):
    return {i["metadata"]["name"] for i in daemon.get(PATH)["items"]}


def test_start_on_a_full_disk_takes_the_room_that_was_set_aside(disk):
    with harness.Daemon(disk.parent) as daemon:
        assert create(daemon, "before").code == 201
        harness.wait(lambda: (disk / "reserve").exists(), "room is set aside")
        daemon.kill9()
        fill(disk, "filler")
        daemon.start()
        assert "before" in names(daemon)
        assert not (disk / "reserve").exists()
        assert create(daemon, "after").code == 201
        free(disk, "filler")


def test_start_waits_for_room_and_says_so(disk):
    with harness.Daemon(disk.parent) as daemon:
        assert create(daemon, "before").code == 201
        harness.wait(lambda: (disk / "reserve").exists(), "room is set aside")
        daemon.stop()
        os.unlink(disk / "reserve")
        fill(disk, "filler")

        def make_room():
            harness.wait(lambda: "waiting until 1024 KiB are free" in daemon.log(), "it says that it waits")
            free(disk, "filler")
        helper = threading.Thread(target=make_room)
        helper.start()
        daemon.start(timeout=30)
        helper.join()
        assert "before" in names(daemon) and create(daemon, "after").code == 201


def test_reads_go_on_and_writes_say_why_while_it_is_full(disk):
    with harness.Daemon(disk.parent) as daemon:
        assert create(daemon, "before").code == 201
        fill(disk, "filler")
        refused, n = None, 0
        while n < 400 and not refused:  # what the database has free is used up first
            answer = daemon.request("POST", PATH, {"metadata": {"name": f"n{n}"}, "data": {"x": "y" * 30000}})
            refused = answer if answer.code != 201 else None
            n += 1
        assert refused and refused.code == 503 and "disk is full" in refused.body.decode(), refused
        assert refused.headers.get("Retry-After")
        before = names(daemon)
        assert "before" in before and f"n{n - 1}" not in before
        free(disk, "filler")
        harness.wait(lambda: create(daemon, "after").code == 201, "writes go on by themselves")
        daemon.kill9()
        daemon.start()
        assert names(daemon) == before | {"after"}


def test_start_that_cannot_be_written_down_fails_with_a_status(tmp_path):
    """Whoever started it has to know."""
    blocked = tmp_path / "data"
    blocked.mkdir()
    (blocked / "berth.db").mkdir()
    with pytest.raises(harness.Trouble, match="berthd ended with 1"):
        harness.Daemon(tmp_path)
    assert pathlib.Path(blocked / "berth.db").is_dir()
