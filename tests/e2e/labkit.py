"""What tests of images, of guides and of several people share: registries on loopback, people with accounts on
this machine, images built from busybox without the internet."""

import contextlib
import http.server
import json
import os
import pathlib
import pwd
import shutil
import socket
import subprocess
import threading

import harness

BASE = "berth/base:busybox"


def missing(*programs):
    """What of these is not installed, in words; None: nothing."""
    lacking = [p for p in programs if not shutil.which(p)]
    return f"not installed: {', '.join(lacking)}" if lacking else None


def free_port():
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return sock.getsockname()[1]


class Registry:
    """Debian's docker-registry on a free port; users {"name": "password"}, none: everybody may; tls: with a certificate
    that `self.ca` vouches for."""

    def __init__(self, folder, users=None, tls=False):
        self.folder = pathlib.Path(folder)
        self.folder.mkdir(parents=True)
        self.host = f"127.0.0.1:{free_port()}"
        config = {"version": 0.1, "storage": {"filesystem": {"rootdirectory": str(self.folder / "data")}},
                  "http": {"addr": self.host}, "log": {"level": "error"}}
        if tls:
            self.ca = self.folder / "ca.pem"
            harness.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                         "-days", "2", "-subj", "/CN=lab", "-addext", "subjectAltName=IP:127.0.0.1",
                         "-keyout", self.folder / "key.pem", "-out", self.ca]).ok()
            config["http"]["tls"] = {"certificate": str(self.ca), "key": str(self.folder / "key.pem")}
        if users:
            lines = [harness.run(["htpasswd", "-Bbn", *pair]).ok().strip() for pair in users.items()]
            (self.folder / "users").write_text("\n".join(lines) + "\n")
            config["auth"] = {"htpasswd": {"realm": "lab", "path": str(self.folder / "users")}}
        (self.folder / "config.yml").write_text(json.dumps(config))
        self.process = None
        self.start()

    def start(self):
        with open(self.folder / "log", "ab") as log:
            self.process = subprocess.Popen(["docker-registry", "serve", str(self.folder / "config.yml")],
                                            stdout=log, stderr=log)
        address = self.host.split(":")

        def answers():
            with contextlib.suppress(OSError), socket.create_connection((address[0], int(address[1])), 1):
                return True
            return False
        harness.wait(answers, "the registry listens")

    def stop(self):
        self.process.terminate()
        self.process.wait(10)


class FakeRegistry:
    """One image under any name. Its layer (the same of all but "drip") is other bytes than promised ("lie"), stops in
    the middle ("stall"), comes at 200 B/s ("drip") or 4 kB/s ("slow"), or as it should ("good")."""

    def __init__(self, kind):
        import gzip
        import hashlib
        import io
        import random
        import tarfile
        raw = io.BytesIO()
        with tarfile.open(fileobj=raw, mode="w") as tar:
            entry = tarfile.TarInfo("file")
            entry.size = 200000
            tar.addfile(entry, io.BytesIO(random.Random(kind == "drip").randbytes(200000)))
        layer = gzip.compress(raw.getvalue(), mtime=0)
        diff = "sha256:" + hashlib.sha256(raw.getvalue()).hexdigest()
        config = json.dumps({"architecture": "amd64", "os": "linux", "config": {},
                             "rootfs": {"type": "layers", "diff_ids": [diff]}}).encode()

        def name(data):
            return "sha256:" + hashlib.sha256(data).hexdigest()
        media = "application/vnd.oci.image."
        manifest = json.dumps({
            "schemaVersion": 2, "mediaType": media + "manifest.v1+json",
            "config": {"mediaType": media + "config.v1+json", "digest": name(config), "size": len(config)},
            "layers": [{"mediaType": media + "layer.v1.tar+gzip", "digest": name(layer), "size": len(layer)}],
        }).encode()
        self.over = threading.Event()
        over = self.over

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *args):
                pass

            def answer(self, data, kind_of="application/octet-stream", send=None):
                self.send_response(200)
                self.send_header("Content-Type", kind_of)
                self.send_header("Content-Length", str(len(data)))
                self.send_header("Docker-Content-Digest", name(data))
                self.end_headers()
                if self.command == "GET":
                    self.wfile.write(data if send is None else send)
                    self.wfile.flush()

            def do_GET(self):
                if self.path == "/v2/":
                    self.answer(b"{}", "application/json")
                elif "/manifests/" in self.path:
                    self.answer(manifest, media + "manifest.v1+json")
                elif self.path.endswith(name(config)):
                    self.answer(config)
                elif kind == "lie":
                    self.answer(layer, send=bytes(len(layer)))
                elif kind == "good":
                    self.answer(layer)
                elif kind in ("drip", "slow"):
                    step = 10 if kind == "drip" else 200
                    self.answer(layer, send=layer[:step])
                    for at in range(step, len(layer), step):
                        if over.wait(0.05):
                            break
                        self.wfile.write(layer[at:at + step])
                else:
                    self.answer(layer, send=layer[:1000])
                    over.wait(60)

            do_HEAD = do_GET

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.host = "127.0.0.1:%d" % self.server.server_port
        self.image = f"{self.host}/{kind}:1"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def stop(self):
        self.over.set()
        self.server.shutdown()
        self.server.server_close()


