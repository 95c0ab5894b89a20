"""What is wrong is said: by /readyz, `berth status`, `berth doctor` and berth_check of /metrics. Ids of requests lead from an error to the log."""

import contextlib
import json
import os
import re
import shutil

import pytest

import harness

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="mounting a small disk needs root")


def check(daemon, name):
    return next(c for c in daemon.get("/v1/status")["checks"] if c["name"] == name)


def doctor(daemon, **env):
    result = daemon.berth("doctor", "-o", "json", **env)
    return result.code, {i["check"]: i for i in json.loads(result.out)["items"]}


@contextlib.contextmanager
def small_disk(path, size):
    path.mkdir()
    harness.run(["mount", "-t", "tmpfs", "-o", f"size={size},mode=0711", "tmpfs", path]).ok()
    try:
        yield path
    finally:
        harness.run(["umount", "-l", path])


def test_a_daemon_that_is_well_says_so(tmp_path):
    with harness.Daemon(tmp_path, "--agent", "off") as daemon:
        for via in ("unix", "http"):
            assert daemon.request("GET", "/readyz", via=via).body == b"ok"
        lines = daemon.request("GET", "/readyz?verbose", via="http").body.decode().splitlines()
        assert lines[0] == "[+]ping ok" and lines[-1] == "readyz check passed" and "[+]store ok" in lines
        assert all(line.startswith("[+]") for line in lines[:-1])
        assert daemon.request("GET", "/livez?verbose").body == b"[+]ping ok\nlivez check passed\n"
        assert "[+]disk excluded: ok" in daemon.request("GET", "/readyz?verbose&exclude=disk").body.decode()
        assert daemon.kubectl("get", "--raw", "/readyz").ok() == "ok"
        status = dict(line.split(None, 1) for line in daemon.berth("status").ok().splitlines())
        resident = int(re.search(r"^VmRSS:\s+(\d+) kB", open(f"/proc/{daemon.process.pid}/status", encoding="ascii").read(), re.M)[1])
        assert float(status["memory"].split()[0]) == pytest.approx(resident / 1024, rel=0.3) and "warning" not in status


@needs_root
def test_a_full_disk_is_said_and_its_end_too(tmp_path):
    with small_disk(tmp_path / "data", "24m") as disk, harness.Daemon(tmp_path, "--agent", "off", env={"BERTH_PROBE_MS": "50"}) as daemon:
        assert daemon.data == disk
        assert daemon.request("GET", "/readyz").code == 200
        with open(disk / "filler", "wb", buffering=0) as filler, contextlib.suppress(OSError):
            while True:
                filler.write(b"x" * 4096)
        harness.wait(lambda: daemon.request("GET", "/readyz").code == 503, "readyz to fail")
        body = daemon.request("GET", "/readyz").body.decode()
        assert re.search(rf"^\[-\]disk failed: the disk of {disk} is full: 0 MiB are free$", body, re.M), body
        assert body.endswith("readyz check failed\n")
        unknown = daemon.request("GET", "/readyz?verbose", via="http").body.decode()
        assert "[-]disk failed: reason withheld" in unknown and str(disk) not in unknown
        # A write is refused; its error has an id, which the log has with the reason.
        for _ in range(200):
            answer = daemon.request("POST", "/v1/tokens", {"description": "x" * 200})
            if answer.code >= 500:
                break
        assert answer.code in (500, 503, 507), answer.body
        assert answer.json()["requestId"] == answer.headers["X-Request-Id"] and "full" in answer.json()["error"]
        harness.wait(lambda: re.search(rf"warn api: POST /v1/tokens: {answer.code}: .*full.*\(request {answer.headers['X-Request-Id']}\)",
                                       daemon.log()), "the line of the log")
        failed = check(daemon, "store")
        assert failed["state"] == "fail" and "the last write failed" in failed["text"] and failed["fix"]
        said = daemon.berth("token", "create").fails()
        assert re.search(r"full.*\(request \w+-\w+ in berthd's log\)", said), said
        shown = daemon.berth("status").ok()
        assert re.search(r"^failed +disk: ", shown, re.M) and re.search(r"^failed +store: ", shown, re.M)
        code, found = doctor(daemon)
        assert code == 1 and found["disk"]["result"] == found["store"]["result"] == "fail" and "make room" in found["disk"]["fix"]
        assert 'berth_check{check="disk"} 2' in daemon.request("GET", "/metrics").body.decode()
        os.unlink(disk / "filler")
        harness.wait(lambda: daemon.request("POST", "/v1/tokens", {}).code == 201, "writes again")
        harness.wait(lambda: daemon.request("GET", "/readyz").code == 200, "readyz again")
        assert check(daemon, "store")["state"] == "ok"


