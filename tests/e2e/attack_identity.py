"""Roles follow people whatever the way in, and what a credential makes never outlives it."""

import base64
import json
import os
import re
import signal
import ssl
import subprocess
import tempfile
import time

import pytest
import yaml

import harness


def pod(name):
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
            "spec": {"containers": [{"name": "c", "image": "busybox:1"}]}}


class Person:
    """A user by token, and by the certificate of their kubeconfig."""

    def __init__(self, daemon, name, groups=()):
        self.daemon, self.name = daemon, name
        self.made = daemon.post("/v1/users", {"name": name, "groups": list(groups)})
        self.kubeconfig = self.made["kubeconfig"]
        self.token = daemon.post("/v1/tokens", {"user": name, "ttlSec": 3600})["token"]

    def ask(self, method, path, body=None, token=None):
        return self.daemon.request(method, path, body, via="https", token=token or self.token)

    def certificate(self, path="/v1/tokens", method="GET", body=None, kubeconfig=None):
        return by_certificate(self.daemon, kubeconfig or self.kubeconfig, method, path, body)


def by_certificate(daemon, kubeconfig, method, path, body=None):
    """A request with the client certificate of a kubeconfig."""
    user = yaml.safe_load(kubeconfig)["users"][0]["user"]
    with tempfile.NamedTemporaryFile() as pem:
        for key in ("client-key-data", "client-certificate-data"):
            pem.write(base64.b64decode(user[key]))
        pem.flush()
        args = ["curl", "-sk", "--cert", pem.name, "-X", method, "-w", "\n%{http_code}", daemon.https + path]
        if body is not None:
            args += ["-H", "Content-Type: application/json", "-d", json.dumps(body)]
        out = subprocess.run(args, capture_output=True, text=True, check=False).stdout
    text, _, code = out.rpartition("\n")
    return harness.Answer(int(code), None, text.encode())


def as_account(daemon, account, method, path, body=None):
    """A request over the unix socket as somebody of this machine."""
    os.chmod(os.path.dirname(daemon.socket), 0o755)
    args = ["setpriv", f"--reuid={account}", "--clear-groups", "curl", "-s", "--unix-socket", daemon.socket, "-X", method,
            "-w", "\n%{http_code}", "http://x" + path]
    if body is not None:
        args += ["-H", "Content-Type: application/json", "-d", json.dumps(body)]
    text, _, code = subprocess.run(args, capture_output=True, text=True, check=True).stdout.rpartition("\n")
    return harness.Answer(int(code), None, text.encode())


WRITES = [("POST", "/api/v1/namespaces/{}/pods", pod("p")), ("POST", "/api/v1/namespaces/{}/configmaps", {"metadata": {"name": "c"}}),
          ("POST", "/v1/apply", {"manifests": ""}), ("POST", "/v1/train", {"job_name": "j"}), ("POST", "/submit", {}),
          ("PUT", "/v1/notify", {"off": True}), ("POST", "/v1/jobs", {}), ("GET", "/v1/files", None),
          ("DELETE", "/api/v1/namespaces/{}/pods", None), ("POST", "/v1/logins", {}), ("GET", "/v1/images/import?name=x", None)]


def refused_everywhere(name, ask):
    for method, path, body in WRITES:
        answer = ask(method, path.format(name), body)
        assert answer.code == 403, (method, path, answer.code, answer.body)
    assert ask("GET", f"/api/v1/namespaces/{name}/pods", None).code == 200
    assert ask("GET", f"/api/v1/namespaces/{name}/secrets", None).code == 403


def test_a_viewer_is_read_only_whatever_the_way_in(own_daemon):
    vic = Person(own_daemon, "vic", ["berth:viewers"])
    refused_everywhere("vic", vic.ask)
    refused_everywhere("vic", lambda m, p, b: vic.certificate(p, m, b))
    made = vic.ask("POST", "/v1/tokens", {"ttlSec": 600}).json()["token"]
    refused_everywhere("vic", lambda m, p, b: vic.ask(m, p, b, token=made))
    again = vic.ask("POST", "/v1/kubeconfig", {}).json()["kubeconfig"]
    refused_everywhere("vic", lambda m, p, b: vic.certificate(p, m, b, kubeconfig=again))


