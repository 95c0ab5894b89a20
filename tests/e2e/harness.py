"""A berthd of one's own for a test: temporary data folder, free ports, real kubectl, nothing shared.

    with Daemon(tmp_path) as daemon:
        daemon.kubectl("get", "pods").ok()
        daemon.get("/version")["gitVersion"]

Nothing here sleeps for a guess: a daemon is up when it prints its ready line, down when its process has
ended, and `wait` polls a condition against a deadline.
"""

import contextlib
import dataclasses
import fcntl
import functools
import http.client
import json
import os
import pathlib
import re
import select
import shutil
import signal
import socket
import ssl
import subprocess
import tempfile
import time
import urllib.parse

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
BUILD = pathlib.Path(os.environ.get("BERTH_BUILD") or ROOT / "build" / "check-gcc")
BERTHD = BUILD / "src" / "daemon" / "berthd"
BERTH = BUILD / "src" / "cli" / "berth"
READY = re.compile(r"^berthd (?P<version>\S+) ready:(?: http (?P<http>\S+))?(?: https (?P<https>\S+))?"
                   r"(?: socket (?P<socket>\S+))?$")
PATIENCE = float(os.environ.get("BERTH_TEST_PATIENCE") or 1)  # how much longer than usual to wait: slow machines
START_SEC = 30 * PATIENCE  # under sanitizers on a busy machine
STOP_SEC = 20 * PATIENCE
SANITIZER = re.compile(r"ERROR: (Address|Leak)Sanitizer|runtime error:")


class Trouble(Exception):
    """A daemon did not do what a test needs of it before it can begin."""


@dataclasses.dataclass
class Result:
    """What a program did."""
    args: list
    code: int
    out: str
    err: str

    def ok(self):
        """Its output, when it succeeded."""
        assert self.code == 0, f"{self.args} ended with {self.code}\n{self.out}{self.err}"
        return self.out

    def fails(self, code=None):
        """Its error text, when it failed (with this status)."""
        assert self.code != 0 and code in (None, self.code), \
            f"{self.args} ended with {self.code}\n{self.out}{self.err}"
        return self.err

    def json(self):
        return json.loads(self.ok())


@dataclasses.dataclass
class Answer:
    """What the server answered."""
    code: int
    headers: http.client.HTTPMessage
    body: bytes

    def json(self):
        return json.loads(self.body)


def run(args, stdin=None, env=None, timeout=60, cwd=None):
    """Runs a program to its end. stdin may be text, or anything that JSON can hold."""
    if stdin is not None and not isinstance(stdin, str):
        stdin = json.dumps(stdin)
    done = subprocess.run([str(a) for a in args], input=stdin, env=env, timeout=timeout * PATIENCE, cwd=cwd,
                          stdin=subprocess.DEVNULL if stdin is None else None,
                          capture_output=True, text=True, errors="replace", check=False)
    return Result([str(a) for a in args], done.returncode, done.stdout, done.stderr)


def wait(condition, what, timeout=20.0, pause=0.02):
    """The first true value of condition(), asked again until the deadline."""
    timeout *= PATIENCE
    deadline = time.monotonic() + timeout
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {timeout} s: {what}")
        time.sleep(pause)


@functools.lru_cache(maxsize=None)
def kubectls():
    """{"1.32": "/usr/bin/kubectl", ...}: every real kubectl that tools/get-kubectl knows of."""
    found = {}
    listed = run([ROOT / "tools" / "get-kubectl", "--list"])
    for line in listed.out.splitlines() if listed.code == 0 else []:
        version, _, path = line.partition(" ")
        found.setdefault(".".join(version.lstrip("v").split(".")[:2]), path.strip())
    if not found and shutil.which("kubectl"):
        found["path"] = shutil.which("kubectl")
    return found


def kubectl_path(version=None):
    """The program of a version of kubectls(); without a version, the one on PATH."""
    return kubectls()[version] if version else shutil.which("kubectl")


def edge_kubectls():
    """The oldest and the newest version of kubectls(), one where there is only one; [None] where there is none."""
    order = sorted(kubectls(), key=lambda v: [int(n) for n in re.findall(r"\d+", v)])
    return list(dict.fromkeys([order[0], order[-1]])) if order else [None]