def test_a_backup_that_fails_is_said(tmp_path):
    (tmp_path / "file").write_text("")
    with harness.Daemon(tmp_path / "d", "--agent", "off", "--backup-dir", tmp_path / "file" / "below",
                        env={"BERTH_BACKUP_FIRST_LOOK_MS": "1"}) as daemon:
        harness.wait(lambda: check(daemon, "backup")["state"] == "warn", "the warning")
        assert "[!]backup warning: the last backup failed" in daemon.request("GET", "/readyz?verbose").body.decode()
        assert daemon.request("GET", "/readyz").body == b"ok"  # it is of use all the same
        assert re.search(r"^warning +backup: the last backup failed", daemon.berth("status").ok(), re.M)
        code, found = doctor(daemon)
        assert code == 0 and found["backup"]["result"] == "warn" and "berth backup" in found["backup"]["fix"]


@pytest.mark.skipif(not shutil.which("openssl"), reason="there is no openssl")
def test_an_authority_near_its_end_is_said(tmp_path):
    pki = tmp_path / "d" / "data" / "pki"
    pki.mkdir(parents=True, mode=0o700)
    harness.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "20", "-subj", "/CN=Berth CA",
                 "-addext", "basicConstraints=critical,CA:TRUE,pathlen:0", "-addext", "keyUsage=critical,keyCertSign,cRLSign",
                 "-keyout", pki / "ca.key", "-out", pki / "ca.crt"]).ok()
    with harness.Daemon(tmp_path / "d", "--agent", "off", "--accept-loss") as daemon:  # a folder with an authority alone is no new one
        assert daemon.data == pki.parent
        found = check(daemon, "certificate")
        assert found["state"] == "warn" and re.search("the certificate authority ends in (19|20) days", found["text"]), found
        assert doctor(daemon)[1]["certificate"]["result"] == "warn"


def test_a_machine_without_a_runtime_is_said(tmp_path):
    with harness.Daemon(tmp_path, "--agent", "auto", "--oci-runtime", "/bin/false") as daemon:
        found = check(daemon, "runtime")
        assert found["state"] == "warn" and found["text"].startswith("no pods run on this machine: ") and "docs/pods.md" in found["fix"]
        code, items = doctor(daemon)
        assert code == 0 and items["agent"]["result"] == "warn"


def test_doctor_looks_at_the_daemon_it_talks_to(tmp_path):
    """With BERTH_SERVER, and no look at this machine where the daemon is elsewhere."""
    with harness.Daemon(tmp_path, "--agent", "off") as daemon:
        token = daemon.post("/v1/tokens", {})["token"]
        plain = {"HOME": str(tmp_path), "XDG_DATA_HOME": str(tmp_path / "none"), "BERTH_TOKEN": token}
        code, here = doctor(daemon, BERTH_SERVER=daemon.http, **plain)
        assert code == 0 and daemon.http in here["daemon"]["text"] and {"crun", "cgroups", "store", "certificate"} <= set(here)
        assert str(daemon.data) in here["data folder"]["text"]
        # The same daemon by a name that does not say that it is here.
        port = daemon.http.rpartition(":")[2]
        code, away = doctor(daemon, BERTH_SERVER=f"http://0.0.0.0:{port}", **plain)
        assert code == 0 and {"store", "disk", "network", "backup"} <= set(away)
        assert not {"crun", "cgroups", "data folder", "port 5336"} & set(away) and "another machine" in away["machine"]["text"]
        result = daemon.berth("doctor", BERTH_SERVER="http://127.0.0.1:1", **plain)
        assert result.code == 1 and "does not answer" in result.out and "nobody listens" not in result.out


def test_errors_of_every_part_have_their_id(tmp_path):
    with harness.Daemon(tmp_path, "--agent", "off", "--anonymous", "none") as daemon:
        for method, path, code in (("GET", "/v1/queue", 401), ("GET", "/v1/nothing", 404), ("PATCH", "/v1/status", 405), ("GET", "/api/v1/pods", 403),
                                   ("GET", "/has_to_stop/x", 401), ("GET", "/nowhere", 404)):
            answer = daemon.request(method, path, via="http")
            assert answer.headers["X-Request-Id"], path
            if path.startswith("/v1/") and answer.headers["Content-Type"] == "application/json":
                assert answer.json()["requestId"] == answer.headers["X-Request-Id"] and answer.code == code
        answer = daemon.request("GET", "/v1/queue", via="http", token="wrong")
        assert answer.code == 401 and answer.json()["requestId"] == answer.headers["X-Request-Id"]
