"""Six people, forty jobs, four cards of different size, for a minute: all finish, nobody is wronged, no card ever
holds more than it has. What is held is checked from the record log, at every instant. Once more with the daemon
killed every few seconds."""

import json
import random
import threading
import time

import pytest

import harness
import podkit
import queuekit
from queuekit import gpu_pod, training

pytestmark = [podkit.needs, pytest.mark.plain]

CARDS = [4096, 8192, 16384, 24576]
USERS = ["ann", "bob", "cyd", "dan", "eve", "fay"]
JOBS = 40
RESTARTS_MAX = 8
PATIENCE_SEC = 12  # an epoch, the wait for it, a start, a slow machine


def batch_job(name, user, seconds):
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name, "namespace": "default",
                                                                   "labels": {"user": user}},
            "spec": {"backoffLimit": 0, "template": {
                "metadata": {"labels": {"user": user}},
                "spec": {"terminationGracePeriodSeconds": 2,
                         **gpu_pod("x", f"trap 'exit 9' TERM; sleep {seconds} & wait", 1)["spec"]}}}}


def crowd(seed):
    """(kind, name, user, document) in the order of arrival."""
    chance = random.Random(seed)
    for i in range(JOBS):
        user, name = chance.choice(USERS), f"j{i:02}"
        epochs, epoch = chance.randint(6, 14), chance.choice([0.2, 0.4, 0.6])
        sort = chance.choices(["whole", "share", "elastic", "alone", "batch"], [10, 8, 3, 2, 4])[0]
        if sort == "batch":
            yield sort, name, user, batch_job(name, user, chance.randint(1, 3))
        else:
            spec = {"whole": {}, "share": {"estimatedMemoryMiB": chance.choice([1500, 3000, 6000, 12000])},
                    "elastic": {"singleGPU": False, "maxGPUs": 2},
                    "alone": {"estimatedMemoryMiB": 2000, "disableSharing": True}}[sort]
            yield sort, name, user, training(name, user, epochs, epoch, **spec)


def create(node, document, deadline):
    kind = document["kind"]
    path = queuekit.API.format("default") if kind == "TrainingJob" else "/apis/batch/v1/namespaces/default/jobs"
    while True:  # the daemon may be away
        try:
            code = node.request("POST", path, body=document).code
            if code in (201, 409):
                return
        except OSError:
            pass
        assert time.monotonic() < deadline, "nobody takes the job"
        time.sleep(0.1)


def arrive(node, jobs, seconds, seed):
    chance = random.Random(seed + 1)
    times = sorted(chance.uniform(0, seconds) for _ in jobs)
    begin = time.monotonic()
    for at, (_, _, _, document) in zip(times, jobs):
        time.sleep(max(0, begin + at - time.monotonic()))
        create(node, document, begin + seconds + 60)


def finished(node):
    return {job["name"]: job for job in node.get("/v1/history?limit=1000")["jobs"]}


def seconds_of(text):
    import datetime
    return datetime.datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()


def check_memory(node, sorts):
    spans = node.get("/v1/nodes/timeline?from=2020-01-01T00:00:00Z")["spans"]
    assert all(span["end"] for span in spans), "something still holds a card"
    events = []
    for span in spans:
        start, end = seconds_of(span["start"]), seconds_of(span["end"])
        assert start <= end
        events += [(start, 1, span), (end, 0, span)]
    held = {i: [] for i in range(len(CARDS))}
    for _, begins, span in sorted(events, key=lambda e: (e[0], e[1])):
        card = held[span["index"]]
        if not begins:
            card[:] = [s for s in card if s is not span]
            continue
        card.append(span)
        assert sum(s["mib"] for s in card) <= CARDS[span["index"]], card
        if len(card) > 1:
            assert all(sorts[s["name"]] == "share" for s in card), card
    return len(spans)


def phases(shown):
    """[(time, state)] of a job."""
    return [(seconds_of(step["time"]), step["state"]) for step in shown["history"]]


