"""What a container, an image or an archive must not reach: files of the machine through links, devices, setuid programs,
descriptors and uploads. Attacks that worked once and those that never did, by class."""

import contextlib
import io
import json
import os
import shutil
import socket
import statistics
import struct
import subprocess
import tarfile
import threading
import time

import pytest

import harness
import podkit
from podkit import create, pod, until

pytestmark = podkit.needs

NOBODY = 65534
MIB = 1 << 20


@pytest.fixture(scope="module")
def node(tmp_path_factory):
    daemon = podkit.start(tmp_path_factory.mktemp("attack"))
    os.chmod(daemon.socket_folder, 0o755)
    daemon.post("/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "nobody"}})
    yield daemon
    podkit.close(daemon)


def output(node, name, ns="default"):
    harness.wait(lambda: node.get(f"/api/v1/namespaces/{ns}/pods/{name}")["status"].get("phase") in ("Succeeded", "Failed"),
                 f"{name} has ended")
    return node.request("GET", f"/api/v1/namespaces/{ns}/pods/{name}/log").body.decode()


def over(found):
    """It has ended, or cannot start."""
    waiting = (found["status"].get("containerStatuses") or [{}])[0].get("state", {}).get("waiting", {})
    return found["status"].get("phase") in ("Failed", "Succeeded") or waiting.get("reason", "").endswith("Error")


def as_nobody(node, made, uid="nobody", gid="nogroup", ns="nobody"):
    """A pod that this user makes, by the socket."""
    harness.run(["setpriv", f"--reuid={uid}", f"--regid={gid}", "--clear-groups", "curl", "-sf", "--unix-socket",
                 node.socket, "-H", "Content-Type: application/json", "-d", json.dumps(made),
                 f"http://berth/api/v1/namespaces/{ns}/pods"]).ok()


def open_way(path):
    """pytest's folders are for one user alone."""
    for folder in (path, *path.parents):
        if not folder.stat().st_mode & 0o001:
            folder.chmod(folder.stat().st_mode | 0o011)


# ---- descriptors ----

def same_file(path):
    found = os.stat(path)
    return found.st_dev, found.st_ino, found.st_mode, found.st_uid, found.st_gid


@pytest.mark.parametrize("runtime", ["crun", "runc"])
def test_no_stream_of_a_container_is_a_file_of_the_machine(tmp_path, runtime):
    """crun gives the standard streams it inherits to the container's user: by run, exec, hooks and probes."""
    if not shutil.which(runtime, path="/usr/sbin:/usr/bin"):
        pytest.skip(f"there is no {runtime}")
    null = same_file("/dev/null")
    look = "stat -L -c '%d:%i' /proc/self/fd/0 /proc/self/fd/1 /proc/self/fd/2"
    command = {"exec": {"command": ["sh", "-c", f"{look} >>/tmp/seen"]}}
    node = podkit.start(tmp_path / "d", "--oci-runtime", runtime)
    try:
        create(node, pod("p", f"{look} >/tmp/seen; exec sleep 1000",
                         spec={"terminationGracePeriodSeconds": 0,
                               "securityContext": {"runAsUser": NOBODY, "runAsGroup": NOBODY}},
                         lifecycle={"postStart": command}, readinessProbe={**command, "periodSeconds": 1}))
        until(node, "p", lambda p: any(c["type"] == "Ready" and c["status"] == "True"
                                       for c in p["status"].get("conditions", [])), "is ready")
        node.kubectl("exec", "p", "--", "sh", "-c", f"{look} >>/tmp/seen; chmod 600 /proc/self/fd/0; true").ok()
        seen = node.kubectl("exec", "p", "--", "cat", "/tmp/seen").ok().split()
        assert len(seen) >= 12 and f"{null[0]}:{null[1]}" not in seen
        assert same_file("/dev/null") == null
    finally:
        podkit.close(node)


def test_a_kubeconfig_does_not_replace_a_device(node, tmp_path):
    null = same_file("/dev/null")
    assert "wrote /dev/null" in node.berth("kubeconfig", "--file", "/dev/null").err
    node.berth("history", "--export", "/dev/null").ok()
    assert same_file("/dev/null") == null
    assert "certificate-authority-data" in node.berth("kubeconfig", "--file", "/dev/stdout").ok()
    (tmp_path / "theirs").symlink_to("/etc/berth-attack")
    os.chown(tmp_path / "theirs", NOBODY, NOBODY, follow_symlinks=False)
    assert "symbolic link of user 65534" in node.berth("kubeconfig", "--file", tmp_path / "theirs").fails(1)
    assert not os.path.exists("/etc/berth-attack")


# ---- images ----

def archive(path, members):
    """A root file system: (name, type, link or text, mode), beside a busybox as /bin/sh."""
    with tarfile.open(path, "w") as tar:
        tar.add(shutil.which("busybox"), "bin/busybox")
        for name in ("sh", "id", "cat", "ls", "dd", "stat", "ln", "sleep", "chmod", "cp"):
            members = [(f"bin/{name}", tarfile.SYMTYPE, "busybox", 0o777), *members]
        for name, kind, text, mode in members:
            member = tarfile.TarInfo(name)
            member.type, member.mode, member.devmajor, member.devminor = kind, mode, 1, 1
            data = text.encode() if kind == tarfile.REGTYPE else b""
            member.size, member.linkname = len(data), "" if data else text
            tar.addfile(member, io.BytesIO(data))


def test_an_archive_does_not_write_outside_its_image(node, tmp_path):
    canary = tmp_path / "canary"
    canary.write_text("untouched")
    outside = os.path.relpath("/", "/x/y") + str(canary)
    R, S, L = tarfile.REGTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE
    hostile = {
        "up": [(f"../../../../../../../..{canary}", R, "planted", 0o644)],
        "absolute": [(str(canary), R, "planted", 0o644)],
        "through": [("out", S, "/", 0o777), (f"out{canary}", R, "planted", 0o644)],
        "step": [("a", S, "..", 0o777), ("a/b", S, "../../../../../../../..", 0o777), (f"a/b{canary}", R, "planted", 0o644)],
        "hard": [("h", L, str(canary), 0o644), ("h", R, "planted", 0o644)],
        "hardup": [("h", L, outside, 0o644), ("h", R, "planted", 0o644)],
        "over": [("x", S, str(canary), 0o777), ("x", R, "planted", 0o644)],
    }
    for name, members in hostile.items():
        archive(tmp_path / "a.tar", members)
        node.berth("image", "import", tmp_path / "a.tar", f"hostile-{name}:1", timeout=60)  # refused, or kept inside
        assert canary.read_text() == "untouched", name
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.tar", "canary"]


def test_a_device_in_an_image_cannot_be_opened(node, tmp_path):
    archive(tmp_path / "a.tar", [("memory", tarfile.CHRTYPE, "", 0o666), ("disk", tarfile.BLKTYPE, "", 0o666)])
    taken = node.berth("image", "import", tmp_path / "a.tar", "devices:1")
    if taken.code == 0:
        create(node, pod("devices", "for f in /memory /disk; do dd if=$f bs=1 count=1 of=/dev/null && echo OPEN; done; true",
                         image="devices:1", imagePullPolicy="Never"))
        assert "OPEN" not in output(node, "devices")


def test_a_setuid_program_of_an_image_makes_nobody_root(node, tmp_path):
    """A user's own image with a setuid shell, and a folder of the machine in which root could leave another."""
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o777)
    archive(tmp_path / "a.tar", [])
    with tarfile.open(tmp_path / "a.tar", "a") as tar:
        member = tar.gettarinfo(shutil.which("busybox"), "setuid/sh")
        member.mode, member.uid, member.gid = 0o6755, 0, 0
        with open(shutil.which("busybox"), "rb") as data:
            tar.addfile(member, data)
    node.berth("image", "import", tmp_path / "a.tar", "setuid:1").ok()
    open_way(tmp_path)
    made = pod("setuid", ["/setuid/sh", "-c", "cat /proc/self/status; cp /bin/busybox /h/sh; chmod 4755 /h/sh; cat /h/secret"],
               image="setuid:1", imagePullPolicy="Never",
               spec={"volumes": [{"name": "h", "hostPath": {"path": str(shared)}}]},
               volumeMounts=[{"name": "h", "mountPath": "/h"}])
    (shared / "secret").write_text("of root")
    (shared / "secret").chmod(0o600)
    as_nobody(node, made)
    said = output(node, "setuid", "nobody")
    assert "NoNewPrivs:\t1" in said and f"Uid:\t{NOBODY}\t{NOBODY}\t{NOBODY}\t{NOBODY}" in said and "of root" not in said
    assert not (shared / "sh").exists() or (shared / "sh").stat().st_uid == NOBODY


