"""Attacks through the network: names and addresses of others, requests that berthd makes for a pod, what TLS and HTTP offer."""

import socket
import ssl
import urllib.parse

import harness
import podkit
import pytest

import attackkit

pytestmark = podkit.needs


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    with attackkit.lab(tmp_path_factory.mktemp("berth")) as running:
        yield running


@pytest.mark.parametrize("host", ["127.0.0.1", "127.1.2.3", "localhost", "0.0.0.0", "::1", "::ffff:127.0.0.1", "[::]"])
@pytest.mark.parametrize("how", ["tcpSocket", "httpGet"])
def test_a_probe_does_not_reach_the_machines_loopback(lab, host, how):
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as listener:
        if family == socket.AF_INET6:
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        listener.bind(("::" if family == socket.AF_INET6 else "0.0.0.0", 0))
        listener.listen()
        port = listener.getsockname()[1]
        name = f"probe-{how.lower()}-{abs(hash(host)) % 100000}"
        lab.ann.create(podkit.pod(name, "sleep 1000", readinessProbe={how: {"host": host, "port": port}, "periodSeconds": 1}))
        events = f"/api/v1/namespaces/{lab.ann.name}/events?fieldSelector=involvedObject.name={name}"
        harness.wait(lambda: [e for e in lab.node.get(events)["items"] if e["reason"] == "Unhealthy"], "the probe fails")
        listener.setblocking(False)
        with pytest.raises(BlockingIOError):
            listener.accept()
    lab.node.request("DELETE", f"/api/v1/namespaces/{lab.ann.name}/pods/{name}?gracePeriodSeconds=0")


def test_a_service_takes_no_short_name_in_others_pods(lab):
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "hub"},
               "spec": {"selector": {"app": "hub"}, "ports": [{"port": 80}]}}
    lab.bob.create(service, ns=attackkit.SHARED)
    ip = lab.node.get(f"/api/v1/namespaces/{attackkit.SHARED}/services/hub")["spec"]["clusterIP"]
    lab.ann.create(podkit.pod("asks", "until grep -q hub.lab.svc /etc/hosts; do sleep 0.05; done; cat /etc/hosts"), ns=attackkit.SHARED)
    lab.bob.create(podkit.pod("asks-own", "until grep -q hub.lab.svc /etc/hosts; do sleep 0.05; done; cat /etc/hosts"), ns=attackkit.SHARED)
    names = lambda pod: [line.split()[1:] for line in lab.output(pod, attackkit.SHARED).splitlines() if line.startswith(ip)]
    assert names("asks") == [["hub.lab.svc", "hub.lab.svc.cluster.local"]]
    assert names("asks-own") == [["hub", "hub.lab", "hub.lab.svc", "hub.lab.svc.cluster.local"]]
    lab.node.request("DELETE", f"/api/v1/namespaces/{attackkit.SHARED}/services/hub")


def test_tls_offers_no_cbc(lab):
    address = urllib.parse.urlsplit(lab.node.https)
    for ciphers, works in (("ECDHE-ECDSA-AES256-SHA384:ECDHE-ECDSA-AES128-SHA:ECDHE-RSA-AES256-SHA384:ECDHE-RSA-AES128-SHA:AES128-SHA", False),
                           ("ECDHE+AESGCM", True)):
        context = ssl.create_default_context(cafile=str(lab.node.ca))
        context.maximum_version = ssl.TLSVersion.TLSv1_2
        context.set_ciphers(ciphers + ":@SECLEVEL=0")
        with socket.create_connection((address.hostname, address.port)) as raw:
            try:
                with context.wrap_socket(raw, server_hostname=address.hostname):
                    assert works
            except ssl.SSLError:
                assert not works


def test_no_answer_is_sniffed(lab):
    lab.ann.create(podkit.pod("page", "echo '<script>alert(1)</script>'"))
    lab.output("page", lab.ann.name)
    for path in (f"/api/v1/namespaces/{lab.ann.name}/pods/page/log", "/v1/history?format=csv", "/v1/queue", "/healthz", "/", "/nowhere"):
        answer = lab.node.request("GET", path)
        assert answer.headers.get_all("X-Content-Type-Options") == ["nosniff"], path