def state_at(steps, when):
    found = None
    for at, state in steps:
        if at <= when:
            found = state
    return found


def check_fairness(shown, sorts):
    """Nobody who has nothing waits for a whole card while somebody else has two, longer than a stop takes."""
    steps = {name: phases(job) for name, job in shown.items()}
    instants = sorted({at for each in steps.values() for at, _ in each})
    wronged = {}
    for at, until in zip(instants, instants[1:]):
        running, waiting = {}, {}
        for name, each in steps.items():
            user, state = shown[name]["user"], state_at(each, at)
            if state in ("Starting", "Running", "Stopping"):
                running.setdefault(user, []).append(name)
            elif state in ("Pending", "Preempted") and sorts[name] == "whole":
                waiting.setdefault(user, []).append(name)
        rich = any(sum(sorts[n] in ("whole", "batch") for n in names) >= 2 for names in running.values())
        for user in USERS:
            if user in waiting and user not in running and rich:
                wronged[user] = wronged.get(user, 0) + until - at
                assert wronged[user] < PATIENCE_SEC, (user, waiting[user], running)
            else:
                wronged[user] = 0


def look_back(node, jobs):
    sorts = {name: sort for sort, name, _, _ in jobs}
    ended = finished(node)
    shown = {name: node.get(f"/v1/queue/default%2F{name}") for name in sorts}
    for name, job in ended.items():
        assert job["state"] == "Succeeded", json.dumps(shown[name], indent=1)
        assert job["restarts"] <= RESTARTS_MAX
        if job["kind"] == "TrainingJob":
            assert job["epochsDone"] == job["epochsTotal"]
            epochs = [e["epoch"] for e in shown[name]["epochs"]]
            assert epochs == sorted(set(epochs)), "an epoch was counted twice"
            ends = [state for state in queuekit.states(shown[name]) if state in ("Succeeded", "Failed", "Cancelled")]
            assert ends == ["Succeeded"], "it ended once"
    check_memory(node, sorts)
    check_fairness(shown, sorts)


def settle(node, jobs, timeout=120):
    def done():
        try:
            return len(finished(node)) == len(jobs)
        except OSError:
            return False
    try:
        harness.wait(done, "all jobs have finished", timeout, 0.5)
    except AssertionError as trouble:
        raise AssertionError(f"{trouble}\n{json.dumps(list(queuekit.rows(node).values()), indent=1)[:4000]}\n"
                             f"{node.log()[-3000:]}") from trouble


@pytest.fixture
def node(tmp_path):
    daemon = queuekit.start(tmp_path, gpus=",".join(f"1x{mib}" for mib in CARDS))
    yield daemon
    queuekit.close(daemon)


def test_a_crowd(node):
    jobs = list(crowd(7))
    arrive(node, jobs, 60, 7)
    settle(node, jobs)
    look_back(node, jobs)


def test_a_crowd_while_the_daemon_is_killed(node):
    jobs = list(crowd(11))
    people = threading.Thread(target=arrive, args=(node, jobs, 40, 11))
    people.start()
    chance = random.Random(3)
    while people.is_alive():
        time.sleep(chance.uniform(2, 5))
        node.kill9()
        node.start()
    people.join()
    settle(node, jobs)
    look_back(node, jobs)


def test_a_large_collection_goes_in_turns_that_others_need_not_wait_for(own_daemon):
    many = 1000
    path = "/api/v1/namespaces/default/configmaps"
    for i in range(many):
        own_daemon.post(path, {"metadata": {"name": f"c{i}"}, "data": {"k": "x" * 500}})
    own_daemon.get("/v1/status")  # forgets the longest turn so far
    answer = own_daemon.request("DELETE", path)
    assert answer.code == 200 and len(answer.json()["items"]) == many
    assert own_daemon.get(path)["items"] == []
    longest = own_daemon.get("/v1/status")["longestTurnMicros"]
    assert longest <= 20000, longest
