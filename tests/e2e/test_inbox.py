"""People are told what happened to their work: one record, read by REST, the command line and the queue's stream."""

import contextlib
import json
import pty
import os
import subprocess

import pytest

import harness
import podkit
import queuekit
from queuekit import gpu_pod, rows, state, submit, training, until

pytestmark = podkit.needs
OTHER = "games"  # a user that every Debian has


@pytest.fixture(scope="module")
def node(tmp_path_factory):
    daemon = queuekit.start(tmp_path_factory.mktemp("inbox"))
    yield daemon
    queuekit.close(daemon)


@pytest.fixture(autouse=True)
def emptied(request):
    yield
    if "node" in request.fixturenames:
        daemon = request.getfixturevalue("node")
        daemon.kubectl("delete", "trainingjobs,jobs,pods", "--all", "--all-namespaces", "--grace-period=1", timeout=60).ok()
        harness.wait(lambda: not rows(daemon), "the queue is empty", 20)


def items(node, user, **more):
    return node.get(f"/v1/inbox?user={user}", **more)["items"]


def told(node, user, kind, name):
    found = [i for i in items(node, user) if i["kind"] == kind and i.get("name") == name]
    assert len(found) <= 1, found
    return found[0] if found else None


def hear(node, user, kind, name, timeout=30):
    return harness.wait(lambda: told(node, user, kind, name), f"{user} hears that {name} is {kind}", timeout)


def token_of(node, user):
    return node.post("/v1/tokens", {"user": user})["token"]


def as_user(node, user, *args, **more):
    return node.berth("--server", node.http, *args, BERTH_TOKEN=token_of(node, user), **more)


def test_an_end_is_told_once_also_over_a_restart(node):
    submit(node, training("done", "una", epochs=2))
    item = hear(node, "una", "succeeded", "done")
    assert item["job"] == state(node, "done", "Succeeded")["id"] and not item["seen"]
    node.restart()
    assert [i["id"] for i in items(node, "una")] == [item["id"]]


def test_an_end_told_before_a_crash_is_told_once(node):
    submit(node, training("crash", "uri", epochs=2))
    hear(node, "uri", "succeeded", "crash")
    node.kill9()
    node.start()
    state(node, "crash", "Succeeded")
    assert len(items(node, "uri")) == 1


def test_a_failure_is_told_with_its_exit_code_and_last_line(node):
    submit(node, training("broken", "fay", command=["sh", "-c", "echo start; echo 'ValueError: no data' >&2; exit 3"]))
    assert hear(node, "fay", "failed", "broken")["text"] == "exit code 3: ValueError: no data"


def test_a_preempted_job_names_who_it_was_for(node):
    submit(node, *[training(f"a{i}", "ann", epochs=60) for i in range(1, 5)])
    for i in range(1, 5):
        until(node, f"a{i}", lambda row: row["epochsDone"], "an epoch is done")
    submit(node, training("b1", "bob", epochs=3))
    item = hear(node, "ann", "preempted", "a4")
    assert (item["by"], item["byJob"]) == ("bob", "b1") and "b1" in item["text"]
    assert not [i for i in items(node, "bob") if i["kind"] == "preempted"]


def test_a_job_that_somebody_else_cancels_is_told_and_an_own_cancel_is_not(node):
    node.berth("user", "add", OTHER).ok()
    mine = token_of(node, OTHER)
    for name in ("own", "others"):
        answer = node.request("POST", queuekit.API.format(OTHER), via="http", token=mine,
                              body=training(name, OTHER, epochs=1000, ns=OTHER))
        assert answer.code == 201, answer.body
        state(node, f"{OTHER}/{name}", "Running")
    node.post(f"/v1/queue/{OTHER}/own/cancel", {}, via="http", token=mine)
    node.post(f"/v1/queue/{OTHER}/others/cancel", {})
    assert "cancelled by" in hear(node, OTHER, "cancelled", "others")["text"]
    state(node, f"{OTHER}/own", "Cancelled")
    assert not told(node, OTHER, "cancelled", "own")


def test_work_that_somebody_else_deletes_is_told_and_what_was_over_is_not(node):
    podkit.create(node, gpu_pod("held", "sleep 100", labels={"user": "dora"}))
    submit(node, training("trained", "dora", epochs=1000))
    submit(node, training("finished", "dora", epochs=1))
    hear(node, "dora", "succeeded", "finished")
    state(node, "held", "Running")
    node.kubectl("delete", "--wait=false", "--grace-period=1", "pod/held", "trainingjob/trained", "trainingjob/finished").ok()
    assert hear(node, "dora", "cancelled", "held")["by"] == "system:admin"
    hear(node, "dora", "cancelled", "trained")
    assert len(items(node, "dora")) == 3


def test_ends_of_pods_and_jobs_are_told(node):
    podkit.create(node, gpu_pod("single", "echo no disk; exit 4", labels={"user": "pia"}))
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "batch", "namespace": "default",
                                                                 "labels": {"user": "pia"}},
           "spec": {"backoffLimit": 0, "template": {"metadata": {"labels": {"user": "pia"}}, "spec": gpu_pod(
               "x", "exit 0")["spec"]}}}
    assert node.request("POST", "/apis/batch/v1/namespaces/default/jobs", body=job).code == 201
    assert "no disk" in hear(node, "pia", "failed", "single")["text"]
    hear(node, "pia", "succeeded", "batch")
    assert len(items(node, "pia")) == 2


def test_only_admins_read_the_inbox_of_others(node):
    token = token_of(node, "eve")
    assert node.request("GET", "/v1/inbox?user=ann", via="http", token=token).code == 403
    assert node.request("POST", "/v1/inbox/seen?user=ann", via="http", token=token).code == 403
    assert node.request("GET", "/v1/inbox?user=eve", via="http", token=token).code == 200
    assert node.request("GET", "/v1/inbox", via="http").code in (401, 403)