# ---- links and races below hostPath and subPath ----

def test_a_subpath_that_is_swapped_for_a_link_never_leads_out(node, tmp_path):
    """One container turns the folder into a link and back all the time; the other is started over and over."""
    secret = tmp_path / "secret"
    secret.mkdir()
    (secret / "word").write_text("REACHED")
    volume = [{"name": "v", "emptyDir": {}}]
    swap = f"""cd /v; mkdir real; ln -s {secret} link; ln -s / root; ln -s ../../../../../../../..{secret} up
        while :; do for l in link up root; do mv -T real x 2>/dev/null; cp -P $l sub.new; mv -T sub.new sub
        rm -f sub; mkdir -p sub; rmdir sub; done; done"""
    look = f"cat /s/word /s{secret}/word 2>/dev/null; exit 1"
    create(node, {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "race"},
                  "spec": {"restartPolicy": "Always", "terminationGracePeriodSeconds": 0, "volumes": volume,
                           "containers": [{"name": "swap", "image": "host", "command": ["sh", "-c", swap],
                                           "volumeMounts": [{"name": "v", "mountPath": "/v"}]}]}})
    until(node, "race", lambda p: p["status"].get("phase") == "Running", "runs")
    uid = podkit.get(node, "race")["metadata"]["uid"]
    place = node.data / "pods" / uid / "volumes" / "v"
    assert place.is_dir()
    tries = 12
    for i in range(tries):
        create(node, pod(f"race{i}", look, spec={"terminationGracePeriodSeconds": 0, "volumes": [
            {"name": "h", "hostPath": {"path": str(place)}}]},
            volumeMounts=[{"name": "h", "mountPath": "/s", "subPath": "sub"}]))
    for i in range(tries):
        until(node, f"race{i}", over, "has ended or cannot start", 60)
        assert "REACHED" not in node.kubectl("logs", f"race{i}").out
    node.kubectl("delete", "pod", "--all", "--grace-period=0", "--force").ok()


