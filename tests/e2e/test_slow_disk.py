"""A disk that takes seconds for each fsync holds up those who write, and nobody else."""

import json
import subprocess
import threading
import time

import pytest

import harness
import queuekit
from pulse import Pulse

SLOW = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <fcntl.h>
#include <stdio.h>
/* While the file is there, each fsync of the database's log takes three seconds, and says when it begins and ends. */
static void say(const char *what)
{
    const char *path = getenv("SLOW_LOG");
    int fd = path ? open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600) : -1;
    if (fd >= 0) { if (write(fd, what, strlen(what)) < 0) abort(); close(fd); }
}
static int is_log(int fd)
{
    char link[64], path[4096];
    ssize_t n;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    n = readlink(link, path, sizeof path - 1);
    if (n < 0) return 0;
    path[n] = 0;
    return strstr(path, "berth.db") != 0;
}
static int slow(int fd, const char *name)
{
    const char *flag = getenv("SLOW_FILE");
    int held = flag && access(flag, F_OK) == 0 && is_log(fd), result;
    if (held) { say("begin\n"); usleep(3000000); }
    result = ((int (*)(int))dlsym(RTLD_NEXT, name))(fd);
    if (held) say("end\n");
    return result;
}
int fsync(int fd) { return slow(fd, "fsync"); }
int fdatasync(int fd) { return slow(fd, "fdatasync"); }
"""


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    folder = tmp_path_factory.mktemp("slow")
    (folder / "slow.c").write_text(SLOW)
    subprocess.run(["cc", "-shared", "-fPIC", "-o", folder / "slow.so", folder / "slow.c", "-ldl"], check=True)
    env = {"LD_PRELOAD": str(folder / "slow.so"), "SLOW_FILE": str(folder / "slow"), "SLOW_LOG": str(folder / "log"),
           "ASAN_OPTIONS": "verify_asan_link_order=0"}
    with harness.Daemon(folder, "--agent", "off", env=env) as daemon:
        daemon.slow, daemon.slow_log = folder / "slow", folder / "log"
        yield daemon


def config_map(name, value):
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"k": value}}


MAPS = "/api/v1/namespaces/default/configmaps"


class Slow:
    """The disk is slow, from the first commit under way to the end."""

    def __init__(self, lab):
        self.lab = lab

    def __enter__(self):
        self.lab.slow_log.write_text("")
        self.lab.slow.touch()
        return self

    def begun(self):
        harness.wait(lambda: "begin" in self.lab.slow_log.read_text(), "a commit waits for the disk")

    def __exit__(self, *_):
        self.lab.slow.unlink()
        harness.wait(lambda: (log := self.lab.slow_log.read_text()).count("begin") == log.count("end"), "the disk is done")


def write(lab, done, name, value, verb="POST"):
    def run():
        path = MAPS if verb == "POST" else f"{MAPS}/{name}"
        answer = lab.request(verb, path, None if verb == "DELETE" else config_map(name, value))
        done.append((time.monotonic(), answer.code))

    thread = threading.Thread(target=run)
    thread.start()
    return thread


@pytest.mark.plain  # about times
def test_reads_are_answered_at_once_and_show_what_is_durable(lab):
    lab.post(MAPS, config_map("kept", "old"))
    lab.post(MAPS, config_map("dropped", "old"))
    before = lab.get(MAPS)["metadata"]["resourceVersion"]
    done, times = [], {}
    with Slow(lab) as slow:
        threads = [write(lab, done, "kept", "new", "PUT"), write(lab, done, "made", "new"), write(lab, done, "dropped", "", "DELETE")]
        slow.begun()
        with Pulse(lab) as pulse:
            while len(done) < 3:
                for path in ("/healthz", MAPS, f"{MAPS}/kept", f"{MAPS}/dropped", "/api/v1/pods", "/v1/queue", "/v1/nodes",
                             "/v1/history", "/v1/jobs", "/v1/task-templates", "/v1/task-definitions", "/metrics"):
                    start = time.monotonic()
                    answer = lab.request("GET", path)
                    took = time.monotonic() - start
                    if done:
                        break
                    times.setdefault(path, []).append(took)
                    assert answer.code == 200, (path, answer.body)
                    if path == MAPS:
                        listed = answer.json()
                        assert listed["metadata"]["resourceVersion"] == before
                        assert {m["metadata"]["name"]: m["data"]["k"] for m in listed["items"] if "k" in m.get("data", {})} == \
                            {"kept": "old", "dropped": "old"}
                    if path == f"{MAPS}/kept":
                        assert answer.json()["data"] == {"k": "old"}
        for thread in threads:
            thread.join()
    assert [code for _, code in done].count(201) == 1 and len(done) == 3
    # A read that waits for the disk waits every time: of those that others on this machine held up, the quickest counts.
    least = {path: min(spent) for path, spent in times.items()}
    print(least)
    assert len(least) == 12 and max(max(spent) for spent in times.values()) < 1, times
    assert max(least.values()) < 0.05 * harness.PATIENCE, least
    pulse.check()
    assert {m["metadata"]["name"]: m["data"]["k"] for m in lab.get(MAPS)["items"] if "k" in m.get("data", {})} == \
        {"kept": "new", "made": "new"}


def test_a_write_is_acknowledged_after_its_fsync(lab):
    with Slow(lab) as slow:
        done = []
        thread = write(lab, done, "late", "x")
        slow.begun()
        begun = time.monotonic()
        thread.join()
        assert "end" in lab.slow_log.read_text()
    assert done[0][1] == 201 and done[0][0] - begun > 2.5


def test_a_watch_shows_nothing_that_is_not_durable(lab):
    revision = lab.get(MAPS)["metadata"]["resourceVersion"]
    with Slow(lab) as slow:
        done, seen = [], []
        thread = write(lab, done, "watched", "x")
        slow.begun()
        # one from a revision, one from what is there: both begin while the disk is busy
        for query in (f"&resourceVersion={revision}", ""):
            link = lab.connect("unix", timeout=60)
            link.request("GET", f"{MAPS}?watch=1&timeoutSeconds=30{query}")
            answer = link.getresponse()
            while True:
                event = json.loads(answer.readline())
                if event["object"]["metadata"].get("name") == "watched":
                    seen.append(lab.slow_log.read_text().split())
                    assert event["type"] == "ADDED"
                    break
            link.close()
        thread.join()
    assert all("end" in log for log in seen)


@pytest.mark.plain  # about times
def test_what_is_asked_for_behind_a_write_on_one_connection_sees_it(lab):
    link = lab.connect("unix", timeout=60)
    link.connect()
    body = json.dumps(config_map("piped", "x")).encode()
    with Slow(lab):
        link.sock.sendall(b"POST " + MAPS.encode() + b" HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: "
                          + str(len(body)).encode() + b"\r\n\r\n" + body
                          + b"GET " + MAPS.encode() + b"/piped HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        text = b""
        while piece := link.sock.recv(65536):
            text += piece
    assert text.count(b"HTTP/1.1 201") == 1 and text.count(b"HTTP/1.1 200") == 1, text
    link.close()


@pytest.mark.plain  # about times
def test_the_queue_is_told_while_a_job_is_on_its_way_to_the_disk(lab):
    with Slow(lab) as slow:
        codes = []
        job = queuekit.training("late-job", "ann")
        path = f"/apis/{job['apiVersion']}/namespaces/default/trainingjobs"
        thread = threading.Thread(target=lambda: codes.append(lab.request("POST", path, job).code))
        thread.start()
        slow.begun()
        start = time.monotonic()
        rows = lab.get("/v1/queue")["jobs"]
        took = time.monotonic() - start
        assert "late-job" not in [row["name"] for row in rows] and not codes
        assert took < 0.05 * harness.PATIENCE
        thread.join()
    assert codes == [201]
    assert "late-job" in [row["name"] for row in lab.get("/v1/queue")["jobs"]]
