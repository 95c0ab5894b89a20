"""kubectl top: processor and memory of real containers and of the node."""

import json

import pytest

import harness
import podkit

pytestmark = podkit.needs


@pytest.fixture(scope="module")
def node(tmp_path_factory):
    daemon = podkit.start(tmp_path_factory.mktemp("top"))
    busy = podkit.pod("busy", "while :; do :; done", spec={"terminationGracePeriodSeconds": 0})
    busy["metadata"]["labels"] = {"is": "busy"}
    busy["spec"]["containers"][0]["resources"] = {"limits": {"cpu": "500m"}}
    busy["spec"]["containers"].append(
        {"name": "fat", "image": "host",
         "command": ["python3", "-c", "import time; kept = bytearray(60 << 20); time.sleep(1000)"]})
    podkit.create(daemon, busy, podkit.pod("still", "exec sleep 1000"), podkit.pod("over", "true"))
    for name in ("busy", "still"):
        podkit.phase(daemon, name, "Running")
    podkit.phase(daemon, "over", "Succeeded")
    yield daemon
    podkit.close(daemon)


def metrics(node, path):
    return json.loads(node.kubectl("get", "--raw", f"/apis/metrics.k8s.io/v1beta1/{path}").ok())


def milli(text):
    return {"n": 1e-6, "u": 1e-3, "m": 1}[text[-1]] * int(text[:-1])


def usage(item):
    return {c["name"]: (milli(c["usage"]["cpu"]), int(c["usage"]["memory"].removesuffix("Ki")) / 1024)
            for c in item["containers"]}


def test_busy_loop_shows_its_share_and_a_big_array_its_size(node):
    def settled():
        item = metrics(node, "namespaces/default/pods/busy")
        used = usage(item)
        # Half a processor where nobody else wants it; a young container's window has its start's own work in it.
        return item if 30 < used["c"][0] < 600 and used["fat"][1] > 60 and used["fat"][0] < 250 else None

    item = harness.wait(settled, "at most half a processor, 60 MiB", 40, 0.2)
    assert item["kind"] == "PodMetrics" and item["metadata"]["labels"] == {"is": "busy"}
    assert float(item["window"].removesuffix("s")) > 0.05
    assert usage(item)["c"][1] < 40 and usage(item)["fat"][1] < 120


def test_list_has_what_runs_and_follows_selectors(node):
    names = [i["metadata"]["name"] for i in metrics(node, "pods")["items"]]
    assert names == ["busy", "still"]
    chosen = metrics(node, "namespaces/default/pods?labelSelector=is%3Dbusy")
    assert [i["metadata"]["name"] for i in chosen["items"]] == ["busy"]
    assert metrics(node, "namespaces/kube-system/pods")["items"] == []
    assert "over" in node.kubectl("get", "--raw", "/apis/metrics.k8s.io/v1beta1/namespaces/default/pods/over").fails()


@pytest.mark.parametrize("version", harness.edge_kubectls())
def test_kubectl_top(node, version):
    rows = [line.split() for line in node.kubectl("top", "pods", "--containers", version=version).ok().splitlines()]
    assert rows[0] == ["POD", "NAME", "CPU(cores)", "MEMORY(bytes)"]
    assert sorted(r[:2] for r in rows[1:]) == [["busy", "c"], ["busy", "fat"], ["still", "c"]]
    by_cpu = node.kubectl("top", "pods", "-A", "--sort-by=cpu", "--no-headers", version=version).ok().splitlines()
    assert by_cpu[0].split()[:2] == ["default", "busy"]
    rows = [line.split() for line in node.kubectl("top", "nodes", version=version).ok().splitlines()]
    assert rows[0][:2] == ["NAME", "CPU(cores)"] and rows[1][1].endswith("m")
    assert int(rows[1][1][:-1]) > 30 and int(rows[1][3].removesuffix("Mi")) > 60