@pytest.mark.skipif(os.geteuid() != 0, reason="becoming another user needs root")
def test_a_viewer_is_read_only_on_the_socket(own_daemon):
    own_daemon.post("/v1/users", {"name": "nobody", "groups": ["berth:viewers"]})
    refused_everywhere("nobody", lambda m, p, b: as_account(own_daemon, "nobody", m, p, b))
    token = as_account(own_daemon, "nobody", "POST", "/v1/tokens", {}).json()["token"]
    refused_everywhere("nobody", lambda m, p, b: own_daemon.request(m, p, b, via="http", token=token))


def test_a_token_for_viewing_restricts_whoever_has_it(own_daemon):
    token = own_daemon.post("/v1/tokens", {"groups": ["berth:viewers"]})["token"]
    assert own_daemon.request("GET", "/api/v1/pods", via="http", token=token).code == 200
    assert own_daemon.request("POST", "/api/v1/namespaces/default/pods", pod("p"), via="http", token=token).code == 403
    assert own_daemon.request("GET", "/v1/users", via="http", token=token).code == 403


def expires(text):
    return int(subprocess.run(["date", "-d", text, "+%s"], capture_output=True, text=True, check=True).stdout)


def test_what_a_token_makes_ends_with_it(own_daemon):
    ann = Person(own_daemon, "ann")
    short = own_daemon.post("/v1/tokens", {"user": "ann", "ttlSec": 60})
    end = expires(short["expires"])
    token = ann.ask("POST", "/v1/tokens", {"ttlSec": 10 * 365 * 86400}, token=short["token"]).json()
    assert expires(token["expires"]) == end
    further = ann.ask("POST", "/v1/tokens", {"ttlSec": 86400}, token=token["token"]).json()
    assert expires(further["expires"]) == end
    made = ann.ask("POST", "/v1/kubeconfig", {}, token=short["token"]).json()
    listed = [c for c in ann.ask("GET", "/v1/certificates").json()["items"] if c["id"] == made["certificate"]][0]
    assert end - 1 <= expires(listed["expires"]) <= end
    renewed = ann.certificate(f"/v1/certificates/{made['certificate']}/renew", "POST", {}, kubeconfig=made["kubeconfig"]).json()
    listed = [c for c in ann.ask("GET", "/v1/certificates").json()["items"] if c["id"] == renewed["certificate"]][0]
    assert expires(listed["expires"]) <= end
    link = ann.ask("POST", "/v1/page/links", {}, token=token["token"]).json()
    session = own_daemon.request("POST", "/v1/page/session", {"code": link["code"]}, via="http")
    cookie = session.headers["Set-Cookie"]
    assert int(re.search(r"Max-Age=(\d+)", cookie)[1]) <= 60
    # Revoked: everything above is gone with it.
    cookie = {"Cookie": cookie.split(";")[0]}
    assert own_daemon.request("GET", "/v1/page/session", via="http", headers=cookie).json()["user"] == "ann"
    gone = own_daemon.request("DELETE", f"/v1/tokens/{short['id']}").json()
    assert gone["credentials"] == 6  # three tokens, two certificates, a session
    for secret in (short["token"], token["token"], further["token"]):
        assert ann.ask("GET", "/v1/tokens", token=secret).code == 401
    for kubeconfig in (made["kubeconfig"], renewed["kubeconfig"]):
        assert ann.certificate(kubeconfig=kubeconfig).code == 401
    assert own_daemon.request("GET", "/v1/page/session", via="http", headers=cookie).json()["user"] is None
    assert ann.ask("GET", "/v1/tokens").code == 200  # what did not come from it stays
    assert ann.certificate().code == 200


def test_certificates_are_listed_renewed_and_revoked_with_their_renewals(own_daemon):
    ann, bob = Person(own_daemon, "ann"), Person(own_daemon, "bob")
    serial = ann.made["certificate"]
    assert [c["id"] for c in ann.ask("GET", "/v1/certificates").json()["items"]] == [serial]
    assert bob.ask("DELETE", f"/v1/certificates/{serial}").code == 404
    assert bob.ask("POST", f"/v1/certificates/{serial}/renew", {}).code == 404
    renewed = ann.certificate("/v1/certificates/self/renew", "POST", {}).json()
    assert ann.certificate(kubeconfig=renewed["kubeconfig"]).code == 200
    token = ann.certificate("/v1/tokens", "POST", {}, kubeconfig=renewed["kubeconfig"]).json()["token"]
    assert ann.ask("GET", "/v1/tokens", token=token).code == 200
    own_daemon.restart()
    assert ann.certificate().code == 200
    assert own_daemon.request("DELETE", f"/v1/certificates/{serial}").json()["credentials"] == 3
    assert ann.certificate().code == ann.certificate(kubeconfig=renewed["kubeconfig"]).code == 401
    assert ann.ask("GET", "/v1/tokens", token=token).code == 401
    assert bob.certificate().code == 200


