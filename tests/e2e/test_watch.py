"""Lists and watches over plain HTTP: pages, selectors, resuming, bookmarks, what is too old."""

import contextlib
import json
import re
import socket

import pytest

import harness


def configmap(name, **labels):
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "labels": labels}}


class Watch:
    """An open watch: events one by one."""

    def __init__(self, daemon, path, **headers):
        self.connection = daemon.connect("unix", timeout=20)
        self.connection.request("GET", path, headers=headers)
        self.response = self.connection.getresponse()
        self.code = self.response.status

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.connection.close()

    def next(self):
        """The next event; None at the end of the stream."""
        line = self.response.readline()
        return json.loads(line) if line else None

    def names(self, count):
        events = [self.next() for _ in range(count)]
        return [(e["type"], e["object"]["metadata"]["name"]) for e in events]


def send_all(daemon, method, target, bodies, content_type="application/json", code=b" 201 "):
    """One request per body, a hundred of them under way at once."""
    with contextlib.closing(socket.socket(socket.AF_UNIX)) as link:
        link.connect(daemon.socket)
        answers = link.makefile("rb")
        for first in range(0, len(bodies), 100):
            batch = bodies[first:first + 100]
            for body in batch:
                text = json.dumps(body)
                link.sendall(f"{method} {target} HTTP/1.1\r\nHost: x\r\nContent-Type: {content_type}\r\n"
                             f"Content-Length: {len(text)}\r\n\r\n{text}".encode())
            for _ in batch:
                assert code in answers.readline()
                length = 0
                while (line := answers.readline().strip()):
                    if line.lower().startswith(b"content-length:"):
                        length = int(line.split(b":")[1])
                answers.read(length)


def path(ns, query=""):
    return f"/api/v1/namespaces/{ns}/configmaps{query}"


def test_watch_tells_of_every_change_in_order(daemon, ns):
    revision = daemon.get(path(ns))["metadata"]["resourceVersion"]
    with Watch(daemon, path(ns, f"?watch=1&resourceVersion={revision}")) as watch:
        daemon.post(path(ns), configmap("a"))
        daemon.request("PATCH", path(ns, "/a"), '{"data":{"x":"1"}}', {"Content-Type": "application/merge-patch+json"})
        daemon.request("DELETE", path(ns, "/a"))
        assert watch.names(3) == [("ADDED", "a"), ("MODIFIED", "a"), ("DELETED", "a")]


def test_watch_without_a_version_starts_with_what_is_there(daemon, ns):
    daemon.post(path(ns), configmap("a"))
    daemon.post(path(ns), configmap("b"))
    for query in ("?watch=true", "?watch=true&resourceVersion=0"):
        with Watch(daemon, path(ns, query)) as watch:
            assert watch.names(2) == [("ADDED", "a"), ("ADDED", "b")]


def test_entering_and_leaving_a_selector_are_added_and_deleted(daemon, ns):
    revision = daemon.get(path(ns))["metadata"]["resourceVersion"]
    with Watch(daemon, path(ns, f"?watch=1&resourceVersion={revision}&labelSelector=in%3Dyes")) as watch:
        made = daemon.post(path(ns), configmap("a"))
        patch = {"Content-Type": "application/merge-patch+json"}
        daemon.request("PATCH", path(ns, "/a"), '{"metadata":{"labels":{"in":"yes"}}}', patch)
        left = daemon.request("PATCH", path(ns, "/a"), '{"metadata":{"labels":{"in":"no"}}}', patch).json()
        assert watch.next()["type"] == "ADDED"
        event = watch.next()
        assert event["type"] == "DELETED"
        assert event["object"]["metadata"]["labels"] == {"in": "yes"}
        assert event["object"]["metadata"]["resourceVersion"] == left["metadata"]["resourceVersion"]
        assert made["metadata"]["resourceVersion"] != left["metadata"]["resourceVersion"]