def test_a_host_path_is_opened_with_the_rights_of_its_user(node, tmp_path):
    """Links below a user's own folder that lead to root's."""
    own, closed = tmp_path / "own", tmp_path / "closed"
    for folder in (own, closed):
        folder.mkdir()
    (closed / "word").write_text("REACHED")
    closed.chmod(0o700)
    os.chown(own, NOBODY, NOBODY)
    (own / "link").symlink_to(closed)
    (own / "file").symlink_to(closed / "word")
    open_way(tmp_path)
    for name, path, sub in (("l1", own / "link", None), ("l2", own, "link"), ("l3", own / "file", None), ("l4", own, "file")):
        mount = {"name": "h", "mountPath": "/h", **({"subPath": sub} if sub else {})}
        as_nobody(node, pod(name, "cat /h /h/word", spec={"volumes": [{"name": "h", "hostPath": {"path": str(path)}}]},
                            volumeMounts=[mount]))
        harness.wait(lambda n=name: over(node.get(f"/api/v1/namespaces/nobody/pods/{n}")), f"{name} is refused")
        log = node.request("GET", f"/api/v1/namespaces/nobody/pods/{name}/log").body
        assert b"REACHED" not in log


def test_a_user_without_an_account_has_no_group_of_the_machine(node):
    """uid 42 is nobody's on many machines; group 42 is the one that may read /etc/shadow."""
    uid = next(n for n in range(42, 9999) if harness.run(["getent", "passwd", str(n)]).code)
    node.post("/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": f"uid-{uid}"}})
    as_nobody(node, pod("who", "id -u; id -G"), uid, uid, f"uid-{uid}")
    assert output(node, "who", f"uid-{uid}").split() == [str(uid), "65534"]


# ---- uploads and files ----

def upgrade(node, path, uid=None):
    """A socket after the upgrade, or the status and body of the refusal."""
    sock = socket.socket(socket.AF_UNIX)
    sock.settimeout(30)
    if uid is not None:
        os.setegid(uid)
        os.seteuid(uid)
    try:
        sock.connect(str(node.socket))
    finally:
        os.seteuid(0)
        os.setegid(0)
    sock.sendall(f"GET {path} HTTP/1.1\r\nHost: b\r\nConnection: Upgrade\r\nUpgrade: berth-stream\r\n\r\n".encode())
    return sock


def answer_of(sock):
    """Status and text of an answer; of an error its body, too."""
    with sock.makefile("rb") as lines:
        text, length = lines.readline(), 0
        for line in iter(lines.readline, b"\r\n"):
            text += line
            if line.lower().startswith(b"content-length:"):
                length = int(line.split(b":")[1])
        return int(text.split()[1]), text + (lines.read(length) if length else b"")


