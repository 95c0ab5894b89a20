"""Streams of real containers, many at once, by the oldest and the newest kubectl: exec, attach, logs -f,
port-forward and cp, all of them at the same time and against the same pod."""

import concurrent.futures
import os
import socket
import subprocess

import pytest

import harness
import podkit

pytestmark = podkit.needs

SERVER = """
import socket, sys, threading, time
s = socket.socket(); s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1); s.bind(("127.0.0.1", 9000)); s.listen(64)
def echo(c):
    while data := c.recv(65536): c.sendall(data)
    c.close()
def serve():
    while True: threading.Thread(target=echo, args=(s.accept()[0],), daemon=True).start()
threading.Thread(target=serve, daemon=True).start()
print("up", flush=True)
for line in sys.stdin:
    if line == "end\\n": break
    print("heard " + line, end="", flush=True)
print("over", flush=True)
"""
EACH = 6  # of every kind, at once


@pytest.fixture(scope="module")
def node(tmp_path_factory):
    daemon = podkit.start(tmp_path_factory.mktemp("streams"))
    yield daemon
    podkit.close(daemon)


@pytest.fixture(params=harness.edge_kubectls())
def version(request):
    return request.param


@pytest.fixture
def target(node, version):
    """A pod that echoes what it is told, and its name."""
    name = "s" + (version or "path").replace(".", "-")
    podkit.create(node, podkit.pod(name, ["python3", "-c", SERVER], stdin=True))
    podkit.phase(node, name, "Running")
    harness.wait(lambda: node.kubectl("logs", name).ok().startswith("up"), "it is up")
    yield name
    node.kubectl("delete", "pod", name, "--grace-period=0", "--force").ok()


def start(node, version, *args, **more):
    env = node.program_env()
    return subprocess.Popen([harness.kubectl_path(version), "--cache-dir", env["KUBECACHEDIR"], *args], env=env,
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **more)


def execute(node, version, target, number):
    text = f"{number} ".encode() * 20000
    with start(node, version, "exec", "-i", target, "--", "sh", "-c", f"cat; exit {number + 3}",
               stdin=subprocess.PIPE) as process:
        out, _ = process.communicate(text, timeout=60)
    return out.startswith(text) and process.returncode == number + 3


def forward(node, version, target, number):
    process = start(node, version, "port-forward", target, ":9000")
    try:
        port = int(process.stdout.readline().split(b"127.0.0.1:")[1].split(b" ")[0])
        sent, got = os.urandom(300000), b""
        with socket.create_connection(("127.0.0.1", port), 30) as connection:
            for at in range(0, len(sent), 60000):
                connection.sendall(sent[at:at + 60000])
                while len(got) < min(at + 60000, len(sent)):
                    got += connection.recv(65536)
        return got == sent
    finally:
        process.terminate()
        process.wait(20)
        process.stdout.close()


def copy(node, version, target, number):
    here, back = node.folder / f"in-{target}-{number}", node.folder / f"out-{target}-{number}"
    here.write_bytes(os.urandom(2 << 20))
    for pair in ((str(here), f"{target}:/tmp/f{number}"), (f"{target}:/tmp/f{number}", str(back))):
        node.kubectl("cp", *pair, version=version).ok()
    return here.read_bytes() == back.read_bytes()


def test_many_streams_at_once(node, version, target):
    followers = [start(node, version, "logs", "-f", target) for _ in range(EACH)]
    attached = start(node, version, "attach", "-i", target, stdin=subprocess.PIPE)
    with concurrent.futures.ThreadPoolExecutor(3 * EACH) as pool:
        work = [pool.submit(do, node, version, target, n) for n in range(EACH) for do in (execute, forward, copy)]
        results = [w.result(120) for w in work]
    assert all(results)
    attached.stdin.write(b"one\ntwo\nend\n")
    attached.stdin.flush()
    out, _ = attached.communicate(timeout=30)
    assert b"heard one" in out and b"heard two" in out
    for follower in followers:  # they end with the container
        said, _ = follower.communicate(timeout=30)
        assert said.splitlines() == [b"up", b"heard one", b"heard two", b"over"]


def test_exit_codes_and_terminals(node, version, target):
    code = node.kubectl("exec", target, "--", "sh", "-c", "exit 7", version=version)
    assert code.code == 7
    with start(node, version, "exec", target, "--", "no-such-program") as process:
        assert process.wait(30) != 0
        assert b"no-such-program" in process.stdout.read()


def test_what_streams_leave_behind(node):
    """No descriptor stays."""
    def left():
        return len(os.listdir(f"/proc/{node.process.pid}/fd"))
    before = left()
    podkit.create(node, podkit.pod("few", "exec sleep 1000"))
    podkit.phase(node, "few", "Running")
    for _ in range(10):
        node.kubectl("exec", "few", "--", "true").ok()
    node.kubectl("delete", "pod", "few", "--grace-period=0", "--force").ok()
    harness.wait(lambda: left() <= before + 4, "descriptors are closed")