def test_berth_inbox_shows_what_is_new_and_marks_it_seen(node):
    submit(node, training("short", "ida", epochs=1))
    hear(node, "ida", "succeeded", "short")
    assert json.loads(as_user(node, "ida", "inbox", "--keep", "-o", "json").ok())[0]["name"] == "short"
    first = as_user(node, "ida", "inbox").ok()
    assert "succeeded" in first and "short" in first
    assert "nothing new" in as_user(node, "ida", "inbox").ok()
    assert "short" in as_user(node, "ida", "inbox", "--all").ok()
    assert as_user(node, "eve", "inbox", "--user", "ida").fails(5)


def on_terminal(node, user, *args):
    """What a program writes on a terminal."""
    main, side = pty.openpty()
    env = node.program_env(BERTH_SERVER=node.http, BERTH_TOKEN=token_of(node, user))
    text = b""
    with subprocess.Popen([harness.BERTH, *args], stdout=side, stdin=subprocess.DEVNULL, env=env) as program:
        os.close(side)
        with contextlib.suppress(OSError):
            while piece := os.read(main, 4096):
                text += piece
        assert program.wait(30) == 0
    os.close(main)
    return text.decode()


def test_ps_shows_ended_jobs_and_a_terminal_gets_a_hint(node):
    submit(node, training("ended", "olga", command=["sh", "-c", "exit 5"]))
    hear(node, "olga", "failed", "ended")
    text = as_user(node, "olga", "ps").ok()
    assert "Ended in the last 24 hours" in text and "exit code 5" in text and "berth inbox" not in text
    assert as_user(node, "olga", "ps", "-o", "json").json()[0]["happened"]["kind"] == "failed"
    assert "1 thing happened to your jobs: berth inbox" in on_terminal(node, "olga", "ps")
    assert "1 thing happened to your jobs: berth inbox" in on_terminal(node, "olga", "queue")
    as_user(node, "olga", "inbox").ok()
    assert "berth inbox" not in on_terminal(node, "olga", "queue")


def events(stream):
    """(event, data) of a stream, as they come."""
    event = None
    for line in stream:
        line = line.decode().rstrip("\n")
        if line.startswith("event: "):
            event = line[7:]
        elif line.startswith("data: "):
            yield event, json.loads(line[6:])


def test_the_stream_tells_that_something_is_new(node):
    with contextlib.closing(node.connect("http")) as connection:
        connection.request("GET", "/v1/queue/stream", headers={"Authorization": f"Bearer {token_of(node, 'sam')}"})
        told_of = (data for event, data in events(connection.getresponse()) if event == "inbox")
        assert next(told_of)["unseen"] == 0
        submit(node, training("heard", "sam", epochs=1))
        news = next(told_of)
        assert news["unseen"] == 1 and news["items"][0]["name"] == "heard"
        node.post("/v1/inbox/seen?user=sam", {})
        assert next(told_of)["unseen"] == 0


@pytest.fixture
def device_file():
    """Card 0 of a driver that is not there, for CDI."""
    with podkit.cdi_file([{"name": "0", "containerEdits": {"env": ["CARD=0"]}}]) as path:
        yield path


@pytest.mark.usefixtures("device_file")
def test_a_job_over_its_memory_is_told_once_and_then_that_it_failed(tmp_path):
    procs = tmp_path / "procs"
    procs.write_text("")
    daemon = queuekit.start(tmp_path, gpus=None, env={
        "LD_LIBRARY_PATH": str(harness.BUILD / "tests" / "data" / "fake-nvml"), "FAKE_GPUS": "1",
        "FAKE_GPU_PROCS": f"@{procs}"})
    try:
        submit(daemon, training("greedy", "mae", epochs=300, epoch=0.1, estimatedMemoryMiB=4000))
        until(daemon, "greedy", lambda row: row["epochsDone"], "an epoch is done")
        uid = daemon.kubectl("get", "pod", "greedy-1", "-o", "jsonpath={.metadata.uid}").ok()
        procs.write_text(f"0:{queuekit.pids(daemon, uid)[-1]}:9000")
        item = hear(daemon, "mae", "over-memory", "greedy", timeout=40)
        assert item["text"] == "it uses 9000 MiB on card 0, more than the 4000 MiB it reserved; it will be stopped if it goes on"
        failed = hear(daemon, "mae", "failed", "greedy", timeout=40)
        assert "uses 9000 MiB on card 0, more than the 4000 MiB it reserved" in failed["text"]
        assert [i["kind"] for i in items(daemon, "mae")].count("over-memory") == 1
        assert "over memory   greedy" in as_user(daemon, "mae", "inbox").ok()
    finally:
        queuekit.close(daemon)


def test_a_job_that_cannot_start_is_told_once_however_often_it_is_tried(tmp_path):
    daemon = queuekit.start(tmp_path, "--stuck-wait", "1")
    try:
        submit(daemon, training("lost", "lea", image="localhost:1/no-such-image:1"))
        item = hear(daemon, "lea", "cannot-start", "lost", timeout=40)
        assert item["text"].startswith("cannot start: ") and "no-such-image" in item["text"]
        harness.wait(lambda: sum("cannot start" in entry["reason"] for entry in queuekit.show(daemon, "lost")["history"]) >= 2,
                     "it was tried again", 60)
        assert len([i for i in items(daemon, "lea") if i["kind"] == "cannot-start"]) == 1
        assert "cannot start   lost" in as_user(daemon, "lea", "inbox").ok()
    finally:
        queuekit.close(daemon)