class UnixConnection(http.client.HTTPConnection):
    """HTTP over a unix socket."""

    def __init__(self, path, timeout):
        super().__init__("localhost", timeout=timeout)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


def suffix(data):
    """As daemon/agent.c names what belongs to a data folder."""
    value = 2166136261
    for byte in str(data).encode():
        value = (value ^ byte) * 16777619 & 0xffffffff
    return f"{value:08x}"


def run_folder(data):
    return f"/run/berth-{suffix(data)}"


class Daemon:
    """One berthd and its data folder; restarts keep both ports and data."""

    def __init__(self, folder, *flags, env=None, start=True):
        self.folder = pathlib.Path(folder)
        self.data = self.folder / "data"
        self.log_path = self.folder / "berthd.log"
        self.flags = [str(f) for f in flags]
        self.env = {**os.environ, "BERTH_CHECK_DOCUMENTS": "1", **(env or {})}
        # Socket paths hold 107 bytes, fewer than pytest's folders may have.
        self.socket_folder = tempfile.mkdtemp(prefix="berth-")
        self.socket = os.path.join(self.socket_folder, "s")
        self.process = None
        self.http = self.https = None  # base URLs
        self.version = None
        self.folder.mkdir(parents=True, exist_ok=True)
        if start:
            self.start()

    def __enter__(self):
        return self

    def __exit__(self, kind, value, trace):
        self.close(check=kind is None)

    # ---- life ----

    def _address(self, flag, url):
        """`--http` and `--https` as given, else the ports of the last start, else any free one."""
        if flag in self.flags:
            return []
        return [flag, urllib.parse.urlsplit(url).netloc if url else "127.0.0.1:0"]

    def args(self):
        socket_args = [] if "--socket" in self.flags else ["--socket", self.socket]
        agent = [] if "--agent" in self.flags else ["--agent", "off"]  # cheap, unless a test wants it
        return [str(BERTHD), "--data", str(self.data), *socket_args, *agent, *self._address("--http", self.http),
                *self._address("--https", self.https), *self.flags]

    def start(self, timeout=START_SEC):
        """Starts it and waits for the ready line."""
        assert not self.running(), "it runs already"
        if not BERTHD.exists():
            raise Trouble(f"no {BERTHD}: build first, or set BERTH_BUILD")
        with open(self.log_path, "ab") as log:
            self.process = subprocess.Popen(self.args(), stdout=subprocess.PIPE, stderr=log, env=self.env,
                                            stdin=subprocess.DEVNULL, start_new_session=True)
        line = self._read_ready_line(timeout)
        match = READY.match(line)
        if not match:
            self.kill9()
            raise Trouble(f"berthd said {line!r} instead of being ready\n{self.log()}")
        self.version = match["version"]
        self.http, self.https = (None if url == "off" else url for url in (match["http"], match["https"]))
        self.socket = match["socket"] or self.socket
        return self

    def _read_ready_line(self, timeout):
        fd = self.process.stdout.fileno()
        fcntl.fcntl(fd, fcntl.F_SETFL, fcntl.fcntl(fd, fcntl.F_GETFL) | os.O_NONBLOCK)
        text, deadline = b"", time.monotonic() + timeout
        while not text.endswith(b"\n"):
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([fd], [], [], left)[0]:
                self.kill9()
                raise Trouble(f"berthd was not ready within {timeout} s\n{self.log()}")
            piece = os.read(fd, 4096)
            if not piece:
                code = self.process.wait(STOP_SEC)
                self.process = None
                raise Trouble(f"berthd ended with {code}\n{self.log()}")
            text += piece
        return text.decode(errors="replace").splitlines()[0]

    def running(self):
        return self.process is not None and self.process.poll() is None

    def stop(self, timeout=STOP_SEC):
        """SIGTERM; returns the exit status and the seconds it took."""
        start = time.monotonic()
        self.process.send_signal(signal.SIGTERM)
        try:
            code = self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            self.kill9()
            raise AssertionError(f"berthd did not end within {timeout} s of SIGTERM\n{self.log()}") from None
        self._forget()
        return code, time.monotonic() - start

    def kill9(self):
        if self.process:
            self.process.kill()
            self.process.wait()
            self._forget()

    def _forget(self):
        self.process.stdout.close()
        self.process = None

    def restart(self):
        self.stop()
        return self.start()

    def close(self, check=True):
        """Ends it and holds that it ended well: status 0, nothing from a sanitizer in its log."""
        code = 0
        try:
            if self.running():
                code, _ = self.stop()
            elif self.process:
                code = self.process.returncode
                self._forget()
        finally:
            shutil.rmtree(self.socket_folder, ignore_errors=True)
            if os.geteuid() == 0 and not list(pathlib.Path(run_folder(self.data)).glob("containers/*")):
                shutil.rmtree(run_folder(self.data), ignore_errors=True)
        if check:
            assert code == 0, f"berthd ended with {code}\n{self.log()}"
            assert not SANITIZER.search(self.log()), self.log()

    def log(self):
        return self.log_path.read_text(errors="replace") if self.log_path.exists() else ""

    # ---- asking it ----

    @property
    def kubeconfig(self):
        """The admin's."""
        return self.data / "admin.kubeconfig"

    @property
    def ca(self):
        return self.data / "pki" / "ca.crt"

    def connect(self, via="http", timeout=30, cert=None):
        """A new HTTP connection: via "http", "https" or "unix"."""
        if via == "unix":
            return UnixConnection(self.socket, timeout)
        address = urllib.parse.urlsplit(self.http if via == "http" else self.https)
        if via == "http":
            return http.client.HTTPConnection(address.hostname, address.port, timeout=timeout)
        context = ssl.create_default_context(cafile=str(self.ca))
        if cert:
            context.load_cert_chain(*cert)
        return http.client.HTTPSConnection(address.hostname, address.port, timeout=timeout, context=context)

    def request(self, method, path, body=None, headers=None, via="unix", token=None, timeout=30):
        """One request; a body that is no text or bytes is sent as JSON. The unix socket makes root admin."""
        headers = dict(headers or {})
        if body is not None and not isinstance(body, (str, bytes)):
            body = json.dumps(body)
            headers.setdefault("Content-Type", "application/json")
        if token:
            headers["Authorization"] = f"Bearer {token}"
        with contextlib.closing(self.connect(via, timeout)) as connection:
            connection.request(method, path, body=body, headers=headers)
            response = connection.getresponse()
            return Answer(response.status, response.headers, response.read())

    def get(self, path, **more):
        """The JSON of a GET that succeeded."""
        answer = self.request("GET", path, **more)
        assert answer.code == 200, f"GET {path}: {answer.code} {answer.body!r}"
        return answer.json()

    def post(self, path, body, **more):
        """The JSON of a POST that succeeded."""
        answer = self.request("POST", path, body, **more)
        assert answer.code in (200, 201, 202), f"POST {path}: {answer.code} {answer.body!r}"
        return answer.json()

    # ---- programs ----

    def program_env(self, **more):
        """An environment in which nothing of the caller's HOME is read or written."""
        home = self.folder / "home"
        home.mkdir(exist_ok=True)
        env = {k: v for k, v in os.environ.items() if not k.startswith(("KUBE", "BERTH_", "XDG_"))}
        return {**env, "HOME": str(home), "KUBECACHEDIR": str(home / "kube-cache"),
                "KUBECONFIG": str(self.kubeconfig), **more}

    def kubectl(self, *args, version=None, stdin=None, timeout=60, kubeconfig=None):
        """Runs kubectl as admin; version is one of kubectls(), else the one on PATH."""
        program = kubectl_path(version)
        env = self.program_env(**({"KUBECONFIG": str(kubeconfig)} if kubeconfig else {}))
        cache = ["--cache-dir", env["KUBECACHEDIR"]]
        return run([program, *cache, *args], stdin=stdin, env=env, timeout=timeout)

    def berth(self, *args, stdin=None, timeout=60, cwd=None, **env):
        """Runs the command line against this daemon."""
        return run([BERTH, *args], stdin=stdin, timeout=timeout, cwd=cwd,
                   env=self.program_env(**{"BERTH_SERVER": f"unix:{self.socket}", **env}))
