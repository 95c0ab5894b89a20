"""Services on real pods: cluster addresses, node ports, headless names, and how they follow the pods."""

import json
import shutil
import socket
import subprocess
import urllib.request

import pytest

import harness
import podkit

pytestmark = podkit.needs
VERSIONS = harness.edge_kubectls()  # one reads Endpoints, one slices

# Answers every connection with its own name, on a port and with a readiness that files decide.
SERVER = """
import os, socket, threading
def serve(address):
    s = socket.socket(); s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    s.bind(address); s.listen()
    while True:
        c, _ = s.accept(); c.recv(4096)
        c.sendall(b"HTTP/1.0 200 OK\\r\\n\\r\\n" + os.environ["HOSTNAME"].encode()); c.close()
threading.Thread(target=serve, args=(("127.0.0.1", 9999),), daemon=True).start()
serve(("", 8000))
"""
CLIENT = """
import socket, sys
for _ in range(int(sys.argv[3])):
    try:
        s = socket.create_connection((sys.argv[1], int(sys.argv[2])), 5); s.sendall(b"GET / HTTP/1.0\\r\\n\\r\\n")
        print(b"".join(iter(lambda: s.recv(4096), b"")).split(b"\\r\\n\\r\\n")[1].decode())
    except OSError as e:
        print(type(e).__name__)
"""


@pytest.fixture(scope="module")
def node(tmp_path_factory):
    daemon = podkit.start(tmp_path_factory.mktemp("services"))
    for name in ("web-a", "web-b"):
        podkit.create(daemon, server(name))
    podkit.create(daemon, podkit.pod("client", "exec sleep 1000"))
    for name in ("web-a", "web-b", "client"):
        podkit.phase(daemon, name, "Running")
    yield daemon
    daemon.kubectl("delete", "services", "--all").ok()
    table = f"bth{podkit.suffix(daemon.data)}-services"
    harness.wait(lambda: table not in subprocess.run(["nft", "list", "tables"], capture_output=True,
                                                     text=True, check=True).stdout, "the table is removed")
    podkit.close(daemon)


def server(name, **spec):
    one = podkit.pod(name, ["python3", "-c", SERVER], spec={"terminationGracePeriodSeconds": 0, **spec},
                     ports=[{"name": "http", "containerPort": 8000}])
    one["metadata"]["labels"] = {"app": "web"}
    return one


def service(name, target=8000, selector=None, **spec):
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name},
            "spec": {"selector": selector or {"app": "web"}, **spec,
                     "ports": [{"port": 80, "targetPort": target}]}}


def made(node, one):
    podkit.create(node, one)
    return node.kubectl("get", "service", one["metadata"]["name"], "-o", "json").json()["spec"]


def ask(node, host, port, times=1):
    """Who answered a client in a pod."""
    out = node.kubectl("exec", "client", "--", "python3", "-c", CLIENT, host, str(port), str(times)).ok()
    return out.split()


def asked(node, host, port, want):
    harness.wait(lambda: set(ask(node, host, port, 30)) == want, f"{host}:{port} is answered by {want}")


def test_cluster_address_and_name_lead_to_all_ready_pods(node):
    ip = made(node, service("web", target="http"))["clusterIP"]
    asked(node, ip, 80, {"web-a", "web-b"})
    for name in ("web", "web.default", "web.default.svc", "web.default.svc.cluster.local"):
        harness.wait(lambda n=name: ask(node, n, 80)[0] in ("web-a", "web-b"), f"{name} is reached")
    shown = node.kubectl("describe", "service", "web").ok()
    assert ip in shown and "http/TCP" in shown


def endpoints(node, name):
    """The ready and other addresses of a service, from both kinds of objects, which must agree."""
    got = node.kubectl("get", "endpoints", name, "-o", "json").json().get("subsets", [])
    slices = node.kubectl("get", "endpointslices", "-l", f"kubernetes.io/service-name={name}", "-o", "json").json()
    old = [sorted(a["ip"] for s in got for a in s.get(key, [])) for key in ("addresses", "notReadyAddresses")]
    new = [sorted(a for s in slices["items"] for e in s["endpoints"] if not e["conditions"].get("terminating")
                  and e["conditions"]["ready"] == ready for a in e["addresses"]) for ready in (True, False)]
    return old if old == new else None


