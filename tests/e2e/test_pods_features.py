"""What pods may say beyond a command: hooks, probes of every kind, files that change while the pod runs,
names, shared processes, limits of disk. All on real containers."""

import http.server
import json
import os
import signal
import socket
import subprocess
import threading

import pytest

import hanging_fs
import harness
from podkit import close, create, get, needs, phase, pod, start, state, until

pytestmark = needs


@pytest.fixture(scope="module")
def node(tmp_path_factory):
    daemon = start(tmp_path_factory.mktemp("features"), "--project-ids", "off")  # claims are measured
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


@pytest.mark.plain  # about times
def test_thousands_of_files_do_not_hold_the_loop(node):
    """Written when five pods start, and again when the map changes: in threads."""
    keys = {f"key-{i}": "x" for i in range(15000)}
    node.post("/api/v1/namespaces/default/configmaps", {"metadata": {"name": "wide"}, "data": keys})
    node.get("/v1/status")  # forgets the longest turn so far
    names = [f"wide-{i}" for i in range(5)]
    for name in names:
        create(node, pod(name, ["sh", "-c", "ls /m | wc -l; until [ -e /m/more ]; do sleep 0.1; done; ls /m | wc -l"],
                         spec={"volumes": [{"name": "m", "configMap": {"name": "wide"}}]},
                         volumeMounts=[{"name": "m", "mountPath": "/m"}]))
    for name in names:
        until(node, name, lambda p: p["status"]["phase"] == "Running", "runs", 120)
    starting = node.get("/v1/status")["longestTurnMicros"]
    answer = node.request("PATCH", "/api/v1/namespaces/default/configmaps/wide",
                          json.dumps({"data": {"key-0": "y", "more": "z"}}),
                          headers={"Content-Type": "application/merge-patch+json"})
    assert answer.code == 200
    for name in names:
        until(node, name, lambda p: p["status"]["phase"] == "Succeeded", "sees what changed", 120)
        assert logs(node, name).split() == ["15000", "15001"]
    changing = node.get("/v1/status")["longestTurnMicros"]
    assert max(starting, changing) <= 60000 * harness.PATIENCE, (starting, changing)


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


def test_shared_processes(node):
    shared = pod("shared", "exec sleep 4321", spec={"shareProcessNamespace": True,
                                                    "terminationGracePeriodSeconds": 0})
    shared["spec"]["containers"].append({"name": "other", "image": "host", "command": ["sleep", "1234"]})
    create(node, shared)
    phase(node, "shared", "Running")
    seen = node.kubectl("exec", "shared", "-c", "other", "--", "ps", "-e", "-o", "args=").ok()
    assert "sleep 4321" in seen and "pause" in seen


def test_a_node_name_of_ones_own_must_fit(node):
    name = node.kubectl("get", "nodes", "-o", "name").ok().strip().removeprefix("node/")

    def named(title, **limits):
        return pod(title, "echo $CUDA_VISIBLE_DEVICES", spec={"nodeName": name},
                   resources={"limits": limits})
    create(node, named("big", cpu="4000"), named("greedy", **{"nvidia.com/gpu": "5"}),
           named("fits", **{"nvidia.com/gpu": "2"}))
    assert phase(node, "big", "Failed")["status"]["reason"] == "OutOfcpu"
    found = phase(node, "greedy", "Failed")["status"]
    assert found["reason"] == "OutOfnvidia.com/gpu" and "requested: 5" in found["message"]
    phase(node, "fits", "Succeeded")
    assert len(logs(node, "fits").strip().split(",")) == 2


def test_pods_over_their_disk_limits_are_evicted(node):
    fill = "head -c 3000000 /dev/urandom > {}; sleep 1000"
    spec = {"terminationGracePeriodSeconds": 0, "volumes": [{"name": "e", "emptyDir": {"sizeLimit": "1Mi"}}]}
    claim = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "small"},
             "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Mi"}}}}
    create(node, claim,
           pod("fat-volume", fill.format("/e/f"), spec=spec, volumeMounts=[{"name": "e", "mountPath": "/e"}]),
           pod("fat-layer", fill.format("/root-file"), spec={"terminationGracePeriodSeconds": 0},
               resources={"limits": {"ephemeral-storage": "1Mi"}}),
           pod("fat-claim", fill.format("/p/f"), spec={
               "terminationGracePeriodSeconds": 0,
               "volumes": [{"name": "p", "persistentVolumeClaim": {"claimName": "small"}}]},
               volumeMounts=[{"name": "p", "mountPath": "/p"}]))
    found = phase(node, "fat-volume", "Failed")["status"]
    assert (found["reason"], found["message"]) == \
        ("Evicted", 'Usage of EmptyDir volume "e" exceeds the limit "1Mi". ')
    assert "local ephemeral storage limit" in phase(node, "fat-layer", "Failed")["status"]["message"]
    event(node, "fat-claim", "VolumeTooFull")


