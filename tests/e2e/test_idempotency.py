"""Idempotency-Key: a request that is sent again makes nothing twice, also over kill -9."""

import contextlib
import http.client
import json
import random
import threading

import harness
import pytest

DATA = harness.ROOT / "tests" / "data" / "tasks"
VALUES = json.loads((DATA / "values.json").read_text())
VALUES["endpoints"] = [e for e in VALUES["endpoints"] if e["type"] == "dataset"]
TRAIN = {"job_name": "net", "image": "host", "command": ["true"], "max_epochs": 1}


@pytest.fixture
def daemon(tmp_path):
    with harness.Daemon(tmp_path, "--agent", "off", "--gpus", "1x8192") as one:
        define(one)
        yield one


def define(daemon):

    daemon.post("/v1/task-definitions", json.loads((DATA / "definition.json").read_text()))


def post(daemon, path, body, key, **more):
    return daemon.request("POST", path, body, headers={"Idempotency-Key": key}, **more)


@pytest.mark.parametrize("path,body,member", [("/v1/jobs", VALUES, "task_id"), ("/v1/train", TRAIN, "id")])
def test_the_second_request_gets_the_first_ones_answer(daemon, path, body, member):
    first = post(daemon, path, body, "k1")
    again = post(daemon, path, body, "k1")
    other = post(daemon, path, body, "k2")
    assert (first.code, again.code, other.code) == (201, 201, 201)
    assert first.json()[member] == again.json()[member] != other.json()[member]
    assert "Idempotency-Replayed" not in first.headers and again.headers["Idempotency-Replayed"] == "true"
    daemon.kill9()
    daemon.start()
    assert post(daemon, path, body, "k1").json()[member] == first.json()[member]


def test_a_key_is_for_one_request_and_one_user(daemon):
    assert post(daemon, "/v1/jobs", VALUES, "k").code == 201
    changed = post(daemon, "/v1/jobs", {**VALUES, "name": "other"}, "k")
    assert changed.code == 422 and "was used for another request" in changed.json()["error"]
    assert post(daemon, "/v1/train", TRAIN, "k").code == 201  # another path
    token = daemon.post("/v1/tokens", {"user": "alice", "description": "x"})["token"]
    mine = post(daemon, "/v1/train", TRAIN, "k", via="https", token=token)
    assert mine.code == 201 and "Idempotency-Replayed" not in mine.headers


@pytest.mark.parametrize("key", ["", "a b", "x" * 256])
def test_bad_keys_are_refused(daemon, key):
    answer = post(daemon, "/v1/train", TRAIN, key)
    assert answer.code == 400 and "Idempotency-Key must be" in answer.json()["error"]


def test_what_was_deleted_is_gone_and_not_made_again(daemon):
    made = post(daemon, "/v1/jobs", VALUES, "k").json()["task_id"]
    assert daemon.request("DELETE", f"/v1/jobs/{made}").code == 200
    harness.wait(lambda: daemon.request("GET", f"/v1/jobs/{made}").code == 404, "it is gone")
    answer = post(daemon, "/v1/jobs", VALUES, "k")
    assert answer.code == 410 and "was deleted" in answer.json()["error"]


def test_retries_over_kills_make_each_once(daemon):
    rng, done = random.Random(3), {}

    def client(number):
        for n in range(25):
            key = f"{number}-{n}"
            while key not in done:  # until it is acknowledged
                with contextlib.suppress(OSError, http.client.HTTPException, AssertionError, json.JSONDecodeError):
                    answer = post(daemon, "/v1/jobs", {**VALUES, "description": key}, key, timeout=5)
                    if answer.code == 201:
                        done[key] = answer.json()["task_id"]

    threads = [threading.Thread(target=client, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for _ in range(4):
        target = len(done) + rng.randint(5, 15)
        harness.wait(lambda t=target: len(done) >= min(t, 100), "some are made")
        daemon.kill9()
        daemon.start()
    for thread in threads:
        thread.join()
    tasks = daemon.get("/v1/jobs?limit=5000")["jobs"]
    assert len(done) == 100 and len(set(done.values())) == 100
    assert sorted(t["task_id"] for t in tasks) == sorted(done.values())