def test_endpoints_are_shown_and_follow_the_pods(node):
    made(node, service("shown", target="http", selector={"app": "shown"}))
    for name in ("shown-a", "shown-b"):
        one = server(name)
        one["metadata"]["labels"] = {"app": "shown"}
        one["spec"]["containers"][0]["readinessProbe"] = {
            "exec": {"command": ["test", "-e", "/tmp/ready"]}, "periodSeconds": 1}
        podkit.create(node, one)
    ips = [podkit.phase(node, n, "Running")["status"]["podIP"] for n in ("shown-a", "shown-b")]
    harness.wait(lambda: endpoints(node, "shown") == [[], sorted(ips)], "both are there, not ready")
    node.kubectl("exec", "shown-b", "--", "touch", "/tmp/ready").ok()
    harness.wait(lambda: endpoints(node, "shown") == [[ips[1]], [ips[0]]], "one is ready")
    for version in VERSIONS:
        assert f"{ips[1]}:8000" in node.kubectl("get", "endpoints", "shown", version=version).ok()
        assert ips[1] in node.kubectl("get", "endpointslices", version=version).ok()
        lines = node.kubectl("describe", "service", "shown", version=version).ok().splitlines()
        told = [line.split()[1] for line in lines if line.startswith("Endpoints:")]
        assert told == [f"{ips[1]}:8000"], (version, told)
    node.kubectl("delete", "endpoints", "shown").ok()  # what is Berth's comes back
    harness.wait(lambda: "shown" in node.kubectl("get", "endpoints").ok(), "made again")
    node.kubectl("delete", "pod", "shown-b").ok()
    harness.wait(lambda: endpoints(node, "shown") == [[], [ips[0]]], "the pod that went is not in it")
    node.kubectl("delete", "pod", "shown-a", "--wait=false").ok()
    node.kubectl("delete", "service", "shown").ok()
    harness.wait(lambda: "shown" not in node.kubectl("get", "endpoints,endpointslices").out, "gone with the service")


def test_endpoints_that_somebody_made_stay(node):
    made(node, {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "outside"},
                "spec": {"ports": [{"port": 5432}]}})
    podkit.create(node, {"apiVersion": "v1", "kind": "Endpoints", "metadata": {"name": "outside"},
                         "subsets": [{"addresses": [{"ip": "192.0.2.9"}], "ports": [{"port": 5432}]}]})
    harness.wait(lambda: "192.0.2.9" in node.kubectl("get", "endpointslices").ok(), "shown as a slice, too")
    for version in VERSIONS:
        assert "192.0.2.9:5432" in node.kubectl("describe", "service", "outside", version=version).ok()
    node.kubectl("delete", "service", "outside").ok()
    harness.wait(lambda: "outside" not in node.kubectl("get", "endpoints,endpointslices").out, "gone with the service")


@pytest.mark.parametrize("version", VERSIONS)
def test_commands_that_name_a_service_reach_one_of_its_pods(node, version):
    name = f"named-{(version or 'x').replace('.', '-')}"
    made(node, service(name))
    said = node.kubectl("exec", f"service/{name}", "--", "sh", "-c", "echo $HOSTNAME", version=version).ok()
    assert said.strip() in ("web-a", "web-b")
    node.kubectl("logs", f"service/{name}", version=version).ok()
    node.kubectl("delete", "service", name).ok()


def test_service_follows_its_pods(node):
    made(node, service("moving", selector={"app": "moving"}))
    harness.wait(lambda: "moving" in node.kubectl("exec", "client", "--", "cat", "/etc/hosts").ok(),
                 "the name is there; asked before, the machine's name server is what takes time")
    harness.wait(lambda: ask(node, "moving", 80) == ["ConnectionRefusedError"], "nobody there: refused")
    third = server("web-c")
    third["metadata"]["labels"] = {"app": "moving"}
    third["spec"]["containers"][0]["readinessProbe"] = {
        "exec": {"command": ["test", "-e", "/tmp/ready"]}, "periodSeconds": 1}
    podkit.create(node, third)
    podkit.phase(node, "web-c", "Running")
    assert ask(node, "moving", 80) == ["ConnectionRefusedError"]
    node.kubectl("exec", "web-c", "--", "touch", "/tmp/ready").ok()
    asked(node, "moving", 80, {"web-c"})
    node.kubectl("label", "pod", "web-c", "--overwrite", "app=other").ok()
    asked(node, "moving", 80, {"ConnectionRefusedError"})
    node.kubectl("delete", "pod", "web-c", "--wait=true").ok()
    node.kubectl("delete", "service", "moving").ok()
    harness.wait(lambda: "moving" not in node.kubectl("exec", "client", "--", "cat", "/etc/hosts").ok(),
                 "the name is gone")


@pytest.mark.parametrize("kind", ["NodePort", "LoadBalancer"])
def test_node_port(node, kind):
    name = kind.lower()
    port = made(node, service(name, type=kind))["ports"][0]["nodePort"]
    assert f"80:{port}/TCP" in node.kubectl("get", "service", name).ok()
    host = json.loads(node.kubectl("get", "nodes", "-o", "json").ok())["items"][0]["status"]["addresses"]
    address = [a["address"] for a in host if a["type"] == "InternalIP"][0]

    def get(ip):
        try:
            with urllib.request.urlopen(f"http://{ip}:{port}/", timeout=5) as answer:
                return answer.read().decode()
        except OSError:
            return None
    if kind == "LoadBalancer":
        harness.wait(lambda: node.kubectl("get", "service", name).ok().splitlines()[1].split()[3] == address,
                     "EXTERNAL-IP is the machine's address")
    for ip in ("127.0.0.1", address):
        harness.wait(lambda i=ip: {get(i) for _ in range(20)} == {"web-a", "web-b"}, f"{ip}:{port}")
    asked(node, address, port, {"web-a", "web-b"})
    with pytest.raises(OSError), socket.socket() as other:  # nobody else gets it
        other.bind(("", port))
    node.kubectl("delete", "service", name).ok()
    harness.wait(lambda: get("127.0.0.1") is None, "the node port is closed")