def test_probes_ask_other_hosts_by_address_and_name(node):
    """From the machine's own network; the pods themselves serve nothing."""
    class Server(http.server.ThreadingHTTPServer):
        address_family = socket.AF_INET6

    class Answer(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            seen.add((self.path, self.headers["Host"]))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_):
            pass

    seen = set()
    with Server(("::", 0), Answer) as server:  # both kinds of addresses
        threading.Thread(target=server.serve_forever, daemon=True).start()
        port = server.server_address[1]
        asked = {"asks-six": {"httpGet": {"host": "::1", "path": "/six", "port": port}},
                 "asks-name": {"httpGet": {"host": "localhost", "path": "/named", "port": port}},
                 "asks-tcp": {"tcpSocket": {"host": "::1", "port": port}},
                 "asks-nobody": {"httpGet": {"host": "no-such-host.invalid", "port": port}}}
        for name, probe in asked.items():
            create(node, pod(name, "exec sleep 1000", spec={"terminationGracePeriodSeconds": 0},
                             readinessProbe={**probe, "periodSeconds": 1, "timeoutSeconds": 5}))
        for name in ("asks-six", "asks-name", "asks-tcp"):
            until(node, name, lambda p: any(c["type"] == "Ready" and c["status"] == "True"
                                            for c in p["status"].get("conditions", [])), "is ready")
        event(node, "asks-nobody", "no-such-host.invalid")
        assert not state(get(node, "asks-nobody"), "ready")
        server.shutdown()
    assert {("/six", f"[::1]:{port}"), ("/named", f"localhost:{port}")} <= seen


def test_a_part_of_a_folder_that_hangs_holds_up_its_own_pod_only(node, tmp_path):
    try:
        server = hanging_fs.HangingFs(tmp_path / "away")
    except OSError as trouble:
        pytest.skip(f"no FUSE here: {trouble}")
    try:
        volume = {"name": "away", "hostPath": {"path": server.folder}}
        mount = [{"name": "away", "mountPath": "/data", "subPathExpr": "$(WHERE)"}]
        create(node, pod("waits", "true", spec={"volumes": [volume]}, volumeMounts=mount,
                         env=[{"name": "WHERE", "value": "runs/3"}]))
        assert server.asked.wait(20), "the part is asked for"
        create(node, pod("other", "true"))
        phase(node, "other", "Succeeded")
        event(node, "waits", "opening it takes longer than 10 s")
        assert get(node, "waits")["status"]["phase"] == "Pending"
        node.kubectl("delete", "pod", "waits", "--grace-period=0", "--force").ok()
    finally:
        server.close()


