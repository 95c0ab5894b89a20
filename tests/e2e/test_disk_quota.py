"""Claims and emptyDirs on a file system that enforces their size: ext4 with project quotas, from an image file."""

import json
import os
import shutil
import subprocess

import pytest

import harness
import podkit

MIB = 1 << 20


def obstacle(folder):
    """Why there is no such file system here; else it is mounted at the folder."""
    image = folder.with_suffix(".img")
    with open(image, "wb") as out:
        out.truncate(768 * MIB)
    made = subprocess.run(["mkfs.ext4", "-q", "-O", "quota,project", image], capture_output=True, text=True, check=False)
    if made.returncode:
        return f"mkfs.ext4: {made.stderr.strip()}"
    folder.mkdir()
    mounted = subprocess.run(["mount", "-o", "loop,prjquota", image, folder], capture_output=True, text=True,
                             check=False)
    return mounted.returncode and f"this kernel has no project quotas: {mounted.stderr.strip().splitlines()[0]}"


@pytest.fixture(scope="module")
def disk(tmp_path_factory):
    folder = tmp_path_factory.mktemp("quota") / "disk"
    why = podkit.obstacle() or (not shutil.which("mkfs.ext4") and "there is no mkfs.ext4") or obstacle(folder)
    if why:
        pytest.skip(why)
    yield folder
    subprocess.run(["umount", folder], check=True)


@pytest.fixture(scope="module")
def node(disk):
    daemon = podkit.start(disk)
    yield daemon
    daemon.kubectl("delete", "pvc", "--all", "--wait=false").ok()
    podkit.close(daemon)


def claim(node, name, size):
    podkit.create(node, {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name},
                         "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}}})
    return harness.wait(lambda: node.kubectl("get", "pvc", name, "-o", "json").json()["spec"].get("volumeName"),
                        f"{name} is bound")


def user(node, name, claim_name):
    """A pod that has the claim at /p and waits for commands."""
    podkit.create(node, podkit.pod(name, "exec sleep 1000", spec={
        "terminationGracePeriodSeconds": 0,
        "volumes": [{"name": "p", "persistentVolumeClaim": {"claimName": claim_name}}]},
        volumeMounts=[{"name": "p", "mountPath": "/p"}]))
    podkit.phase(node, name, "Running")


def write(node, name, path, mib):
    """How many MiB could be written, and what was said."""
    done = node.kubectl("exec", name, "--", "sh", "-c",
                        f"dd if=/dev/zero of={path} bs=1M count={mib} 2>&1; stat -c %s {path}")
    return int(done.out.split()[-1]) // MIB, done.out


def size(node, name, path="/p"):
    """What df says: MiB in all, and used."""
    out = node.kubectl("exec", name, "--", "df", "-B1", "--output=size,used", path).ok().split()
    return int(out[-2]) // MIB, int(out[-1]) // MIB


def numbers(node):
    path = node.data / "projects.json"
    return json.loads(path.read_text()) if path.exists() else {}


def test_a_claim_holds_what_it_asked_for_and_no_more(node):
    assert "limited by project quotas" in node.get("/v1/status")["agent"]
    volume = claim(node, "small", "20Mi")
    harness.wait(lambda: f"volumes/{volume}" in numbers(node), "it has a number")
    user(node, "writer", "small")
    harness.wait(lambda: size(node, "writer")[0] == 20, "df shows its size")
    assert write(node, "writer", "/p/first", 10)[0] == 10
    wrote, said = write(node, "writer", "/p/second", 30)
    assert 8 <= wrote <= 10 and ("Disk quota exceeded" in said or "No space left" in said), said
    assert size(node, "writer")[1] >= 19
    harness.wait(lambda: "VolumeFull" in node.kubectl("get", "events").out, "an event says so", 90)
    node.kubectl("exec", "writer", "--", "rm", "/p/second").ok()
    assert write(node, "writer", "/p/third", 5)[0] == 5


def test_it_grows_with_the_claim(node):
    node.kubectl("patch", "pvc", "small", "-p", '{"spec":{"resources":{"requests":{"storage":"40Mi"}}}}').ok()
    harness.wait(lambda: size(node, "writer")[0] == 40, "df shows the new size")
    shown = node.kubectl("get", "pvc", "small", "-o", "json").json()
    assert shown["status"]["capacity"]["storage"] == "40Mi"
    assert write(node, "writer", "/p/fourth", 20)[0] == 20


def test_limits_hold_after_a_restart_and_without_the_daemon(node):
    before = numbers(node)
    node.restart()
    assert size(node, "writer")[0] == 40 and numbers(node) == before
    assert write(node, "writer", "/p/fifth", 40)[0] < 10


def test_an_empty_dir_holds_its_limit(node):
    podkit.create(node, podkit.pod("scratch", "exec sleep 1000", spec={
        "terminationGracePeriodSeconds": 0, "volumes": [{"name": "e", "emptyDir": {"sizeLimit": "5Mi"}}]},
        volumeMounts=[{"name": "e", "mountPath": "/e"}]))
    podkit.phase(node, "scratch", "Running")
    assert size(node, "scratch", "/e")[0] == 5
    assert write(node, "scratch", "/e/f", 10)[0] < 5
    node.kubectl("delete", "pod", "scratch").ok()
    harness.wait(lambda: not [n for n in numbers(node) if n.startswith("pods/")], "its number is free")


def test_a_person_cannot_take_files_out_of_the_limit(node):
    node.kubectl("exec", "writer", "--", "rm", "/p/fifth").ok()
    out = node.kubectl("exec", "writer", "--", "sh", "-c", "touch /p/mine; chattr -p 0 /p/mine; lsattr -p /p/mine").out
    assert out.split()[0] in map(str, numbers(node).values()), out


def test_what_was_there_before_is_counted(node):
    node.stop()
    node.flags += ["--project-ids", "off"]
    node.start()
    claim(node, "old", "30Mi")
    user(node, "filler", "old")
    node.kubectl("exec", "filler", "--", "mkdir", "-p", "/p/a/b").ok()
    assert write(node, "filler", "/p/a/b/f", 12)[0] == 12
    node.stop()
    del node.flags[-2:]
    node.start()
    harness.wait(lambda: size(node, "filler") == (30, 12), "what it holds is counted")


def test_a_number_is_free_when_the_claim_is_gone(node):
    node.kubectl("delete", "pod", "writer", "filler").ok()
    node.kubectl("delete", "pvc", "small", "old").ok()
    harness.wait(lambda: not numbers(node), "no number is left")
    assert os.listdir(node.data / "volumes") == []