def test_a_disabled_user_is_refused_by_every_way_and_comes_back(own_daemon):
    ann = Person(own_daemon, "ann")
    own_daemon.berth("user", "disable", "ann").ok()
    for path in ("/v1/tokens", "/api/v1/namespaces/ann/pods", "/healthz"):
        for answer in (ann.ask("GET", path), ann.certificate(path)):
            assert answer.code == 403 and b'disabled' in answer.body, (path, answer.body)
    assert own_daemon.get("/v1/users/ann")["state"] == "disabled"
    assert "disabled" in own_daemon.berth("user", "list").ok()
    own_daemon.restart()
    assert ann.ask("GET", "/v1/tokens").code == 403
    own_daemon.berth("user", "enable", "ann").ok()
    assert ann.ask("GET", "/v1/tokens").code == 200


@pytest.mark.skipif(os.geteuid() != 0, reason="becoming another user needs root")
def test_a_disabled_account_is_refused_on_the_socket(own_daemon):
    assert as_account(own_daemon, "nobody", "GET", "/v1/tokens").code == 200
    own_daemon.request("PATCH", "/v1/users/nobody", {"disabled": True})
    assert as_account(own_daemon, "nobody", "GET", "/v1/tokens").code == 403


def test_a_removed_user_loses_credentials_work_and_memberships(own_daemon):
    ann, bob = Person(own_daemon, "ann"), Person(own_daemon, "bob")
    own_daemon.post("/api/v1/namespaces", {"metadata": {"name": "lab", "annotations": {"berth.dev/members": "ann,bob"}}})
    assert ann.ask("POST", "/api/v1/namespaces/lab/pods", pod("hers")).code == 201
    assert bob.ask("POST", "/api/v1/namespaces/lab/pods", pod("his")).code == 201
    assert ann.ask("POST", "/api/v1/namespaces/ann/configmaps", {"metadata": {"name": "c"}}).code == 201
    assert "say --yes" in own_daemon.berth("user", "remove", "ann").fails()
    assert "user ann removed" in own_daemon.berth("user", "remove", "ann", "--yes").ok()
    assert ann.ask("GET", "/v1/tokens").code == 401 and ann.certificate().code == 401
    names = lambda: [p["metadata"]["name"] for p in own_daemon.get("/api/v1/namespaces/lab/pods")["items"]]
    harness.wait(lambda: names() == ["his"], "her pod to go")
    harness.wait(lambda: own_daemon.request("GET", "/api/v1/namespaces/ann").code == 404, "the namespace to go")
    assert own_daemon.get("/api/v1/namespaces/lab")["metadata"]["annotations"]["berth.dev/members"] == "bob"
    assert own_daemon.request("DELETE", "/v1/users/ann").code == 404
    again = Person(own_daemon, "ann")  # another person of that name
    assert again.made["created"] is True
    assert again.ask("GET", "/api/v1/namespaces/lab/pods").code == 403
    assert ann.certificate().code == 401


def watch_of(daemon, token):
    """A watch that is under way."""
    watch = subprocess.Popen(["curl", "-sN", "-H", f"Authorization: Bearer {token}",
                              daemon.http + "/api/v1/namespaces/ann/configmaps?watch=1"], stdout=subprocess.PIPE)
    daemon.post("/api/v1/namespaces/ann/configmaps", {"metadata": {"name": f"c{watch.pid}"}})
    assert watch.stdout.readline()
    return watch


def test_open_streams_end_when_their_credential_is_taken_back_or_the_user_disabled(own_daemon):
    ann = Person(own_daemon, "ann")
    made = own_daemon.post("/v1/tokens", {"user": "ann", "ttlSec": 3600})
    first, second = watch_of(own_daemon, made["token"]), watch_of(own_daemon, ann.token)
    own_daemon.request("DELETE", f"/v1/tokens/{made['id']}")
    first.wait(20)
    assert second.poll() is None
    own_daemon.request("PATCH", "/v1/users/ann", {"disabled": True})
    second.wait(20)