def test_initial_events_end_with_a_bookmark(daemon, ns):
    daemon.post(path(ns), configmap("a"))
    query = "?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
    with Watch(daemon, path(ns, query)) as watch:
        assert watch.names(1) == [("ADDED", "a")]
        mark = watch.next()
        assert mark["type"] == "BOOKMARK"
        assert mark["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}
        daemon.post(path(ns), configmap("b"))
        assert watch.names(1) == [("ADDED", "b")]


def test_initial_events_need_the_right_match(daemon, ns):
    answer = daemon.request("GET", path(ns, "?watch=1&sendInitialEvents=true"))
    assert answer.code == 422
    assert "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan" in answer.json()["message"]


def test_a_watch_ends_at_its_time(daemon, ns):
    with Watch(daemon, path(ns, "?watch=1&timeoutSeconds=1")) as watch:
        assert watch.next() is None


def test_table_watch_names_its_columns_once(daemon, ns):
    revision = daemon.get(path(ns))["metadata"]["resourceVersion"]
    accept = {"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}
    with Watch(daemon, path(ns, f"?watch=1&resourceVersion={revision}"), **accept) as watch:
        daemon.post(path(ns), configmap("a"))
        daemon.post(path(ns), configmap("b"))
        first, second = watch.next()["object"], watch.next()["object"]
        assert [c["name"] for c in first["columnDefinitions"]] == ["Name", "Data", "Age"]
        assert second["columnDefinitions"] is None
        assert second["rows"][0]["cells"][:2] == ["b", 0]


def test_a_version_before_the_window_is_gone(own_daemon):
    start = own_daemon.get("/api/v1/configmaps")["metadata"]["resourceVersion"]
    own_daemon.post(path("default"), configmap("busy"))
    send_all(own_daemon, "PATCH", path("default", "/busy"), [{"data": {"n": str(i)}} for i in range(21000)],
             "application/merge-patch+json", b" 200 ")
    with Watch(own_daemon, path("default", f"?watch=1&resourceVersion={start}")) as watch:
        event = watch.next()
        assert event["type"] == "ERROR"
        assert (event["object"]["code"], event["object"]["reason"]) == (410, "Expired")
        assert re.match(r"too old resource version: \d+ \(\d+\)", event["object"]["message"])
        assert watch.next() is None


def test_a_version_of_the_future_is_refused_by_lists(daemon, ns):
    answer = daemon.request("GET", path(ns, "?resourceVersion=999999999"))
    assert (answer.code, answer.json()["reason"]) == (504, "Timeout")
    assert answer.json()["message"].startswith("Too large resource version: 999999999")


def test_pages(daemon, ns):
    for i in range(25):
        daemon.post(path(ns), configmap(f"c{i:02}"))
    seen, token, revisions = [], "", set()
    while True:
        page = daemon.get(path(ns, f"?limit=10&continue={token}"))
        seen += [item["metadata"]["name"] for item in page["items"]]
        revisions.add(page["metadata"]["resourceVersion"])
        token = page["metadata"].get("continue", "")
        if not token:
            break
        assert page["metadata"]["remainingItemCount"] == 25 - len(seen)
    assert seen == [f"c{i:02}" for i in range(25)]
    assert len(revisions) == 1
    assert daemon.request("GET", path(ns, "?limit=10&continue=rubbish")).code == 400


def test_a_watch_goes_on_after_a_restart_and_after_a_crash(own_daemon):
    daemon = own_daemon
    start = daemon.get("/api/v1/configmaps")["metadata"]["resourceVersion"]
    daemon.post(path("default"), configmap("a"))
    daemon.post(path("default"), configmap("b"))
    daemon.request("DELETE", path("default", "/a"))
    daemon.restart()
    daemon.post(path("default"), configmap("c"))
    daemon.kill9()
    daemon.start()
    with Watch(daemon, path("default", f"?watch=1&resourceVersion={start}")) as watch:
        assert watch.names(4) == [("ADDED", "a"), ("ADDED", "b"), ("DELETED", "a"), ("ADDED", "c")]


def test_open_watches_do_not_hold_up_the_end(own_daemon):
    with contextlib.ExitStack() as stack:
        watches = [stack.enter_context(Watch(own_daemon, "/api/v1/pods?watch=1")) for _ in range(20)]
        code, seconds = own_daemon.stop()
        assert code == 0 and seconds < 1
        assert all(w.next() is None for w in watches)


@pytest.fixture(scope="module")
def full(tmp_path_factory):
    """A daemon with 5,000 pods."""
    with harness.Daemon(tmp_path_factory.mktemp("full")) as daemon:
        spec = {"schedulerName": "none", "containers": [{"name": "c", "image": "busybox:1"}]}
        send_all(daemon, "POST", "/api/v1/namespaces/default/pods",
                 [{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": f"p{i:04}", "labels": {"n": str(i % 10)}},
                   "spec": spec} for i in range(5000)])
        yield daemon


def test_five_thousand_pods_are_listed(full):
    items = full.get("/api/v1/pods")["items"]
    assert [i["metadata"]["name"] for i in items] == [f"p{i:04}" for i in range(5000)]
    table = full.request("GET", "/api/v1/pods", headers={"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}).json()
    assert len(table["rows"]) == 5000
    assert len(full.get("/api/v1/pods?labelSelector=n%3D3")["items"]) == 500


def test_kubectl_gets_five_thousand_pods(full):
    out = full.kubectl("get", "pods", "--no-headers").ok()
    assert len(out.splitlines()) == 5000


def test_five_thousand_pods_survive_a_restart(full):
    before = full.get("/api/v1/pods")["metadata"]["resourceVersion"]
    full.restart()
    assert len(full.get("/api/v1/pods")["items"]) == 5000
    assert int(full.get("/api/v1/pods")["metadata"]["resourceVersion"]) >= int(before)
