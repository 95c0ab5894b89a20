"""What others remove under a running daemon is made again within seconds: the bridge, links, firewall rules, the run
folder. Pods that run stay as they are, also when the daemon is started anew in such a state."""

import json
import os
import pathlib
import socket
import subprocess
import urllib.request

import pytest

import harness
import podkit

pytestmark = [podkit.needs, pytest.mark.plain]  # about times: what is gone is back within seconds
NOTICE_SEC = 10

SERVER = """
import os, socket
s = socket.socket(); s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
s.bind(("", 8000)); s.listen()
while True:
    c, _ = s.accept(); c.recv(4096)
    c.sendall(b"HTTP/1.0 200 OK\\r\\n\\r\\n" + os.environ["HOSTNAME"].encode()); c.close()
"""
CLIENT = """
import socket, sys
s = socket.create_connection((sys.argv[1], int(sys.argv[2])), 5); s.sendall(b"GET / HTTP/1.0\\r\\n\\r\\n")
print(b"".join(iter(lambda: s.recv(4096), b"")).split(b"\\r\\n\\r\\n")[1].decode())
"""


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Lab:
    """A server with a host port, a service with a node port, and a client, on a daemon of their own."""

    def __init__(self, folder):
        self.daemon = podkit.start(folder)
        self.bridge = f"bth{podkit.suffix(self.daemon.data)}"
        self.run = pathlib.Path(harness.run_folder(self.daemon.data))
        self.port = free_port()
        server = podkit.pod("server", ["python3", "-c", SERVER], spec={"terminationGracePeriodSeconds": 0},
                            ports=[{"containerPort": 8000, "hostPort": self.port}])
        server["metadata"]["labels"] = {"app": "web"}
        podkit.create(self.daemon, server)
        podkit.create(self.daemon, podkit.pod("client", "exec sleep 1000"))
        for name in ("server", "client"):
            podkit.phase(self.daemon, name, "Running")
        podkit.create(self.daemon, {
            "apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"},
            "spec": {"type": "NodePort", "selector": {"app": "web"}, "ports": [{"port": 80, "targetPort": 8000}]}})
        service = self.daemon.kubectl("get", "service", "web", "-o", "json").json()["spec"]
        self.address, self.node_port = service["clusterIP"], service["ports"][0]["nodePort"]
        self.news = 0
        self.uids = self.pod_uids()
        self.restarts = 0

    def pod_uids(self):
        pods = self.daemon.kubectl("get", "pods", "-o", "json").json()["items"]
        return {p["metadata"]["name"]: (p["metadata"]["uid"], p["status"].get("podIP"),
                                        p["status"]["containerStatuses"][0]["restartCount"],
                                        p["status"]["containerStatuses"][0].get("containerID"))
                for p in pods if p["metadata"]["name"] in ("server", "client")}

    def asked(self, host, port, pod="client"):
        return self.daemon.kubectl("exec", pod, "--", "python3", "-c", CLIENT, host, str(port))

    def here(self, port):
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}", timeout=5) as answer:
                return answer.read().decode()
        except OSError:
            return None

    def whole(self):
        """From pod to pod, by the service, by its node port and by the host port."""
        ip = self.uids["server"][1]
        return (self.here(self.port) == "server" and self.here(self.node_port) == "server" and
                all(self.asked(*to).out.strip() == "server" for to in ((ip, 8000), (self.address, 80))))

    def wait_whole(self):
        harness.wait(self.whole, "the server answers on all ways", NOTICE_SEC)

    def check(self):
        """Old pods are untouched and reachable, a new one works, and its end is told."""
        self.wait_whole()
        assert self.pod_uids() == self.uids
        self.news += 1
        name = f"new-{self.news}"
        podkit.create(self.daemon, podkit.pod(name, "exec sleep 1000", spec={"terminationGracePeriodSeconds": 0}))
        podkit.phase(self.daemon, name, "Running")
        assert self.asked(self.address, 80, pod=name).ok().strip() == "server"
        self.daemon.kubectl("delete", "pod", name).ok()
        once = f"once-{self.news}"
        podkit.create(self.daemon, podkit.pod(once, "exit 7"))
        podkit.phase(self.daemon, once, "Failed")
        pod = self.daemon.kubectl("get", "pod", once, "-o", "json").json()
        assert pod["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 7
        self.daemon.kubectl("delete", "pod", once).ok()

    def said(self, reason):
        """How often the Node's events have said so, and what."""
        events = [e for e in self.daemon.kubectl("get", "events", "-o", "json").json()["items"]
                  if e["reason"] == reason and e["involvedObject"]["kind"] == "Node"]
        return sum(e["count"] for e in events), "\n".join(e["message"] for e in events)

    def told(self, reason, words, fault):
        """Does it, and waits until an event and the doctor tell of the repair."""
        before, _ = self.said(reason)
        fault()

        def found():
            count, text = self.said(reason)
            return count > before and words in text
        harness.wait(found, f"an event {reason} with '{words}'", NOTICE_SEC)
        doctor = json.loads(self.daemon.berth("doctor", "-o", "json").out)["items"]
        row = next(r for r in doctor if r["check"] == "repairs")
        assert row["result"] == "warn" and "made again" in row["text"], row

    def remove_files(self, *names):
        """As cleaners do it: they stay on the file system and leave mount points."""
        for name in names or ("",):
            subprocess.run(["find", str(self.run / name), "-xdev", "-depth", "-mindepth", "0" if name else "1", "-delete"],
                           check=False, capture_output=True)


@pytest.fixture(scope="module")
def module_lab(tmp_path_factory):
    one = Lab(tmp_path_factory.mktemp("repair"))
    yield one
    one.daemon.kubectl("delete", "services", "web").ok()
    one.daemon.kubectl("delete", "pods", "--all", "--grace-period=0", "--force").ok()
    podkit.close(one.daemon)


@pytest.fixture
def lab(module_lab):
    """With its daemon up before and after each test, whatever became of the test."""
    daemon = module_lab.daemon
    yield module_lab
    crashed = daemon.process is not None and not daemon.running()
    if not daemon.running():
        daemon.kill9()
        daemon.start()
    assert not crashed, f"berthd ended by itself\n{daemon.log()}"


def do(*command):
    subprocess.run(command, check=True, capture_output=True)


def test_removed_bridge_is_back_with_its_pods(lab):
    lab.told("NetworkRepaired", f"bridge {lab.bridge} was gone", lambda: do("ip", "link", "del", lab.bridge))
    lab.check()


def test_removed_link_of_a_pod_is_back(lab):
    links = json.loads(subprocess.run(["ip", "-j", "link", "show", "master", lab.bridge], check=True,
                                      capture_output=True, text=True).stdout)
    name = next(l["ifname"] for l in links if lab.uids["server"][0] in l.get("ifalias", ""))
    lab.told("NetworkRepaired", "network link of 1 running pod", lambda: do("ip", "link", "del", name))
    lab.check()


def test_flushed_rules_are_back(lab):
    for table in (lab.bridge, f"{lab.bridge}-services"):
        for how in ("delete", "flush"):
            lab.told("NetworkRepaired", "nf_tables rules", lambda how=how, table=table: do("nft", how, "table", "ip", table))
            lab.check()


@pytest.mark.parametrize("how", ["bridge", "rules", "links"])
def test_restart_in_a_damaged_network_keeps_pods(lab, how):
    lab.daemon.stop()
    if how == "bridge":
        do("ip", "link", "del", lab.bridge)
    elif how == "rules":
        do("nft", "delete", "table", "ip", lab.bridge)
        do("nft", "delete", "table", "ip", f"{lab.bridge}-services")
    else:
        links = json.loads(subprocess.run(["ip", "-j", "link", "show", "master", lab.bridge], check=True,
                                          capture_output=True, text=True).stdout)
        ours = [uid for uid, *_ in lab.uids.values()]
        running = [l["ifname"] for l in links if any(uid in l.get("ifalias", "") for uid in ours)]
        assert len(running) == len(ours), links
        for name in running:
            do("ip", "link", "del", name)
        # The others are of deleted pods and of spares: the kernel takes them away when their namespaces end.
        for link in links:
            if link["ifname"] not in running:
                subprocess.run(["ip", "link", "del", link["ifname"]], check=False, capture_output=True)
    lab.daemon.start()
    lab.check()


@pytest.mark.parametrize("what", ["containers", "oci", "pods", "python", "everything"])
def test_removed_run_folder_is_back(lab, what):
    lab.told("RunFolderRepaired", str(lab.run), lambda: lab.remove_files(*([] if what == "everything" else [what])))
    lab.check()


@pytest.mark.parametrize("signal", ["TERM", "KILL"])
def test_restart_without_the_run_folder_keeps_pods(lab, signal):
    if signal == "TERM":
        lab.daemon.stop()
    else:
        lab.daemon.kill9()
    lab.remove_files()
    lab.daemon.start()
    lab.check()


def test_service_names_reach_pods_whose_files_were_removed(lab):
    lab.told("RunFolderRepaired", "running pod", lambda: lab.remove_files("pods"))
    podkit.create(lab.daemon, {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "later"},
                               "spec": {"selector": {"app": "web"}, "ports": [{"port": 80, "targetPort": 8000}]}})
    harness.wait(lambda: lab.asked("later", 80).out.strip() == "server", "the new name is known in the old pod", NOTICE_SEC)
    lab.daemon.kubectl("delete", "service", "later").ok()


def is_mounted(path):
    return any(line.split()[4] == str(path) for line in pathlib.Path("/proc/self/mountinfo").read_text().splitlines())


@pytest.mark.parametrize("restart", [False, True])
def test_unmounted_run_folder_is_back(lab, restart):
    if not is_mounted(lab.run):
        pytest.skip(f"nothing is mounted at {lab.run}")
    def unmount():
        do("umount", "-l", str(lab.run))
    if restart:
        lab.daemon.stop()
        unmount()
        lab.daemon.start()
    else:
        lab.told("RunFolderRepaired", str(lab.run), unmount)
    lab.check()


def test_bridge_and_run_folder_gone_at_once_keep_pods_over_a_restart(lab):
    lab.daemon.kill9()
    do("ip", "link", "del", lab.bridge)
    lab.remove_files()
    lab.daemon.start()
    lab.check()


def test_removed_socket_is_back(tmp_path):
    with harness.Daemon(tmp_path) as daemon:
        os.unlink(daemon.socket)
        harness.wait(lambda: os.path.exists(daemon.socket), "the socket is there again", NOTICE_SEC)
        assert daemon.get("/v1/status")["version"]
