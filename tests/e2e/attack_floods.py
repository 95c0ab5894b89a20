"""One person cannot stop the others: connections, unfinished bodies, sign-in links, streams, large watches."""

import contextlib
import json
import os
import resource
import socket
import subprocess
import sys
import time
import urllib.parse

import pytest

import harness

NOBODY, DAEMON = 65534, 1  # two people of every Debian
ROOT_ONLY = pytest.mark.skipif(os.geteuid() != 0, reason="needs root: acts as other users")

# Runs as somebody else: keeps connections to the socket until its stdin ends.
HOLDER = """
import resource, socket, sys, time
path, count, sent, more = sys.argv[1], int(sys.argv[2]), sys.argv[3].encode().decode("unicode_escape").encode(), int(sys.argv[4])
hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
links, answers = [], 0
for _ in range(count):
    link = socket.socket(socket.AF_UNIX)
    link.settimeout(10)
    try:
        for wait in range(1000):  # a socket's queue may be full for a moment
            try:
                link.connect(path)
                break
            except BlockingIOError:
                time.sleep(0.005)
        link.sendall(sent)
        left = more
        while left > 0:
            left -= link.send(bytes(min(left, 1 << 20)))
        links.append(link)
    except OSError:
        answers += 1
if more:
    for link in links:
        link.settimeout(1)
        try:
            answers += link.recv(4096).startswith(b"HTTP/1.1 429 ")
        except OSError:
            pass
print("held", len(links), answers, flush=True)
sys.stdin.read()
"""


@pytest.fixture
def server(tmp_path):
    with harness.Daemon(tmp_path) as daemon:
        os.chmod(daemon.socket_folder, 0o755)
        yield daemon


@contextlib.contextmanager
def holding(server, uid, count, sent="", more=0):
    with subprocess.Popen([sys.executable, "-c", HOLDER, server.socket, str(count), sent, str(more)], user=uid,
                          group=uid, extra_groups=[], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process.stdout.readline().split()
        finally:
            process.stdin.close()
            process.wait(30)


def as_user(server, uid, path):
    """Status of a GET over the socket by that user."""
    return int(harness.run(["setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups", "curl", "-s", "-o", "/dev/null",
                            "-w", "%{http_code}", "--max-time", "5", "--unix-socket", server.socket, f"http://x{path}"]).ok())


def quick(server, count=100):
    """The p99 of small writes and reads by an admin, in seconds."""
    times = []
    for i in range(count):
        start = time.monotonic()
        assert server.request("POST", "/api/v1/namespaces/default/configmaps",
                              {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "q-"}}).code == 201
        assert server.request("GET", "/healthz").code == 200
        times.append((time.monotonic() - start) / 2)
        assert i < count
    return sorted(times)[int(len(times) * 0.99) - 1]


def head(length, extra=""):
    return f"POST /api/v1/namespaces/default/configmaps HTTP/1.1\r\nHost: x\r\n{extra}Content-Length: {length}\r\n\r\n"


def test_a_stranger_with_a_large_body_is_told_at_once(server):
    address = urllib.parse.urlsplit(server.http)
    with contextlib.ExitStack() as stack:
        links = [stack.enter_context(socket.create_connection((address.hostname, address.port), timeout=10))
                 for _ in range(32)]
        for link in links:
            link.sendall(head(16 << 20).encode())
        for link in links:
            assert link.recv(4096).startswith(b"HTTP/1.1 401 ")
        assert quick(server, 20) < 0.1


@ROOT_ONLY
def test_unfinished_bodies_of_one_user_leave_room_for_the_others(server):
    sent = head(16 << 20).replace("\r\n", "\\r\\n")
    with holding(server, NOBODY, 24, sent, (16 << 20) - 1) as (_, _held, refused):
        assert int(refused) >= 22, "more than the share of one user was taken"
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "large"}, "data": {"a": "x" * 900000}}
        assert server.request("POST", "/api/v1/namespaces/default/configmaps", body).code == 201
        assert quick(server) < 0.1


@pytest.mark.plain  # about times
@ROOT_ONLY
def test_idle_connections_of_one_user_lock_nobody_out(server):
    if resource.getrlimit(resource.RLIMIT_NOFILE)[1] < 9000:
        pytest.skip("too few descriptors")
    with holding(server, NOBODY, 8300) as (_, held, _refused):
        assert int(held) > 8000, "the kernel accepts them for us"
        assert as_user(server, DAEMON, "/version") == 200
        assert as_user(server, NOBODY, "/version") == 200
        assert quick(server) < 0.1


