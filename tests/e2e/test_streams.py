"""exec, attach, logs, port-forward and cp with every real kubectl there is, and with berth, against
tests/stream-server: berthd's API with pods that are faked by processes of this machine."""

import base64
import concurrent.futures
import contextlib
import fcntl
import hashlib
import http.client
import http.server
import io
import json
import os
import pathlib
import pty
import re
import select
import signal
import socket
import struct
import subprocess
import tarfile
import termios
import threading
import time

import pytest

import harness

SERVER = harness.BUILD / "src" / "api" / "stream_server"
# Sanitizer runs: the oldest and the newest.
VERSIONS = harness.edge_kubectls() if os.environ.get("BERTH_FEW_KUBECTLS") else list(harness.kubectls()) or [None]
NS = "/api/v1/namespaces/default"


class StreamServer(harness.Daemon):
    """stream_server in place of berthd: the same ways to ask it."""

    def __init__(self, folder):
        super().__init__(folder, start=False)
        self.logs = self.folder / "logs"
        self.logs.mkdir()
        self.pki = self._make_pki()
        self.programs = self.folder / "programs"  # what pods find before the machine's own
        self.programs.mkdir()
        with open(self.log_path, "ab") as log:
            self.process = subprocess.Popen([str(SERVER), str(self.logs), self.socket, str(self.pki)],
                                            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log,
                                            cwd=self.folder,
                                            env={**os.environ, "PATH": f"{self.programs}:{os.environ['PATH']}"})
        line = self._read_ready_line(harness.START_SEC)
        self.http, self.https = re.fullmatch(r"ready: (http://\S+) (https://\S+)", line).groups()
        self.post("/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace",
                                         "metadata": {"name": "default"}})
        self.config = self.folder / "kubeconfig"
        self.config.write_text(json.dumps({
            "apiVersion": "v1", "kind": "Config", "current-context": "c",
            "clusters": [{"name": "c", "cluster": {"server": self.https,
                                                   "certificate-authority": str(self.pki / "ca.crt")}}],
            "users": [{"name": "u", "user": {"client-certificate": str(self.pki / "admin.crt"),
                                             "client-key": str(self.pki / "admin.key")}}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u", "namespace": "default"}}]}))
        for name in ("web", "two", "waiting-1", "stopped-1"):
            self.add_pod(name, ["main", "side"] if name == "two" else ["main"])

    def _make_pki(self):
        """A folder with a CA, and a server's and an admin's certificate of it."""
        folder = self.folder / "pki"
        folder.mkdir()
        (folder / "ext").write_text("subjectAltName=IP:127.0.0.1\n")
        key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
        harness.run(["openssl", "req", "-x509", *key, "-subj", "/CN=ca", "-days", "2", "-keyout", "ca.key",
                     "-out", "ca.crt"], cwd=folder).ok()
        for name, subject in (("server", "/CN=server"), ("admin", "/O=system:masters/CN=system:admin")):
            harness.run(["openssl", "req", *key, "-subj", subject, "-keyout", f"{name}.key",
                         "-out", f"{name}.csr"], cwd=folder).ok()
            harness.run(["openssl", "x509", "-req", "-in", f"{name}.csr", "-CA", "ca.crt", "-CAkey", "ca.key",
                         "-CAcreateserial", "-days", "2", "-extfile", "ext", "-out", f"{name}.crt"],
                        cwd=folder).ok()
        return folder

    kubeconfig = property(lambda self: self.config)

    def _forget(self):
        self.process.stdin.close()
        super()._forget()

    def add_pod(self, name, containers=("main",)):
        self.post(f"{NS}/pods", {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
                                 "spec": {"nodeName": "here",
                                          "containers": [{"name": c, "image": "x"} for c in containers]}})
        self.request("PATCH", f"{NS}/pods/{name}/status", json.dumps({"status": {
            "phase": "Running", "containerStatuses": [
                {"name": c, "image": "x", "imageID": "", "ready": True, "restartCount": 0,
                 "state": {"running": {"startedAt": "2026-01-02T03:04:05Z"}}} for c in containers]}}),
            headers={"Content-Type": "application/merge-patch+json"})

    def command(self, version, *args):
        """Argument list and environment of a kubectl, or of berth where version is "berth"."""
        if version == "berth":
            return [harness.BERTH, *args], self.program_env(BERTH_SERVER=f"unix:{self.socket}")
        env = self.program_env()
        return [harness.kubectl_path(version), "--cache-dir", env["KUBECACHEDIR"], *args], env

    def do(self, version, *args, stdin=None, timeout=60, cwd=None):
        """Runs it with bytes; returns status, stdout, stderr. A kubectl of 1.31 drops what comes before it has made
        its streams, and says so; that is its own race, so it is asked again."""
        command, env = self.command(version, *args)
        for _ in range(5):
            done = subprocess.run([str(a) for a in command], input=stdin, env=env, timeout=timeout, cwd=cwd,
                                  stdin=subprocess.DEVNULL if stdin is None else None, capture_output=True,
                                  check=False)
            if b"Unknown stream id" not in done.stderr:
                break
        return done.returncode, done.stdout, done.stderr

    @contextlib.contextmanager
    def started(self, version, *args, **more):
        """The program under way; ended when the block ends."""
        command, env = self.command(version, *args)
        process = subprocess.Popen([str(a) for a in command], env=env, **more)
        try:
            yield process
        finally:
            if process.poll() is None:
                process.kill()
            process.wait()
            for stream in (process.stdin, process.stdout, process.stderr):
                if stream:
                    stream.close()

    def finish(self, pod):
        self.process.stdin.write(f"finish {pod}\n".encode())
        self.process.stdin.flush()

    def children(self):
        """Commands that the server has running."""
        text = pathlib.Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text()
        return text.split()


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    if not SERVER.exists():
        pytest.skip("this build has no stream_server")
    with StreamServer(tmp_path_factory.mktemp("streams")) as running:
        yield running


@pytest.fixture(params=[*VERSIONS, "berth"])
def k(request):
    """Who asks: a version of kubectl, or berth."""
    return request.param


def read_until(fd, text, timeout=20):
    """What comes from fd until text is in it."""
    got, deadline = b"", time.monotonic() + timeout
    while text not in got:
        left = deadline - time.monotonic()
        assert left > 0 and select.select([fd], [], [], left)[0], f"no {text!r} in {got!r}"
        piece = os.read(fd, 65536)
        assert piece, f"no {text!r} in {got!r}"
        got += piece
    return got


def noise(size):
    """Bytes of every value, the same each time."""
    return hashlib.shake_128(b"berth").digest(size)


# ---- exec ----

def test_exec_gives_both_outputs_apart(server, k):
    code, out, err = server.do(k, "exec", "web", "--", "sh", "-c", "echo out; echo err >&2")
    assert (code, out, err) == (0, b"out\n", b"err\n")


@pytest.mark.parametrize("status", [1, 3, 255])
def test_exit_codes_are_passed_on(server, k, status):
    assert server.do(k, "exec", "web", "--", "sh", "-c", f"exit {status}")[0] == status


def test_a_signal_is_128_and_its_number(server, k):
    assert server.do(k, "exec", "web", "--", "sh", "-c", "kill -KILL $$")[0] == 137


def test_stdin_reaches_the_command_and_its_end_too(server, k):
    code, out, _ = server.do(k, "exec", "-i", "web", "--", "sh", "-c", "cat; echo end", stdin=b"hello\n")
    assert (code, out) == (0, b"hello\nend\n")


def test_without_i_stdin_is_empty(server, k):
    assert server.do(k, "exec", "web", "--", "cat", stdin=b"not sent")[:2] == (0, b"")


def test_large_output_arrives_whole(server, k):
    code, out, _ = server.do(k, "exec", "web", "--", "head", "-c", "20000000", "/dev/zero")
    assert code == 0 and len(out) == 20000000


def test_large_stdin_comes_back_whole(server, k):
    data = noise(8 << 20)
    code, out, _ = server.do(k, "exec", "-i", "web", "--", "cat", stdin=data)
    assert code == 0 and hashlib.sha256(out).digest() == hashlib.sha256(data).digest()


def test_arguments_arrive_as_they_are(server, k):
    words = ["a b", "", "ü", "%41&x=1", "--", "+"]
    _, out, _ = server.do(k, "exec", "web", "--", "printf", "<%s>", *words)
    assert out.decode() == "".join(f"<{w}>" for w in words)


def test_the_second_container_can_be_named(server, k):
    assert server.do(k, "exec", "two", "-c", "side", "--", "echo", "here")[1] == b"here\n"


def test_a_command_that_cannot_start_is_told(server, k):
    code, _, err = server.do(k, "exec", "web", "--", "/no/such/program")
    assert code != 0 and b"no such file or directory" in err


def test_a_container_that_does_not_run_is_told(server, k):
    code, _, err = server.do(k, "exec", "stopped-1", "--", "true")
    assert code != 0 and b'container not found ("main")' in err


def test_a_pod_that_is_not_there_is_told(server, k):
    code, _, err = server.do(k, "exec", "nobody", "--", "true")
    assert code != 0 and (b'"nobody" not found' in err or err.startswith(b"berth: there is no pod, job,"))


def test_a_terminal_has_a_size_echo_and_an_exit_code(server, k):
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 33, 77, 0, 0))
    with server.started(k, "exec", "-it", "web", "--", "sh", "-c",
                        # a change of size may interrupt a read
                        "trap 'stty size' WINCH; echo ready; until read x; do :; done; stty size; echo \"got:$x\"; "
                        "until read y; do :; done; exit 7", stdin=slave, stdout=slave, stderr=slave,
                        start_new_session=True) as process:
        os.close(slave)
        read_until(master, b"ready")
        os.write(master, b"word\r")
        assert b"33 77" in read_until(master, b"got:word")
        fcntl.ioctl(master, termios.TIOCSWINSZ, struct.pack("HHHH", 44, 88, 0, 0))
        os.kill(process.pid, signal.SIGWINCH)
        os.write(master, b"\r")
        assert process.wait(20) == 7
    os.close(master)


def test_ctrl_c_on_a_terminal_goes_to_the_command(server, k):
    master, slave = pty.openpty()
    with server.started(k, "exec", "-it", "web", "--", "sh", "-c", "trap 'echo caught; exit 9' INT; echo ready; "
                        "while read x; do :; done", stdin=slave, stdout=slave, stderr=slave,
                        start_new_session=True) as process:
        os.close(slave)
        read_until(master, b"ready")
        os.write(master, b"\x03")
        read_until(master, b"caught")
        assert process.wait(20) == 9
    os.close(master)


def test_twenty_at_once(server):
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        jobs = [pool.submit(server.do, VERSIONS[i % len(VERSIONS)], "exec", "-i", "web", "--", "sh", "-c",
                            f"cat; exit {i}", stdin=str(i).encode() * 10000) for i in range(20)]
        for i, job in enumerate(jobs):
            assert job.result()[:2] == (i, str(i).encode() * 10000)


def test_a_slow_reader_stops_the_command_and_loses_nothing(server, k):
    """The command is held up by what its reader has not read, then goes on."""
    with server.started(k, "exec", "web", "--", "sh", "-c", "head -c 50000000 /dev/zero; echo done >&2",
                        stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        first = process.stdout.read(1000)
        assert len(first) == 1000
        assert not select.select([process.stderr], [], [], 0.3)[0]  # it has not come to its end
        rss = int(re.search(r"VmRSS:\s+(\d+)", pathlib.Path(
            f"/proc/{server.process.pid}/status").read_text())[1])
        assert rss < (150 << 10 if "asan" not in str(harness.BUILD) else 1 << 20)
        assert len(process.stdout.read()) == 50000000 - 1000
        assert process.wait(20) == 0


def test_a_command_that_reads_nothing_does_not_fill_the_server(server, k):
    """50 MB for a command that never reads: the client is held up, and ends when the command does."""
    code, _, _ = server.do(k, "exec", "-i", "web", "--", "sh", "-c", "exec 3<&0; sleep 0.5; exit 4",
                           stdin=bytes(50 << 20))
    assert code == 4


def test_a_client_that_is_killed_leaves_nothing_behind(server, k):
    before = len(server.children())
    with server.started(k, "exec", "-i", "web", "--", "sh", "-c", "echo ready; exec cat", stdin=subprocess.PIPE,
                        stdout=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"ready\n"
        assert len(server.children()) == before + 1
        process.kill()
    harness.wait(lambda: len(server.children()) == before, "the command of a client that has left is over")


def test_a_client_killed_while_output_floods(server, k):
    before = len(server.children())
    with server.started(k, "exec", "web", "--", "cat", "/dev/zero", stdout=subprocess.PIPE) as process:
        process.stdout.read(1 << 20)
        process.kill()
    harness.wait(lambda: len(server.children()) == before, "the flooding command is over")


# ---- attach ----

def test_attach_gives_output_and_takes_stdin(server, k):
    code, out, _ = server.do(k, "attach", "-i", "web", stdin=b"to main\n")
    assert code == 0 and b"attached\n" in out and b"to main\n" in out


# ---- logs ----

def entries(server, pod, lines):
    with open(server.logs / f"{pod}.log", "ab") as log:
        log.write(b"".join(line + b"\n" for line in lines))


@pytest.fixture
def logged(server):
    """A pod with ten lines, one a second from 03:04:00 on."""
    (server.logs / "web.log").unlink(missing_ok=True)
    entries(server, "web", [b"2026-01-02T03:04:%02d.5Z stdout F line %d" % (i, i) for i in range(10)])
    return "web"


@pytest.mark.parametrize("flags, wanted", [
    ([], b"".join(b"line %d\n" % i for i in range(10))),
    (["--tail=2"], b"line 8\nline 9\n"),
    (["--tail=0"], b""),
    (["--limit-bytes=9"], b"line 0\nli"),
    (["--since-time=2026-01-02T03:04:08Z"], b"line 8\nline 9\n"),
    (["--since=1s"], b""),
    (["--tail=1", "--timestamps"], b"2026-01-02T03:04:09.5Z line 9\n"),
    (["-c", "main", "--tail=1"], b"line 9\n"),
])
def test_logs(server, k, logged, flags, wanted):
    code, out, err = server.do(k, "logs", logged, *flags)
    assert (code, out) == (0, wanted), err


def test_logs_are_bytes(server, k):
    (server.logs / "two.log").unlink(missing_ok=True)
    entries(server, "two", [b"2026-01-02T03:04:05Z stdout P \x00\xff\xfe", b"2026-01-02T03:04:05Z stdout F \r\x1b[1m"])
    assert server.do(k, "logs", "two", "-c", "main")[1] == b"\x00\xff\xfe\r\x1b[1m\n"


def test_previous_logs(server, k):
    code, _, err = server.do(k, "logs", "web", "--previous")
    assert code != 0 and b'previous terminated container "main" in pod "web" not found' in err
    (server.logs / "web.previous.log").write_bytes(b"2026-01-02T03:04:05Z stdout F before\n")
    assert server.do(k, "logs", "web", "--previous")[1] == b"before\n"
    (server.logs / "web.previous.log").unlink()


def test_logs_of_a_container_that_is_being_created(server, k):
    code, _, err = server.do(k, "logs", "waiting-1")
    assert code != 0 and b'container "main" in pod "waiting-1" is waiting to start: ContainerCreating' in err


def test_following_goes_through_a_rotation_to_the_end_of_the_container(server, k, logged):
    with server.started(k, "logs", "-f", "--tail=1", logged, stdout=subprocess.PIPE) as process:
        read_until(process.stdout.fileno(), b"line 9\n")
        entries(server, logged, [b"2026-01-02T03:05:00Z stdout F more"])
        read_until(process.stdout.fileno(), b"more\n")
        os.rename(server.logs / "web.log", server.logs / "web.log.1")
        entries(server, logged, [b"2026-01-02T03:05:01Z stdout F rotated"])
        read_until(process.stdout.fileno(), b"rotated\n")
        server.finish(logged)
        assert process.wait(20) == 0
    (server.logs / "web.log.1").unlink()


def test_a_large_log_arrives_whole(server, k):
    (server.logs / "two.log").write_bytes(b"2026-01-02T03:04:05Z stdout F " + b"x" * 99 + b"\n")
    with open(server.logs / "two.log", "ab") as log:
        log.write((b"2026-01-02T03:04:05Z stdout F " + b"x" * 99 + b"\n") * 199999)
    code, out, _ = server.do(k, "logs", "two", "-c", "main")
    assert code == 0 and len(out) == 20000000


# ---- port-forward ----

class Web(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        body = noise(int(self.path.strip("/") or 0))
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        answer = hashlib.sha256(body).hexdigest().encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_):
        pass


@pytest.fixture(scope="module")
def web():
    """The port of an HTTP server on loopback."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Web) as running:
        thread = threading.Thread(target=running.serve_forever)
        thread.start()
        yield running.server_address[1]
        running.shutdown()
        thread.join()


@contextlib.contextmanager
def forwarded(server, k, port):
    """The local port that leads there, and the program that does it."""
    with server.started(k, "port-forward", "pod/web", f":{port}", stdout=subprocess.PIPE,
                        stderr=subprocess.STDOUT) as process:
        line = read_until(process.stdout.fileno(), b"\n")
        yield int(re.search(rb"127\.0\.0\.1:(\d+) ->", line)[1]), process


def fetch(port, method, path, body=None):
    with contextlib.closing(http.client.HTTPConnection("127.0.0.1", port, timeout=30)) as connection:
        connection.request(method, path, body=body)
        return connection.getresponse().read()


def test_port_forward_carries_requests(server, k, web):
    with forwarded(server, k, web) as (port, _):
        assert fetch(port, "GET", "/10") == noise(10)
        assert fetch(port, "GET", "/5000000") == noise(5000000)
        data = noise(5000000)
        assert fetch(port, "POST", "/", data).decode() == hashlib.sha256(data).hexdigest()


def test_port_forward_carries_many_at_once(server, k, web):
    with forwarded(server, k, web) as (port, _), concurrent.futures.ThreadPoolExecutor(8) as pool:
        for got in pool.map(lambda _: fetch(port, "GET", "/100000"), range(40)):
            assert got == noise(100000)


def test_a_client_that_leaves_in_the_middle_does_not_disturb_others(server, web):
    """Not of kubectl: it stops reading its connection when it has data for a stream that nobody reads (its
    spdystream; all versions, against Kubernetes as well)."""
    with forwarded(server, "berth", web) as (port, _):
        with contextlib.closing(socket.create_connection(("127.0.0.1", port), 20)) as rude:
            rude.sendall(b"GET /5000000 HTTP/1.1\r\nHost: x\r\n\r\n")
            assert rude.recv(100)
        assert fetch(port, "GET", "/1000") == noise(1000)


def closed_port():
    with contextlib.closing(socket.create_server(("127.0.0.1", 0))) as free:
        return free.getsockname()[1]


def test_a_closed_port_is_told(server, k):
    with forwarded(server, k, closed_port()) as (port, process):
        with contextlib.closing(socket.create_connection(("127.0.0.1", port), 20)) as client:
            assert client.recv(1) == b""
        read_until(process.stdout.fileno(), b"onnection refused")


# ---- cp ----

def test_cp_of_a_file_both_ways(server, k, tmp_path):
    data = noise(3000000)
    (tmp_path / "in.bin").write_bytes(data)
    there = tmp_path / "there.bin"
    code, _, err = server.do(k, "cp", "in.bin", f"web:{there}", cwd=tmp_path)
    assert code == 0 and there.read_bytes() == data, err
    code, _, err = server.do(k, "cp", f"web:{there}", "back.bin", cwd=tmp_path)
    assert code == 0 and (tmp_path / "back.bin").read_bytes() == data, err


def test_cp_of_a_folder_both_ways(server, k, tmp_path):
    (tmp_path / "src" / "sub").mkdir(parents=True)
    (tmp_path / "src" / "a").write_text("1")
    (tmp_path / "src" / "sub" / "b c").write_text("2")
    there = tmp_path / "there"
    code, _, err = server.do(k, "cp", "src", f"web:{there}", cwd=tmp_path)
    assert code == 0 and (there / "sub" / "b c").read_text() == "2", err
    code, _, err = server.do(k, "cp", f"web:{there}", "back", cwd=tmp_path)
    assert code == 0 and (tmp_path / "back" / "sub" / "b c").read_text() == "2", err


def test_cp_into_a_folder_keeps_the_name(server, k, tmp_path):
    (tmp_path / "f").write_text("x")
    (tmp_path / "dir").mkdir()
    code, _, err = server.do(k, "cp", "f", f"web:{tmp_path}/dir", cwd=tmp_path)
    assert code == 0 and (tmp_path / "dir" / "f").read_text() == "x", err


def hostile_cp(server, tmp_path, members, to="results"):
    """`berth cp web:/results TO` in tmp_path/home, where the pod's tar sends these: (name, type, link, mode)."""
    archive, home = tmp_path / "a.tar", tmp_path / "home"
    home.mkdir(exist_ok=True)
    with tarfile.open(archive, "w") as tar:
        for name, kind, link, mode in members:
            member = tarfile.TarInfo(name)
            member.type, member.linkname, member.mode, member.devmajor, member.devminor = kind, link, mode, 1, 3
            member.size = 1 if kind == tarfile.REGTYPE else 0
            tar.addfile(member, io.BytesIO(b"x"))
    fake = server.programs / "tar"
    fake.write_text(f"#!/bin/sh\nexec cat {archive}\n")
    fake.chmod(0o755)
    try:
        code, _, err = server.do("berth", "cp", "web:/results", to, cwd=home)
        return home, code, err.decode()
    finally:
        fake.unlink()
        archive.unlink()


def below(folder):
    return [str(p.relative_to(folder)) for p in sorted(folder.rglob("*"))]


def test_cp_takes_from_a_pod_only_what_was_asked_for(server, tmp_path):
    """The pod's tar may send what it likes: files beside the target, above it, with rights of their own."""
    home, _, _ = hostile_cp(server, tmp_path, [
        (name, tarfile.REGTYPE, "", 0o6755)
        for name in ("results/good", ".bashrc", "results/../.profile", "../above", str(tmp_path / "absolute"))])
    assert below(home) == ["results", "results/good"]
    assert (home / "results" / "good").stat().st_mode & 0o7777 == 0o755
    assert [p.name for p in tmp_path.iterdir()] == ["home"]


def test_cp_takes_no_devices_pipes_setuid_folders_and_links_that_lead_out(server, tmp_path):
    home, code, err = hostile_cp(server, tmp_path, [
        ("results", tarfile.DIRTYPE, "", 0o7700),
        ("results/sub", tarfile.DIRTYPE, "", 0o2000),
        ("results/sub/file", tarfile.REGTYPE, "", 0o644),
        ("results/disk", tarfile.CHRTYPE, "", 0o666),
        ("results/block", tarfile.BLKTYPE, "", 0o666),
        ("results/pipe", tarfile.FIFOTYPE, "", 0o666),
        ("results/shadow", tarfile.LNKTYPE, "/etc/shadow", 0o644),
        ("results/inside", tarfile.SYMTYPE, "sub/file", 0o777),
        ("results/sub/up", tarfile.SYMTYPE, "../sub/file", 0o777),
        ("results/etc", tarfile.SYMTYPE, "/etc", 0o777),
        ("results/sub/out", tarfile.SYMTYPE, "../../home", 0o777),
        ("results/sub/top", tarfile.SYMTYPE, "..", 0o777),
        ("results/way", tarfile.SYMTYPE, "sub/top/../..", 0o777)])
    assert below(home) == ["results", "results/inside", "results/sub", "results/sub/file", "results/sub/top",
                           "results/sub/up"]
    assert (home / "results").stat().st_mode & 0o7000 == 0 and (home / "results/sub").stat().st_mode & 0o7700 == 0o700
    assert "skipped etc: a link that leads out of what is copied" in err and code != 0  # the hard link has no file


def test_cp_does_not_write_through_links_that_an_earlier_copy_left(server, tmp_path):
    other = tmp_path / "other"
    other.mkdir()
    home, code, err = hostile_cp(server, tmp_path, [("results/kept", tarfile.REGTYPE, "", 0o644)])
    assert code == 0, err
    (home / "results" / "link").symlink_to(other)
    (home / "results" / "file").symlink_to(other / "file")
    home, code, err = hostile_cp(server, tmp_path, [
        ("results", tarfile.DIRTYPE, "", 0o755), ("results/file", tarfile.REGTYPE, "", 0o644),
        ("results/link", tarfile.DIRTYPE, "", 0o755), ("results/link/planted", tarfile.REGTYPE, "", 0o644)], ".")
    assert code != 0 and "link is there already and is no folder" in err
    assert below(other) == [] and (home / "results" / "kept").exists()
    assert [p.name for p in home.iterdir()] == ["results"]


def test_cp_replaces_no_device_and_leaves_nothing_when_it_is_interrupted(server, tmp_path):
    (tmp_path / "home").mkdir()
    os.mkfifo(tmp_path / "home" / "pipe")
    home, code, err = hostile_cp(server, tmp_path, [("results", tarfile.REGTYPE, "", 0o644)], "pipe")
    assert code != 0 and "is there already and is no file" in err and below(home) == ["pipe"]
    fake = server.programs / "tar"
    fake.write_text("#!/bin/sh\nexec sleep 1000\n")
    fake.chmod(0o755)
    command, env = server.command("berth", "cp", "web:/results", ".")
    process = subprocess.Popen([str(a) for a in command], env=env, cwd=home)
    try:
        harness.wait(lambda: len(below(home)) > 1, "the fresh folder is there")
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == -signal.SIGTERM
        harness.wait(lambda: below(home) == ["pipe"], "nothing is left")
    finally:
        process.kill()
        fake.unlink()


def test_cp_of_what_is_not_there_fails(server, tmp_path):
    """kubectl says so as well, but ends with 0."""
    assert server.do("berth", "cp", "web:/no/such/file", str(tmp_path / "x"))[0] != 0


# ---- the wire itself ----

def upgrade(server, path, headers, method="POST"):
    """A socket on which that was asked, and the head of the answer."""
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    sock.settimeout(20)
    sock.connect(server.socket)
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers)
    sock.sendall(f"{method} {NS}/pods/{path} HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\n{lines}\r\n".encode())
    head = b""
    while b"\r\n\r\n" not in head:
        piece = sock.recv(65536)
        assert piece, head
        head += piece
    return sock, head


WEBSOCKET = [("Upgrade", "websocket"), ("Sec-WebSocket-Version", "13"),
             ("Sec-WebSocket-Key", base64.b64encode(bytes(16)).decode())]


def test_no_protocol_in_common_is_403(server):
    sock, head = upgrade(server, "web/exec?command=true&stdout=1",
                         [("Upgrade", "SPDY/3.1"), ("X-Stream-Protocol-Version", "v9.channel.k8s.io")])
    with sock:
        assert head.startswith(b"HTTP/1.1 403")
        assert head.count(b"X-Accepted-Stream-Protocol-Versions: ") == 4
    sock, head = upgrade(server, "web/exec?command=true&stdout=1",
                         [*WEBSOCKET, ("Sec-WebSocket-Protocol", "v9.channel.k8s.io")], "GET")
    with sock:
        assert head.startswith(b"HTTP/1.1 403")


def test_no_upgrade_and_no_stream_are_400(server):
    for query in ("exec?command=true&stdout=1", "exec?command=true", "exec?stdout=1"):
        answer = server.request("POST", f"{NS}/pods/web/{query}")
        assert answer.code == 400 and answer.json()["reason"] == "BadRequest"


def test_a_text_message_is_refused(server):
    sock, head = upgrade(server, "web/exec?command=cat&stdin=1",
                         [*WEBSOCKET, ("Sec-WebSocket-Protocol", "v5.channel.k8s.io")], "GET")
    with sock:
        assert head.startswith(b"HTTP/1.1 101") and b"Sec-WebSocket-Protocol: v5.channel.k8s.io" in head
        sock.sendall(b"\x81\x81\0\0\0\0x")
        data = b""
        while piece := sock.recv(65536):
            data += piece
        assert b"\x03\xeb" in data  # 1003


def test_streams_that_do_not_come_end_with_the_client(server):
    sock, head = upgrade(server, "web/portforward",
                         [("Upgrade", "SPDY/3.1"), ("X-Stream-Protocol-Version", "portforward.k8s.io")])
    with sock:
        assert head.startswith(b"HTTP/1.1 101")
        sock.sendall(b"\x80\x03\x00\x06\x00\x00\x00\x04\x00\x00\x00\x01")  # PING 1
        assert sock.recv(100) == b"\x80\x03\x00\x06\x00\x00\x00\x04\x00\x00\x00\x01"
        sock.sendall(b"\x80\x03\x00\x01\x00\x00\x00\x0a" + bytes(10))  # a SYN_STREAM without headers
        data = b""
        while piece := sock.recv(65536):
            data += piece
        assert data[:4] == b"\x80\x03\x00\x07"  # GOAWAY