def on_terminal(args, env, cwd=None):
    """Runs a program on a terminal of its own; (exit status, all it wrote)."""
    import fcntl
    import pty
    import struct
    import termios
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 100, 0, 0))
    with subprocess.Popen([str(a) for a in args], stdin=theirs, stdout=theirs, stderr=theirs, env=env, cwd=cwd) as process:
        os.close(theirs)
        out = b""
        with contextlib.suppress(OSError):  # the last one has closed it
            while piece := os.read(ours, 65536):
                out += piece
    os.close(ours)
    return process.returncode, out.decode(errors="replace")


class Person:
    """Somebody with an account on this machine, for as long as the test runs."""

    def __init__(self, name):
        self.name = name
        harness.run(["userdel", "-rf", name])
        harness.run(["groupdel", name])  # a test that was ended between both leaves it
        harness.run(["useradd", "--badname", "-m", name]).ok()
        entry = pwd.getpwnam(name)
        self.uid, self.gid, self.home = entry.pw_uid, entry.pw_gid, pathlib.Path(entry.pw_dir)

    def run(self, daemon, *args, stdin=None, cwd=None, timeout=120, env=None):
        """A program as that person; `berth` is ours."""
        args = [str(harness.BERTH) if args[0] == "berth" else args[0], *map(str, args[1:])]
        done = subprocess.run(
            args, input=stdin, cwd=cwd or self.home, timeout=timeout, capture_output=True, text=True,
            errors="replace", check=False, user=self.uid, group=self.gid, extra_groups=[],
            stdin=subprocess.DEVNULL if stdin is None else None,
            env={"HOME": str(self.home), "USER": self.name, "BERTH_SERVER": f"unix:{daemon.socket}",
                 "BERTH": str(harness.BERTH), "PATH": os.environ["PATH"], **(env or {})})
        return harness.Result(args, done.returncode, done.stdout, done.stderr)

    def remove(self):
        harness.run(["userdel", "-rf", self.name])
        shutil.rmtree(f"/tmp/berth-build-{self.uid}", ignore_errors=True)


def open_socket(folder):
    """--socket where everybody can reach it: pytest's folders are root's alone."""
    import tempfile
    place = tempfile.mkdtemp(prefix="berth-")
    os.chmod(place, 0o755)
    return ["--socket", os.path.join(place, "s")]


def make_base(daemon, store):
    """The busybox base, in root's build store and in the daemon."""
    harness.run([harness.ROOT / "images" / "make-base"], timeout=120, env=build_env(daemon, store)).ok()


def drop_store(store):
    """buildah leaves its overlay folder mounted on itself."""
    with open("/proc/self/mountinfo", encoding="utf-8") as table:
        places = [line.split()[4] for line in table]
    for place in sorted((p for p in places if p.startswith(f"{store}/")), reverse=True):
        harness.run(["umount", "-l", place])
    shutil.rmtree(store, ignore_errors=True)


def build_env(daemon, store, **more):
    return daemon.program_env(BERTH_SERVER=f"unix:{daemon.socket}", BERTH_BUILD_STORE=str(store),
                              BERTH=str(harness.BERTH), **more)


def write_project(folder, dockerfile, **files):
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "Dockerfile").write_text(dockerfile)
    for name, text in files.items():
        (folder / name).write_text(text)
    return folder