def test_links_of_one_user_block_nobody(server):
    token = server.post("/v1/tokens", {"user": "ann"})["token"]
    codes = [server.post("/v1/page/links", {}, via="http", token=token)["code"] for _ in range(30)]
    assert server.post("/v1/page/links", {"user": "bob"})["code"]
    # the newest works; older ones have made room (which of one second's links goes first is not said)
    works = [server.request("POST", "/v1/page/session", {"code": code}, via="http").code for code in codes]
    assert works[-1] == 201 and works.count(201) == 10 and works.count(401) == 20


def test_streams_of_one_user_leave_some_for_the_others(server):
    tokens = [server.post("/v1/tokens", {"user": name})["token"] for name in ("ann", "bob")]
    with contextlib.ExitStack() as stack:
        codes = []
        for token in [tokens[0]] * 60 + [tokens[1]]:
            link = stack.enter_context(contextlib.closing(server.connect("http")))
            link.request("GET", "/v1/queue/stream", headers={"Authorization": f"Bearer {token}"})
            codes.append(link.getresponse().status)
        assert codes[:50] == [200] * 50 and codes[50:60] == [429] * 10 and codes[60] == 200


# ---- large watches ----

def large(i):
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": f"large-{i:02}"}, "data": {"a": "x" * 900000}}


def watch(server, query=""):
    link = server.connect("unix", timeout=20)
    link.request("GET", f"/api/v1/namespaces/default/configmaps?watch=1{query}")
    return link, link.getresponse()


def test_a_watch_over_more_than_a_stream_may_hold_is_complete(server):
    for i in range(12):
        server.post("/api/v1/namespaces/default/configmaps", large(i))
    link, response = watch(server)
    with contextlib.closing(link):
        events = [json.loads(response.readline()) for _ in range(12)]
        assert [e["object"]["metadata"]["name"] for e in events] == [f"large-{i:02}" for i in range(12)]
        server.post("/api/v1/namespaces/default/configmaps", large(12))
        assert json.loads(response.readline())["object"]["metadata"]["name"] == "large-12"


def test_a_watcher_that_reads_late_misses_nothing(server):
    link, response = watch(server, "&resourceVersion=" + server.get("/api/v1/configmaps")["metadata"]["resourceVersion"])
    with contextlib.closing(link):
        for i in range(20):
            server.post("/api/v1/namespaces/default/configmaps", large(i))
        for i in range(20):
            assert json.loads(response.readline())["object"]["metadata"]["name"] == f"large-{i:02}"
        server.request("DELETE", "/api/v1/namespaces/default/configmaps/large-03")
        event = json.loads(response.readline())
        assert (event["type"], event["object"]["metadata"]["name"]) == ("DELETED", "large-03")


def test_a_watcher_that_reads_too_late_is_told_to_list_anew(server):
    server.post("/api/v1/namespaces/default/configmaps", large(0))
    link, response = watch(server, "&resourceVersion=" + server.get("/api/v1/configmaps")["metadata"]["resourceVersion"])
    with contextlib.closing(link):
        for i in range(60):  # more text than the window of changes keeps
            answer = server.request("PATCH", "/api/v1/namespaces/default/configmaps/large-00", {"data": {"b": str(i)}},
                                    headers={"Content-Type": "application/merge-patch+json"})
            assert answer.code == 200
        events = [json.loads(line) for line in response]
    assert events[-1]["type"] == "ERROR" and events[-1]["object"]["code"] == 410
    assert all(e["type"] == "MODIFIED" for e in events[:-1])


def test_large_watches_nobody_reads_have_a_bound_each(server):
    token = server.post("/v1/tokens", {"user": "ann", "groups": ["berth:viewers"]})["token"]
    for i in range(12):
        server.post("/api/v1/namespaces/default/configmaps", large(i))
    with contextlib.ExitStack() as stack:
        codes = []
        for _ in range(10):
            link = stack.enter_context(contextlib.closing(server.connect("http")))
            link.request("GET", "/api/v1/namespaces/default/configmaps?watch=1", headers={"Authorization": f"Bearer {token}"})
            codes.append(link.getresponse().status)
        assert 429 in codes and codes[0] == 200
        link, response = watch(server)
        with contextlib.closing(link):
            assert len([response.readline() for _ in range(12)]) == 12
