"""What pods may say beyond a command: hooks, probes of every kind, files that change while the pod runs,
names, shared processes, limits of disk. All on real containers."""

import json
import os
import subprocess

import pytest

import harness
from podkit import close, create, needs, phase, pod, start, state, until

pytestmark = needs


@pytest.fixture(scope="module")
def node(tmp_path_factory):
    daemon = start(tmp_path_factory.mktemp("features"))
    yield daemon
    close(daemon)


def logs(node, name, *more):
    return node.kubectl("logs", name, *more).ok()


def event(node, name, text, timeout=20):
    """Waits for an event of the pod that has this text."""
    harness.wait(lambda: text in node.kubectl("get", "events", "--field-selector",
                                              f"involvedObject.name={name}").out, f"{name}: {text}", timeout)


def share(node, name):
    """A folder of this machine, and the volume and mount for it."""
    folder = node.folder / name
    folder.mkdir()
    return folder, {"name": "h", "hostPath": {"path": str(folder)}}, {"name": "h", "mountPath": "/h"}


def test_hooks(node):
    folder, volume, mount = share(node, "hooks")
    server = "cd /h; python3 -m http.server 8080 2>/h/requests"
    create(node,
           pod("hooked", f"trap 'exit 0' TERM; {server} & echo ran > /h/main; wait", "Always",
               spec={"volumes": [volume], "terminationGracePeriodSeconds": 5}, volumeMounts=[mount],
               lifecycle={"postStart": {"exec": {"command": [
                   "sh", "-c", "while ! [ -e /h/main ]; do sleep .05; done; echo post > /h/post"]}},
                          "preStop": {"httpGet": {"path": "/bye", "port": 8080}}}),
           pod("unhooked", "sleep 1000", spec={"terminationGracePeriodSeconds": 0},
               lifecycle={"postStart": {"exec": {"command": ["false"]}}}))
    phase(node, "hooked", "Running")
    assert (folder / "post").read_text() == "post\n"
    harness.wait(lambda: node.kubectl("exec", "hooked", "--", "bash", "-c", "exec 3<>/dev/tcp/127.0.0.1/8080")
                 .code == 0, "the server listens")
    node.kubectl("delete", "pod", "hooked", timeout=30).ok()
    assert "GET /bye" in (folder / "requests").read_text()
    phase(node, "unhooked", "Failed")
    event(node, "unhooked", "FailedPostStartHook")


HTTPS = """
import http.server, ssl
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        well = self.headers.get("X-Key") == "open" and self.headers.get("Host") == "inner.example"
        self.send_response(200 if well else 403)
        self.end_headers()
server = http.server.HTTPServer(("127.0.0.1", 8443), Handler)
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain("/h/cert", "/h/key")
server.socket = context.wrap_socket(server.socket, server_side=True)
server.serve_forever()
"""

GRPC = """
import socket
server = socket.create_server(("127.0.0.1", 9000))
while True:
    client, _ = server.accept()
    got = b""
    while b"ready-check" not in got:
        got += client.recv(4096)
    frame = lambda kind, flags, stream, data: len(data).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + data
    client.sendall(frame(4, 0, 0, b"") + frame(1, 4, 1, b"\\x88") + frame(0, 0, 1, b"\\0\\0\\0\\0\\2\\x08\\1"))
    client.recv(4096)
    client.close()
"""


def test_probes_over_https_and_grpc(node):
    folder, volume, mount = share(node, "https")
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=x", "-days", "2",
                    "-keyout", folder / "key", "-out", folder / "cert"], check=True, capture_output=True)
    (folder / "https.py").write_text(HTTPS)
    (folder / "grpc.py").write_text(GRPC)
    headers = [{"name": "X-Key", "value": "open"}, {"name": "Host", "value": "inner.example"}]
    probe = {"periodSeconds": 1, "timeoutSeconds": 5, "failureThreshold": 30}
    spec = {"volumes": [volume], "terminationGracePeriodSeconds": 0}
    create(node,
           pod("https", ["python3", "/h/https.py"], "Always", spec=spec, volumeMounts=[mount],
               readinessProbe={**probe, "httpGet": {"scheme": "HTTPS", "port": 8443, "httpHeaders": headers}}),
           pod("grpc", ["python3", "/h/grpc.py"], "Always", spec=spec, volumeMounts=[mount],
               readinessProbe={**probe, "grpc": {"port": 9000, "service": "ready-check"}}))
    node.kubectl("wait", "--for=condition=Ready", "pod/https", "pod/grpc", "--timeout=30s").ok()


def test_files_of_maps_and_secrets_change_at_once(node):
    create(node,
           {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "live"}, "data": {"a": "1", "b": "x"}},
           {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "lives"}, "stringData": {"t": "one"}},
           pod("watcher", "sleep 1000",
               spec={"terminationGracePeriodSeconds": 0, "serviceAccountName": "default", "volumes": [
                   {"name": "m", "configMap": {"name": "live"}},
                   {"name": "p", "projected": {"sources": [
                       {"secret": {"name": "lives"}},
                       {"serviceAccountToken": {"path": "token"}},
                       {"downwardAPI": {"items": [{"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}}]}}]}}]},
               volumeMounts=[{"name": "m", "mountPath": "/m"}, {"name": "p", "mountPath": "/p"},
                             {"name": "m", "mountPath": "/one", "subPath": "a"}]))
    phase(node, "watcher", "Running")

    def cat(*files):
        return node.kubectl("exec", "watcher", "--", "cat", *files).out
    assert cat("/m/a", "/m/b", "/one", "/p/t", "/p/token", "/p/labels") == "1x1one"
    node.kubectl("patch", "configmap", "live", "-p", '{"data": {"a": "2", "b": null, "c": "new"}}').ok()
    node.kubectl("patch", "secret", "lives", "-p", '{"stringData": {"t": "two"}}').ok()
    node.kubectl("label", "pod", "watcher", "x=y").ok()
    harness.wait(lambda: cat("/m/a", "/m/c", "/p/t", "/p/labels") == '2newtwox="y"', "the files change", 5)
    assert cat("/one") == "1"  # a subPath stays as it was
    assert node.kubectl("exec", "watcher", "--", "ls", "/m").ok().split() == ["a", "c"]


def test_termination_message(node):
    create(node,
           pod("long", "head -c 9000 /dev/zero | tr '\\0' m > /dev/termination-log"),
           pod("fallback", "echo why it failed; exit 1", terminationMessagePolicy="FallbackToLogsOnError"),
           pod("nofall", "echo fine", terminationMessagePolicy="FallbackToLogsOnError"))
    assert state(phase(node, "long", "Succeeded"))["terminated"]["message"] == "m" * 4096
    assert state(phase(node, "fallback", "Failed"))["terminated"]["message"] == "why it failed\n"
    assert "message" not in state(phase(node, "nofall", "Succeeded"))["terminated"]


def test_names_and_dns(node):
    create(node, pod("names", "hostname; cat /etc/hosts /etc/resolv.conf", spec={
        "hostname": "alpha", "subdomain": "greek", "hostAliases": [{"ip": "192.0.2.9", "hostnames": ["nine"]}],
        "dnsPolicy": "None", "dnsConfig": {"nameservers": ["192.0.2.53"], "searches": ["lab.example"],
                                           "options": [{"name": "ndots", "value": "2"}]}}))
    phase(node, "names", "Succeeded")
    text = logs(node, "names")
    assert text.startswith("alpha\n") and "alpha.greek.default.svc.cluster.local\talpha" in text
    assert "192.0.2.9\tnine" in text
    assert text.endswith("search lab.example\nnameserver 192.0.2.53\noptions ndots:2\n")