def test_headless_service_names_every_pod(node):
    made(node, service("ring", selector={"app": "ring"}, clusterIP="None", publishNotReadyAddresses=True))
    for name in ("ring-0", "ring-1"):
        one = server(name, hostname=name, subdomain="ring")
        one["metadata"]["labels"] = {"app": "ring"}
        podkit.create(node, one)
    ips = [podkit.phase(node, n, "Running")["status"]["podIP"] for n in ("ring-0", "ring-1")]

    def lookup(name):
        return node.kubectl("exec", "client", "--", "getent", "ahostsv4", name).out.split()
    for name, ip in zip(("ring-0", "ring-1"), ips):
        harness.wait(lambda n=name, i=ip: i in lookup(f"{n}.ring.default.svc"), f"{name} has its name")
    harness.wait(lambda: set(ips) <= set(lookup("ring")), "both are under the service's name")
    assert ask(node, "ring-1.ring", 8000) == ["ring-1"]
    own = node.kubectl("exec", "ring-0", "--", "hostname", "-f").ok()
    assert own.strip() == "ring-0.ring.default.svc.cluster.local"
    node.kubectl("delete", "pod", "ring-0").ok()
    harness.wait(lambda: ips[0] not in lookup("ring"), "the pod that went is not named any more")


def test_services_go_on_without_the_daemon(node):
    port = made(node, service("steady", type="NodePort"))["ports"][0]["nodePort"]

    def get():
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=5) as answer:
                return answer.read().decode()
        except OSError:
            return None
    harness.wait(lambda: get() in ("web-a", "web-b"), "reached")
    node.stop()
    try:
        assert get() in ("web-a", "web-b")
    finally:
        node.start()
    assert get() in ("web-a", "web-b")
    asked(node, "steady", 80, {"web-a", "web-b"})


def test_host_port_that_is_taken_keeps_a_pod_waiting_and_says_why(node):
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        free = holder.getsockname()[1]
    first, second = server("first"), server("second")
    for one in (first, second):
        one["metadata"]["labels"] = {"app": "port"}
        one["spec"]["containers"][0]["ports"] = [{"containerPort": 8000, "hostPort": free}]
    podkit.create(node, first)
    podkit.phase(node, "first", "Running")
    podkit.create(node, second)
    harness.wait(lambda: f"{free}" in node.kubectl("describe", "pod", "second").ok().split("Events:")[-1],
                 "an event names the port")
    assert podkit.get(node, "second")["status"]["phase"] == "Pending"
    node.kubectl("delete", "pod", "first").ok()
    podkit.phase(node, "second", "Running")


def test_port_forward_to_a_service_and_to_a_listener_on_loopback(node):
    made(node, service("local", target=9999))
    env = node.program_env()
    forward = subprocess.Popen(["kubectl", "port-forward", "service/local", ":80"], env=env, text=True,
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    try:
        line = forward.stdout.readline()
        port = int(line.split("127.0.0.1:")[1].split(" ")[0])
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=5) as answer:
            assert answer.read().decode() in ("web-a", "web-b")
    finally:
        forward.terminate()
        forward.wait(10)
        forward.stdout.close()


def test_without_a_bridge_node_ports_are_served_and_the_rest_is_said(tmp_path):
    if not shutil.which("slirp4netns"):
        pytest.skip("there is no slirp4netns")
    lone = podkit.start(tmp_path, "--network", "slirp")
    try:
        for name in ("web-a", "web-b"):
            podkit.create(lone, server(name))
        for name in ("web-a", "web-b"):
            podkit.phase(lone, name, "Running")
        port = made(lone, service("web", type="LoadBalancer"))["ports"][0]["nodePort"]

        def get():
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=5) as answer:
                    return answer.read().decode()
            except OSError as trouble:
                return type(trouble).__name__
        harness.wait(lambda: {get() for _ in range(4)} == {"web-a", "web-b"}, "both answer by the node port")
        assert "NoClusterAddress" in lone.kubectl("describe", "service", "web").ok()
        harness.wait(lambda: "<pending>" not in lone.kubectl("get", "service", "web").ok(), "it has the machine's address")
        lone.kubectl("delete", "pod", "web-a").ok()
        harness.wait(lambda: {get() for _ in range(4)} == {"web-b"}, "the one that is left answers")
        assert "web" not in lone.kubectl("exec", "web-b", "--", "cat", "/etc/hosts").ok().split("Services")[1:]
    finally:
        podkit.close(lone)