def test_parts_of_folders_are_opened_and_made(node, tmp_path):
    (tmp_path / "here").mkdir(mode=0o755)
    (tmp_path / "here" / "text").write_text("found\n")
    mounts = [{"name": "h", "mountPath": "/one", "subPath": "here"},
              {"name": "h", "mountPath": "/two", "subPathExpr": "new/$(WHO)"},
              {"name": "h", "mountPath": "/all"}, {"name": "e", "mountPath": "/empty", "subPath": "x/y"}]
    create(node, pod("parts", "cat /one/text; touch /two/a /empty/b; ls /all", volumeMounts=mounts,
                     env=[{"name": "WHO", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
                     spec={"volumes": [{"name": "h", "hostPath": {"path": str(tmp_path)}},
                                       {"name": "e", "emptyDir": {}}]}))
    phase(node, "parts", "Succeeded")
    assert logs(node, "parts").split() == ["found", "here", "new"]
    assert (tmp_path / "new" / "parts" / "a").exists()
    create(node, pod("astray", "true", volumeMounts=[{"name": "h", "mountPath": "/x", "subPathExpr": "$(UP)"}],
                     env=[{"name": "UP", "value": "../.."}],
                     spec={"volumes": [{"name": "h", "hostPath": {"path": str(tmp_path)}}]}))
    event(node, "astray", "subPath '../..'")


def test_admins_run_as_the_cluster_user(node):
    folder, volume, mount = share(node, "cluster")
    folder.chmod(0o777)
    env = [{"name": "CLUSTER_USER", "value": "ada"}, {"name": "CLUSTER_USER_ID", "value": "212121"},
           {"name": "CLUSTER_GROUP_NAME", "value": "lab"}, {"name": "CLUSTER_GROUP_ID", "value": "11166"}]
    create(node, pod("ada", "id -u; id -g; echo $HOME; touch /h/mine", spec={"volumes": [volume]},
                     volumeMounts=[mount], env=env),
           pod("still-root", "id -u", spec={"securityContext": {"runAsUser": 0}}, env=env))
    phase(node, "ada", "Succeeded", "Failed")
    assert logs(node, "ada") == "212121\n11166\n/home/ada\n"
    assert ((folder / "mine").stat().st_uid, (folder / "mine").stat().st_gid) == (212121, 11166)
    phase(node, "still-root", "Succeeded")
    assert logs(node, "still-root") == "0\n"


def test_sidecar_and_fs_group(node):
    one = pod("withside", "sleep .3; cat /w/log; id -G; stat -c %g /w",
              spec={"volumes": [{"name": "w", "emptyDir": {}}], "securityContext": {"fsGroup": 4711},
                    "terminationGracePeriodSeconds": 1},
              volumeMounts=[{"name": "w", "mountPath": "/w"}])
    one["spec"]["initContainers"] = [
        {"name": "side", "image": "host", "restartPolicy": "Always",
         "command": ["sh", "-c", "echo side > /w/log; exec sleep 1000"],
         "startupProbe": {"exec": {"command": ["test", "-s", "/w/log"]}, "periodSeconds": 1},
         "volumeMounts": [{"name": "w", "mountPath": "/w"}]}]
    create(node, one)
    phase(node, "withside", "Succeeded")
    lines = logs(node, "withside").splitlines()
    assert lines[0] == "side" and "4711" in lines[1].split() and lines[2] == "4711"


def test_the_order_of_the_end(node):
    folder, volume, mount = share(node, "order")
    tell = "trap '{}echo {} >> /h/ends; exit 0' TERM; echo >> /h/up; while :; do sleep .05; done"
    spec = {"volumes": [volume], "terminationGracePeriodSeconds": 20}
    one = pod("ordered", tell.format("sleep .3; ", "main"), spec=spec, volumeMounts=[mount])
    one["spec"]["initContainers"] = [
        {"name": name, "image": "host", "restartPolicy": "Always", "volumeMounts": [mount],
         "command": ["sh", "-c", tell.format("", name)]} for name in ("first", "second")]
    create(node, one,
           pod("slow-hook", tell.format("", "hooked"), volumeMounts=[mount],
               spec={"volumes": [volume], "terminationGracePeriodSeconds": 1},
               lifecycle={"preStop": {"exec": {"command": ["sleep", "100"]}}}))
    harness.wait(lambda: (folder / "up").exists() and len((folder / "up").read_text()) == 4, "all traps are set")
    node.kubectl("delete", "pod", "ordered", timeout=15).ok()
    assert (folder / "ends").read_text().split() == ["main", "second", "first"]
    node.kubectl("delete", "pod", "slow-hook", timeout=15).ok()  # preStop takes all of the grace: TERM comes still
    assert (folder / "ends").read_text().split()[3:] == ["hooked"]


def test_what_kubectl_describe_tells(node):
    spec = {"terminationGracePeriodSeconds": 0}
    create(node, pod("lacks", ["true"], envFrom=[{"configMapRef": {"name": "later"}}]),
           pod("ill", "exec sleep 1000", "Always", spec=spec, livenessProbe={
               "exec": {"command": ["cat", "/no-such"]}, "periodSeconds": 1, "failureThreshold": 1}))
    until(node, "lacks", lambda p: state(p).get("waiting", {}).get("reason") == "CreateContainerConfigError", "waits")
    node.kubectl("create", "configmap", "later").ok()
    phase(node, "lacks", "Succeeded")  # at once, not when its back-off is over
    event(node, "ill", "Back-off restarting failed container c")
    told = node.kubectl("describe", "pod", "ill").ok().split("\nEvents:")[1].splitlines()[3:]
    lines = {line.split()[1]: line for line in told}  # in the order of the last time; it may have been started again
    assert set(lines) == {"Scheduled", "Created", "Started", "Unhealthy", "Killing", "BackOff"}, told
    assert "Liveness probe failed: cat: /no-such: No such file or directory" in lines["Unhealthy"]


def test_init_hands_on_term(node):
    create(node, {**pod("plain", "sleep 1000; true", spec={"terminationGracePeriodSeconds": 30}),
                  "metadata": {"name": "plain", "annotations": {"berth.dev/init": "true"}}})
    phase(node, "plain", "Running")
    node.kubectl("delete", "pod", "plain", timeout=10).ok()  # far less than the grace: the shell heard TERM


def test_kill_after_the_grace(node):
    create(node, pod("deaf", "trap '' TERM; echo up; while :; do sleep .1; done",
                     spec={"terminationGracePeriodSeconds": 1}))
    harness.wait(lambda: "up" in node.kubectl("logs", "deaf").out, "the trap is set")
    node.kubectl("delete", "pod", "deaf", timeout=15).ok()


def test_log_rotation(node):
    create(node, pod("chatty", "head -c 25000000 /dev/zero | tr '\\0' x | fold -w 1000; echo; echo end"))
    phase(node, "chatty", "Succeeded")
    uid = node.kubectl("get", "pod", "chatty", "-o", "jsonpath={.metadata.uid}").ok()
    files = sorted(p.name for p in (node.data / "pods" / uid / "logs" / "c").iterdir())
    assert files == ["0.log", "0.log.1", "0.log.2"]
    assert logs(node, "chatty", "--tail=1") == "end\n"
    assert len(logs(node, "chatty").splitlines()) == 25001


def test_attach_and_terminal(node):
    create(node, pod("talk", ["cat"], stdin=True), pod("term", ["sh"], stdin=True, tty=True,
                                                       spec={"terminationGracePeriodSeconds": 0}))
    phase(node, "talk", "Running")
    node.kubectl("wait", "--for=condition=Ready", "pod/term", "--timeout=20s").ok()
    with subprocess.Popen(["kubectl", "attach", "-i", "talk"], env=node.program_env(), stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as attached:
        attached.stdin.write("through\n")
        attached.stdin.flush()
        assert attached.stdout.readline() == "through\n"
        attached.kill()
    harness.wait(lambda: logs(node, "talk") == "through\n", "it is in the log")
    assert "/dev/pts" in node.kubectl("exec", "term", "--", "sh", "-c", "readlink /proc/1/fd/0").ok()


def test_too_many_commands_at_once(node):
    create(node, pod("busy", "sleep 1000", spec={"terminationGracePeriodSeconds": 0}))
    phase(node, "busy", "Running")
    path = "/api/v1/namespaces/default/pods/busy/exec?command=cat&stdin=1&stdout=1"
    upgrade = {"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13",
               "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA==", "Sec-WebSocket-Protocol": "v4.channel.k8s.io"}
    held = []
    try:
        for _ in range(64):
            connection = node.connect("unix")
            held.append(connection)
            connection.request("GET", path, headers=upgrade)
            assert connection.getresponse().status == 101
        refused = node.kubectl("exec", "busy", "--", "true")
        assert refused.code != 0 and "too many commands" in refused.err
    finally:
        for connection in held:
            connection.close()
    harness.wait(lambda: node.kubectl("exec", "busy", "--", "true").code == 0, "there is room again")


def test_a_grace_longer_than_any_time_is_no_end_at_once(node):
    create(node, pod("patient", "trap 'sleep 0.5; echo cleaned > /proc/1/fd/1; exit 0' TERM; echo ready; while :; do sleep 0.1; done",
                     spec={"terminationGracePeriodSeconds": 10_000_000_000}))
    harness.wait(lambda: "ready" in node.kubectl("logs", "patient").out, "it runs")
    uid = get(node, "patient")["metadata"]["uid"]
    going = node.request("DELETE", "/api/v1/namespaces/default/pods/patient").json()
    assert going["metadata"]["deletionTimestamp"].startswith("22")
    harness.wait(lambda: node.request("GET", "/api/v1/namespaces/default/pods/patient").code == 404, "it is gone")
    assert (node.data / "logs" / f"{uid}.log").read_text() == "ready\ncleaned\n"


def test_the_folder_of_a_deleted_claim_goes_although_the_daemon_is_killed(node, tmp_path):
    claim = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "brief"},
             "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "10Mi"}}}}
    create(node, claim, pod("fills", "mkdir -p /p/d && touch /p/d/1 /p/d/2", volumeMounts=[{"name": "p", "mountPath": "/p"}], spec={
        "volumes": [{"name": "p", "persistentVolumeClaim": {"claimName": "brief"}}]}))
    phase(node, "fills", "Succeeded")
    volumes = node.data / "volumes"
    name = node.kubectl("get", "pvc", "brief", "-o", "jsonpath={.spec.volumeName}").ok()
    assert (volumes / name / "d" / "1").exists()
    node.kubectl("delete", "pod", "fills").ok()
    rm = tmp_path / "rm"  # one that hangs, so that the folder is still there when the daemon is killed
    rm.write_text(f"#!/bin/sh\necho $$ > {tmp_path}/pid\nexec sleep 1000\n")
    rm.chmod(0o755)
    node.stop()
    path, node.env["PATH"] = node.env["PATH"], f"{tmp_path}:{node.env['PATH']}"
    node.start()
    node.env["PATH"] = path
    node.kubectl("delete", "pvc", "brief", "--wait=false").ok()
    harness.wait(lambda: not (volumes / name).exists(), "its name is free")
    assert [entry for entry in os.listdir(volumes) if entry.endswith(name)]
    node.kill9()
    os.kill(int((tmp_path / "pid").read_text()), signal.SIGKILL)
    (volumes / "retained").mkdir()
    node.start()
    harness.wait(lambda: not [entry for entry in os.listdir(volumes) if entry.endswith(name)], "the folder is gone")
    assert "retained" in os.listdir(volumes)
    (volumes / "retained").rmdir()