def test_a_stream_ends_when_its_token_does(own_daemon):
    own_daemon.post("/v1/users", {"name": "ann"})
    token = own_daemon.post("/v1/tokens", {"user": "ann", "ttlSec": 2})["token"]
    watch = subprocess.Popen(["curl", "-sN", "-H", f"Authorization: Bearer {token}",
                              own_daemon.http + "/api/v1/namespaces/ann/pods?watch=1"], stdout=subprocess.DEVNULL)
    watch.wait(20)


def test_adding_says_what_happened_and_what_follows(own_daemon, tmp_path):
    first = own_daemon.berth("user", "add", "ann", "--kubeconfig", tmp_path / "a")
    assert "user ann added" in first.err and "has no account on this machine" in first.err
    second = own_daemon.berth("user", "add", "ann", "--kubeconfig", tmp_path / "b")
    assert second.code == 0 and "exists already" in second.err and "added" not in second.err
    assert "no account" not in own_daemon.berth("user", "add", "nobody", "--kubeconfig", tmp_path / "c").err
    for name in ("root", "default", "kube-system", "Ann", "-x", ""):
        assert own_daemon.request("POST", "/v1/users", {"name": name}).code == 400, name


def test_a_dry_run_makes_no_namespace_and_a_job_makes_a_limited_one(own_daemon):
    token = own_daemon.post("/v1/tokens", {"user": "ann"})["token"]
    body = {"job_name": "j", "spec": {"image": "busybox:1", "command": ["true"]}}
    tried = own_daemon.request("POST", "/v1/train?dryRun=1", body, via="http", token=token)
    assert tried.code == 200, tried.body
    assert own_daemon.request("GET", "/api/v1/namespaces/ann").code == 404
    made = own_daemon.request("POST", "/v1/train", body, via="http", token=token)
    assert made.code == 201, made.body
    for kind in ("resourcequotas", "limitranges"):
        assert own_daemon.request("GET", f"/api/v1/namespaces/ann/{kind}/default").code == 200
    assert own_daemon.post("/v1/users", {"name": "ann"})["created"] is False


def test_tokens_and_their_texts_are_bounded(tmp_path):
    with harness.Daemon(tmp_path, "--user-tokens", "3") as daemon:
        assert daemon.request("POST", "/v1/tokens", {"description": "x" * 257}).code == 400
        assert daemon.request("POST", "/v1/tokens", {"groups": ["g"] * 33}).code == 400
        token = daemon.post("/v1/tokens", {"user": "ann"})["token"]
        for _ in range(2):
            assert daemon.request("POST", "/v1/tokens", {}, via="http", token=token).code == 201
        full = daemon.request("POST", "/v1/tokens", {}, via="http", token=token)
        assert full.code == 429 and "has 3 tokens" in full.json()["error"]
        assert daemon.request("POST", "/v1/tokens", {"user": "bob"}).code == 201


def test_counts_of_objects_are_limited_and_settable(tmp_path):
    with harness.Daemon(tmp_path, "--user-quota", "pods=4,count/configmaps=2") as daemon:
        ann = Person(daemon, "ann")
        codes = [ann.ask("POST", "/api/v1/namespaces/ann/configmaps", {"metadata": {"name": f"c{i}"}}).code for i in range(3)]
        assert codes == [201, 201, 403]


def audit_lines(daemon, count):
    """At least that many lines of the audit log."""
    path = daemon.data / "audit.log"
    read = lambda: [json.loads(line) for line in path.read_text().splitlines()]
    return harness.wait(lambda: len(read()) >= count and read(), "the audit log")


def test_the_audit_log_tells_who_did_what_and_no_secrets(own_daemon):
    ann = Person(own_daemon, "ann")
    made = ann.ask("POST", "/api/v1/namespaces/ann/configmaps?x=hidden", {"metadata": {"name": "c"}, "data": {"k": "inside"}})
    refused = ann.ask("GET", "/v1/users")
    ann.ask("GET", "/api/v1/namespaces/ann/pods")  # reads leave no line
    wrong = ann.ask("GET", "/v1/tokens", token="berth_wrong")
    lines = {line["id"]: line for line in audit_lines(own_daemon, 5)}
    for answer in (made, refused, wrong):
        assert answer.headers["X-Request-Id"] in lines
    line = lines[made.headers["X-Request-Id"]]
    assert (line["user"], line["how"], line["method"], line["object"], line["status"]) == ("ann", "token", "POST", "ann/c", 201)
    assert line["path"] == "/api/v1/namespaces/ann/configmaps" and line["credential"] and line["address"].startswith("127.0.0.1:")
    assert lines[refused.headers["X-Request-Id"]]["status"] == 403
    assert refused.json()["requestId"] == refused.headers["X-Request-Id"]
    assert lines[wrong.headers["X-Request-Id"]]["status"] == 401
    assert not [line for line in lines.values() if line["method"] == "GET" and line["status"] == 200]
    text = (own_daemon.data / "audit.log").read_text()
    for secret in (ann.token, "berth_wrong", "hidden", "inside", "PRIVATE KEY"):
        assert secret not in text
    assert (own_daemon.data / "audit.log").stat().st_mode & 0o077 == 0