@pytest.mark.plain  # about times
def test_connections_for_files_have_a_share_and_hold_up_nobody(node):
    times, over = [], threading.Event()

    def others():
        while not over.is_set():
            begun = time.monotonic()
            assert node.request("GET", "/healthz", via="http").code == 200
            times.append(time.monotonic() - begun)

    thread = threading.Thread(target=others)
    thread.start()
    try:
        socks = [upgrade(node, "/v1/files", NOBODY) for _ in range(100)]
        answers = [answer_of(s) for s in socks]
    finally:
        over.set()
        thread.join()
    codes = [code for code, _ in answers]
    assert codes.count(101) == 16 and codes.count(429) == 84
    assert b"too many connections for files at once: 16 for each user" in next(t for c, t in answers if c == 429)
    assert statistics.quantiles(times, n=100)[98] < 0.1
    other = upgrade(node, "/v1/files")  # somebody else has a share of their own
    assert answer_of(other)[0] == 101
    other.sendall(b'{"op":"stat","path":"/"}\n')
    assert json.loads(other.recv(4096))["type"] == "dir"
    for sock in [*socks, other]:
        sock.close()

    def free_again():
        with contextlib.closing(upgrade(node, "/v1/files", NOBODY)) as again:
            return answer_of(again)[0] == 101
    harness.wait(free_again, "places are given back")


def test_pulls_that_are_watched_have_a_share(node):
    """From a registry that takes connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        name = f"127.0.0.1:{silent.getsockname()[1]}/a/b"
        socks = []
        for i in range(20):
            sock = socket.socket(socket.AF_UNIX)
            sock.settimeout(30)
            sock.connect(str(node.socket))
            sock.sendall(f"POST /v1/images/pull?name={name}:{i} HTTP/1.1\r\nHost: b\r\nContent-Length: 0\r\n\r\n".encode())
            socks.append(sock)
        answers = [answer_of(s) for s in socks]
        assert [c for c, _ in answers].count(200) == 16 and [c for c, _ in answers].count(429) == 4
        assert b"too many pulls at once: 16 for each user" in next(t for c, t in answers if c == 429)
        for sock in socks:
            sock.close()


def test_an_import_leaves_the_disk_above_the_eviction_mark(tmp_path):
    image, folder = tmp_path / "disk.img", tmp_path / "disk"
    with open(image, "wb") as out:
        out.truncate(400 * MIB)
    made = subprocess.run(["mkfs.ext4", "-q", image], capture_output=True, check=False)
    folder.mkdir()
    if made.returncode or subprocess.run(["mount", "-o", "loop", image, folder], capture_output=True, check=False).returncode:
        pytest.skip("no ext4 in a file here")
    try:
        node = podkit.start(folder)
        try:
            disk = os.statvfs(folder)
            mark = disk.f_blocks * disk.f_frsize // 10
            socks = [upgrade(node, f"/v1/images/import?name=big{i}") for i in range(4)]
            assert [answer_of(s)[0] for s in socks] == [101] * 4
            fifth = upgrade(node, "/v1/images/import?name=big5")
            code, text = answer_of(fifth)
            assert code == 429 and b"too many imports at once: 4 for each user" in text
            said, least = [], []

            def send(sock):
                frame = struct.pack(">I", MIB) + os.urandom(MIB)
                try:
                    for _ in range(400):
                        sock.sendall(frame)
                except OSError:
                    pass
                with contextlib.suppress(OSError):
                    said.append(sock.recv(4096))

            threads = [threading.Thread(target=send, args=(s,)) for s in socks]
            for thread in threads:
                thread.start()
            while any(t.is_alive() for t in threads):
                now = os.statvfs(folder)
                least.append(now.f_bavail * now.f_frsize)
                threads[0].join(0.01)
            for thread in threads:
                thread.join()
            assert min(least) >= mark
            assert any(b"fail no space: the archive does not fit on the disk of the server" in s for s in said)
            harness.wait(lambda: not list((node.data / "incoming").iterdir()), "the archives are gone")
            for sock in [*socks, fifth]:
                sock.close()
        finally:
            podkit.close(node)
    finally:
        subprocess.run(["umount", folder], check=True)


def test_what_a_pod_hides_in_deep_folders_is_measured(tmp_path):
    """Paths longer than a path can be: made step by step."""
    node = podkit.start(tmp_path / "d")
    try:
        script = """import os
os.chdir('/e')
for i in range(60):
    os.mkdir('x' * 200); os.chdir('x' * 200)
open('big', 'wb').write(b'1' * (8 << 20)); import time; time.sleep(1000)"""
        create(node, pod("deep", ["python3", "-c", script], spec={
            "terminationGracePeriodSeconds": 0, "volumes": [{"name": "e", "emptyDir": {"sizeLimit": "4Mi"}}]},
            volumeMounts=[{"name": "e", "mountPath": "/e"}]))
        found = until(node, "deep", lambda p: p["status"].get("reason") == "Evicted", "is evicted", 60)
        assert 'Usage of EmptyDir volume "e" exceeds the limit "4Mi"' in found["status"]["message"]
    finally:
        podkit.close(node)
