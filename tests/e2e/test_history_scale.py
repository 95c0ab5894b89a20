"""Years of records do not hold up the daemon: they are read beside the loop, in pieces, and all of them count."""

import csv
import datetime
import io
import json
import sqlite3
import threading
import time
import zlib

import pytest

import harness
from pulse import Pulse

JOBS = 200_000
SPANS = 200_000
DAYS = 100
USERS = 40
DAY_MS = 86_400_000


def row_sum(*values):
    total = 0
    for value in values:
        data = value.to_bytes(8, "little", signed=True) if isinstance(value, int) else value.encode() + b"\0"
        total = zlib.crc32(data, total)
    return total


def records(now_ms):
    """Each job ran for an hour on a card. They ended evenly over the days before now."""
    seq = 0
    step = DAYS * DAY_MS // JOBS
    for i in range(JOBS):
        end = now_ms - (JOBS - i) * step
        user = f"user{i % USERS}"
        uid = f"{i:08x}-0000-4000-8000-000000000000"
        doc = {"id": uid, "kind": "Pod", "namespace": user, "name": f"job-{i}", "user": user,
               "state": "Failed" if i % 1000 == 0 else "Succeeded", "gpus": 1, "waitedSeconds": i % 100,
               "reason": "finished", "image": "registry.example/lab/torch:2.1"}
        for kind, start, until, tag, text in ((7, end, 0, doc["state"], json.dumps(doc)),
                                              (2, end - 3_600_000, end, "node", json.dumps({"index": i % 8, "mib": 8000, "name": doc["name"]}))):
            seq += 1
            yield (seq, kind, start, until, uid, user, tag, text, row_sum(seq, kind, start, until, uid, user, tag, text))


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    folder = tmp_path_factory.mktemp("years")
    with harness.Daemon(folder, "--agent", "off") as first:
        data = first.data
    now_ms = int(time.time() * 1000)
    with sqlite3.connect(data / "berth.db") as db:
        db.executemany("INSERT INTO record (seq, type, time, until, job, user, tag, doc, sum) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                       records(now_ms))
    db.close()
    with harness.Daemon(folder, "--agent", "off") as daemon:
        daemon.now_ms = now_ms
        yield daemon


def when(ms):
    return datetime.datetime.fromtimestamp(ms / 1000, datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def test_every_record_counts(lab):
    since = when(lab.now_ms - (DAYS + 2) * DAY_MS)
    rows = lab.get(f"/v1/usage?by=day&from={since}")["rows"]
    assert sum(row["jobs"] for row in rows) == JOBS
    assert sum(row["gpuHours"] for row in rows) == pytest.approx(SPANS, rel=1e-6)
    weeks = lab.get(f"/v1/usage?from={since}")["rows"]
    assert sum(row["jobs"] for row in weeks) == JOBS
    middle = [row for row in weeks if row["jobs"] > 300]
    assert middle and all(abs(row["waitMedian"] - 50) < 50 for row in middle)


def test_a_csv_has_all_of_them_newest_first(lab):
    answer = lab.request("GET", "/v1/history?format=csv")
    lines = list(csv.DictReader(io.StringIO(answer.body.decode())))
    assert [line["name"] for line in lines] == [f"job-{i}" for i in reversed(range(JOBS))]
    assert len(lab.request("GET", "/v1/history?format=csv&limit=2500").body.decode().splitlines()) == 2501


def test_pages_follow_one_another(lab):
    names, after = [], ""
    for _ in range(4):
        page = lab.get(f"/v1/history?state=Failed&limit=60{after}")
        names += [job["name"] for job in page["jobs"]]
        after = f"&after={page['next']}"
        if not page["next"]:
            break
    assert names == [f"job-{i}" for i in reversed(range(0, JOBS, 1000))]


def test_an_old_job_is_found_by_name_and_by_id(lab):
    row = lab.get("/v1/queue/job-17")
    assert row["id"].startswith("00000011") and row["state"] == "Succeeded" and row["history"] == [] and row["metrics"] == {}
    assert lab.get(f"/v1/queue/{row['id']}")["name"] == lab.get("/v1/queue/user17/job-17")["name"] == "job-17"
    assert "there is no job 'user1/job-17'" in lab.request("GET", "/v1/queue/user1/job-17").body.decode()
    assert lab.get("/v1/queue/job-17/why")["text"].startswith("job-17 is Succeeded")


@pytest.mark.plain  # about times
def test_the_daemon_answers_while_all_of_it_is_read(lab):
    since = when(lab.now_ms - (DAYS + 2) * DAY_MS)
    paths = ["/v1/history?format=csv", f"/v1/usage?by=day&from={since}", "/v1/history?mine=1",
             f"/v1/nodes/timeline?from={since}", "/v1/queue/job-1"]
    failed = []

    def read(path):
        answer = lab.request("GET", path)
        if answer.code != 200:
            failed.append((path, answer.code, answer.body[:200]))

    threads = [threading.Thread(target=read, args=(path,)) for path in paths]
    with Pulse(lab) as pulse:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert not failed
    pulse.check(p99=0.02)


@pytest.mark.plain  # about times
def test_who_leaves_ends_the_read(lab):
    """The reads of clients that have left do not keep the next one waiting."""
    for _ in range(30):
        link = lab.connect("unix", timeout=60)
        link.request("GET", "/v1/history?format=csv")
        link.close()
    start = time.monotonic()
    assert lab.get("/v1/queue/job-5")["name"] == "job-5"
    assert time.monotonic() - start < 2 * harness.PATIENCE


@pytest.mark.plain  # about times
def test_writes_go_on_and_the_log_of_changes_stays_short(lab):
    """Readers hold nothing for long: what is written meanwhile is put into the file."""
    over = threading.Event()

    def read():
        while not over.is_set():
            assert lab.request("GET", "/v1/usage?by=day&from=2020-01-01T00:00:00Z").code == 200

    threads = [threading.Thread(target=read) for _ in range(3)]
    for thread in threads:
        thread.start()
    try:
        text = "x" * 200_000
        for i in range(300):  # 60 MB
            lab.request("DELETE", "/api/v1/namespaces/default/configmaps/big")
            answer = lab.request("POST", "/api/v1/namespaces/default/configmaps",
                                 {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "big"}, "data": {"x": text + str(i)}})
            assert answer.code == 201
    finally:
        over.set()
        for thread in threads:
            thread.join()
    assert (lab.data / "berth.db-wal").stat().st_size < 48 << 20