def test_the_audit_log_names_what_was_made(own_daemon):
    ask = own_daemon.request
    ask("POST", "/v1/users", {"name": "ann"})
    apply = b"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: b}\n"
    made = {"token": ask("POST", "/v1/tokens", {"user": "ann"}), "again": ask("POST", "/v1/users", {"name": "ann"}),
            "config": ask("POST", "/v1/kubeconfig", {"user": "ann"}),
            "train": ask("POST", "/v1/train", {"job_name": "t", "dockerImage": "host", "command": ["true"], "max_gpus": 0}),
            "apply": ask("POST", "/v1/apply", apply, headers={"Content-Type": "application/yaml"})}
    assert all(answer.code in (200, 201) for answer in made.values()), {k: a.body for k, a in made.items()}
    lines = {line["id"]: line["object"] for line in audit_lines(own_daemon, 6)}
    told = {name: lines[answer.headers["X-Request-Id"]] for name, answer in made.items()}
    assert told == {"token": f"ann/{made['token'].json()['id']}", "again": f"ann/{made['again'].json()['certificate']}", "train": "default/t",
                    "config": f"ann/{made['config'].json()['certificate']}", "apply": "ConfigMap default/a, ConfigMap default/b"}


def test_nothing_escapes_the_audit_log_by_a_name_or_a_query(own_daemon):
    ann = Person(own_daemon, "ann")
    maps = "/api/v1/namespaces/ann/configmaps"
    asked = [ann.ask("POST", maps, {"metadata": {"name": "selfsubject"}}), ann.ask("DELETE", f"{maps}/selfsubject"),
             own_daemon.request("POST", "/v1/tokens?dryRun=All", {"user": "ann"}),
             own_daemon.request("PATCH", "/v1/users/ann?dryRun=1", {"disabled": True})]
    assert all(answer.code in (200, 201) for answer in asked)
    lines = {line["id"] for line in audit_lines(own_daemon, 4)}
    assert {answer.headers["X-Request-Id"] for answer in asked} <= lines


def test_groups_that_are_not_given_stay(own_daemon):
    own_daemon.post("/v1/users", {"name": "ann", "groups": ["berth:viewers"]})
    for body in ({"groups": None, "disabled": True}, {"disabled": False}):
        assert own_daemon.request("PATCH", "/v1/users/ann", body).json()["groups"] == ["berth:viewers"]
    assert own_daemon.request("PATCH", "/v1/users/ann", {"groups": []}).json()["groups"] == []


def test_the_audit_log_can_have_everything_or_nothing_and_be_moved_away(tmp_path):
    with harness.Daemon(tmp_path / "all", "--audit", "all") as daemon:
        daemon.get("/v1/status")
        assert audit_lines(daemon, 1)[0]["path"] == "/v1/status"
        (daemon.data / "audit.log").rename(daemon.data / "moved")
        daemon.process.send_signal(signal.SIGHUP)
        harness.wait(lambda: (daemon.data / "audit.log").exists(), "the log to be opened again")
        daemon.get("/v1/queue")
        assert audit_lines(daemon, 1)[0]["path"] == "/v1/queue"
    with harness.Daemon(tmp_path / "off", "--audit", "off") as daemon:
        daemon.post("/v1/tokens", {})
        assert not (daemon.data / "audit.log").exists()


def served_end(daemon):
    """Until when the certificate that the server shows is valid."""
    host, port = daemon.https.removeprefix("https://").split(":")
    pem = ssl.get_server_certificate((host, int(port)))
    out = subprocess.run(["openssl", "x509", "-noout", "-enddate"], input=pem, capture_output=True, text=True, check=True).stdout
    return ssl.cert_time_to_seconds(out.strip().removeprefix("notAfter="))


