"""The end: SIGTERM while requests are under way."""

import contextlib
import json
import socket
import subprocess
import threading
import time

import pytest

import harness

# fdatasync and fsync take a while as soon as a file is there.
SLOW = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <unistd.h>
static void slow(void) { const char *path = getenv("SLOW_FILE"); if (path && access(path, F_OK) == 0) usleep(1500000); }
int fsync(int fd) { slow(); return ((int (*)(int))dlsym(RTLD_NEXT, "fsync"))(fd); }
int fdatasync(int fd) { slow(); return ((int (*)(int))dlsym(RTLD_NEXT, "fdatasync"))(fd); }
"""


@pytest.fixture
def slow_disk(tmp_path):
    """A daemon whose disk becomes slow when the returned file is made."""
    (tmp_path / "slow.c").write_text(SLOW)
    subprocess.run(["cc", "-shared", "-fPIC", "-o", tmp_path / "slow.so", tmp_path / "slow.c", "-ldl"], check=True)
    env = {"LD_PRELOAD": str(tmp_path / "slow.so"), "SLOW_FILE": str(tmp_path / "slow"),
           "ASAN_OPTIONS": "verify_asan_link_order=0"}
    with harness.Daemon(tmp_path, env=env) as daemon:
        yield daemon, tmp_path / "slow"


def post(name):
    body = json.dumps({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}})
    return (f"POST /api/v1/namespaces/default/configmaps HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\n\r\n{body}").encode()


def test_answers_that_wait_for_a_slow_disk_at_the_end(slow_disk):
    daemon, slow = slow_disk
    slow.touch()
    with contextlib.ExitStack() as stack:
        links = [stack.enter_context(contextlib.closing(socket.socket(socket.AF_UNIX))) for _ in range(8)]
        for i, link in enumerate(links):
            link.connect(daemon.socket)
            link.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
            assert link.recv(4096)
            link.sendall(post(f"a{i}"))
            link.sendall(b"GET /api/v1/namespaces/default/configmaps?watch=1 HTTP/1.1\r\nHost: x\r\n\r\n")
        assert daemon.request("GET", "/healthz").code == 200  # they have been read by now
        code, seconds = daemon.stop()
    assert code == 0, daemon.log()
    assert seconds > 1, "nothing waited for the disk"
    slow.unlink()
    daemon.start()
    names = {i["metadata"]["name"] for i in daemon.get("/api/v1/namespaces/default/configmaps")["items"]}
    assert {f"a{i}" for i in range(8)} <= names or not names & {f"a{i}" for i in range(8)}


def storm(daemon, stop):
    """Writes, reads, watches and streams until told to stop."""
    while not stop.is_set():
        with contextlib.suppress(OSError), contextlib.closing(socket.socket(socket.AF_UNIX)) as link:
            link.settimeout(2)
            link.connect(daemon.socket)
            for i in range(50):
                link.sendall(post(f"s{threading.get_ident()}-{time.monotonic_ns()}-{i}"))
                link.sendall(b"GET /v1/queue HTTP/1.1\r\nHost: x\r\n\r\n")
            link.sendall(b"GET /v1/queue/stream HTTP/1.1\r\nHost: x\r\n\r\n")
            while link.recv(1 << 16):
                if stop.is_set():
                    break


def test_end_under_load(tmp_path):
    with harness.Daemon(tmp_path) as daemon:
        for _ in range(5):
            stop = threading.Event()
            threads = [threading.Thread(target=storm, args=(daemon, stop)) for _ in range(8)]
            for thread in threads:
                thread.start()
            harness.wait(lambda: len(daemon.get("/api/v1/namespaces/default/configmaps?limit=100")["items"]) > 20, "load")
            code, _ = daemon.stop()
            stop.set()
            for thread in threads:
                thread.join()
            assert code == 0, daemon.log()
            daemon.start()
            daemon.request("DELETE", "/api/v1/namespaces/default/configmaps")
