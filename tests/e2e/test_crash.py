"""kill -9 at any moment: what was acknowledged is there, versions never go back, watches resume."""

import contextlib
import http.client
import json
import random
import threading

import pytest


def writer(daemon, number, acknowledged, stop):
    """Creates and changes objects until the daemon is gone; remembers what it was told."""
    made = 0
    with contextlib.suppress(OSError, http.client.HTTPException):
        with contextlib.closing(daemon.connect("unix", timeout=10)) as connection:
            while not stop.is_set():
                name = f"w{number}-{made}"
                made += 1
                body = json.dumps({"metadata": {"name": name}, "data": {"n": str(made)}})
                connection.request("POST", "/api/v1/namespaces/default/configmaps", body,
                                   {"Content-Type": "application/json"})
                answer = connection.getresponse()
                doc = json.loads(answer.read())
                if answer.status == 201:
                    acknowledged[name] = int(doc["metadata"]["resourceVersion"])
                if made % 3 == 0:
                    connection.request("DELETE", f"/api/v1/namespaces/default/configmaps/{name}")
                    answer = connection.getresponse()
                    answer.read()
                    if answer.status == 200:
                        acknowledged[name] = None  # gone


@pytest.mark.parametrize("seed", range(5))
def test_nothing_acknowledged_is_lost(own_daemon, seed):
    daemon, rng = own_daemon, random.Random(seed)
    acknowledged, newest = {}, 0
    for turn in range(4):
        stop = threading.Event()
        threads = [threading.Thread(target=writer, args=(daemon, f"{turn}-{i}", acknowledged, stop)) for i in range(4)]
        for thread in threads:
            thread.start()
        target = len(acknowledged) + rng.randint(20, 200)
        while len(acknowledged) < target and any(t.is_alive() for t in threads):
            stop.wait(0.001)
        daemon.kill9()
        stop.set()
        for thread in threads:
            thread.join()
        daemon.start()
        items = daemon.get("/api/v1/namespaces/default/configmaps")
        there = {i["metadata"]["name"]: int(i["metadata"]["resourceVersion"]) for i in items["items"]}
        for name, version in acknowledged.items():
            if version is None:
                assert name not in there, name
            elif name in there:
                assert there[name] == version
            else:  # deleted without our having heard of it
                assert int(name.rsplit("-", 1)[1]) % 3 == 2, name
        now = int(items["metadata"]["resourceVersion"])
        highest = max([v for v in acknowledged.values() if v] + [newest])
        assert now >= highest
        newest = now
        made = daemon.post("/api/v1/namespaces/default/configmaps", {"metadata": {"generateName": "after-"}})
        assert int(made["metadata"]["resourceVersion"]) > newest