def test_a_server_certificate_that_ends_soon_is_renewed_while_the_daemon_runs(own_daemon):
    pki = own_daemon.data / "pki"
    first = served_end(own_daemon)
    run = lambda *args: subprocess.run(["openssl", *map(str, args)], cwd=pki, capture_output=True, check=True)
    run("req", "-new", "-key", "server.key", "-subj", "/CN=berthd", "-out", "x.csr")
    run("x509", "-req", "-in", "x.csr", "-CA", "ca.crt", "-CAkey", "ca.key", "-days", "3", "-out", "server.crt")
    ann = Person(own_daemon, "ann")
    watch = watch_of(own_daemon, ann.token)
    own_daemon.process.send_signal(signal.SIGHUP)
    harness.wait(lambda: "server's certificate was renewed" in own_daemon.log(), "the certificate to be renewed")
    assert served_end(own_daemon) >= first
    assert ann.certificate().code == 200
    assert watch.poll() is None  # what was open goes on
    watch.kill()


def test_the_bytes_of_a_namespace_are_limited(tmp_path):
    with harness.Daemon(tmp_path, "--namespace-size", "1", "--user-quota", "off") as daemon:
        ann = Person(daemon, "ann")
        make = lambda name, size: ann.ask("POST", "/api/v1/namespaces/ann/configmaps", {"metadata": {"name": name}, "data": {"k": "x" * size}})
        assert make("a", 600000).code == 201
        full = make("b", 600000)
        assert full.code == 403 and 'the objects of namespace \\"ann\\" have' in full.body.decode()
        assert make("c", 10).code == 201
        grown = {"data": {"k": "x" * 600000}}
        assert daemon.request("PATCH", "/api/v1/namespaces/ann/configmaps/c", grown, via="http", token=ann.token,
                              headers={"Content-Type": "application/merge-patch+json"}).code == 403
        assert ann.ask("DELETE", "/api/v1/namespaces/ann/configmaps/a").code == 200
        assert make("b", 600000).code == 201
        daemon.post("/api/v1/namespaces/ann/configmaps", {"metadata": {"name": "admins"}, "data": {"k": "x" * 900000}})


HANGING = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pwd.h>
#include <stdlib.h>
#include <unistd.h>
int getpwuid_r(uid_t uid, struct passwd *p, char *b, size_t n, struct passwd **r)
{
    int (*real)(uid_t, struct passwd *, char *, size_t, struct passwd **) = dlsym(RTLD_NEXT, "getpwuid_r");
    while (uid == 65534 && access(getenv("HANG"), F_OK) == 0)
        usleep(10000);
    return real(uid, p, b, n, r);
}
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="becoming another user needs root")
def test_a_directory_that_hangs_holds_up_nobody_else_and_makes_nobody_another_person(tmp_path):
    source, library, hang = tmp_path / "hang.c", tmp_path / "hang.so", tmp_path / "hang"
    source.write_text(HANGING)
    if harness.run(["cc", "-shared", "-fPIC", "-o", library, source, "-ldl"]).code:
        pytest.skip("there is no compiler")
    if b"__asan_init" in harness.BERTHD.read_bytes():
        pytest.skip("a sanitizer must be first among preloaded libraries")
    hang.write_text("")
    with harness.Daemon(tmp_path, env={"LD_PRELOAD": str(library), "HANG": str(hang)}) as daemon:
        os.chmod(os.path.dirname(daemon.socket), 0o755)
        waiting = subprocess.Popen(["setpriv", "--reuid=65534", "--clear-groups", "curl", "-s", "-w", "\n%{http_code}", "--unix-socket",
                                    daemon.socket, "http://x/v1/tokens"], stdout=subprocess.PIPE, text=True)
        slowest = 0
        while waiting.poll() is None:
            begin = time.monotonic()
            assert daemon.request("GET", "/healthz", via="http").code == 200
            slowest = max(slowest, time.monotonic() - begin)
        text, _, code = waiting.communicate()[0].rpartition("\n")
        assert code == "503" and "directory of users does not answer" in text
        assert slowest < 0.5 * harness.PATIENCE  # the look-up itself takes five seconds
        hang.unlink()
        who = harness.wait(lambda: as_account(daemon, "65534", "GET", "/v1/page/session").code == 200 and
                           as_account(daemon, "65534", "GET", "/v1/page/session").json()["user"], "an answer")
        assert who == "nobody"
        hang.write_text("")  # it hangs again: whom it has named goes on
        assert as_account(daemon, "65534", "GET", "/v1/page/session").json()["user"] == "nobody"
