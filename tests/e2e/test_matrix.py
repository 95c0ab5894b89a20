"""Every row of the table of who may do what, asked as everybody, against access_matrix.txt. After a change on purpose:

    BERTH_WRITE_MATRIX=1 pytest tests/e2e/test_matrix.py     # writes the file anew; read the diff

A cell is `yes` (not refused: whatever else the answer is), 401 or 403. Objects that are asked about belong to the owner, in a
namespace that the member shares; routes about jobs name a job of the owner's there. What would change something is a dry run, names
nothing, or has a body that is refused later."""

import os
import pathlib
import re

import pytest

import harness
from attack_identity import as_account

EXPECTED = pathlib.Path(__file__).with_name("access_matrix.txt")
ROLES = ("admin", "owner", "member", "other", "viewer", "disabled", "http", "https", "nameless", "job", "expired", "revoked")
CONTAINERS = [{"name": "c", "image": "busybox:1"}]
OBJECTS = {  # what stands in the shared namespace: path of the collection → what is particular
    "/api/v1/namespaces/lab/pods": {"spec": {"containers": CONTAINERS}},
    "/api/v1/namespaces/lab/configmaps": {},
    "/api/v1/namespaces/lab/secrets": {},
    "/api/v1/namespaces/lab/services": {"spec": {"ports": [{"port": 80}]}},
    "/api/v1/namespaces/lab/endpoints": {},
    "/api/v1/namespaces/lab/persistentvolumeclaims": {"spec": {"accessModes": ["ReadWriteOnce"],
                                                               "resources": {"requests": {"storage": "1Mi"}}}},
    "/apis/batch/v1/namespaces/lab/jobs": {"spec": {"suspend": True, "template": {"spec": {"containers": CONTAINERS,
                                                                                            "restartPolicy": "Never"}}}},
    "/apis/berth.dev/v1/namespaces/lab/trainingjobs": {"spec": {"image": "busybox:1", "command": ["true"]}},
    "/apis/discovery.k8s.io/v1/namespaces/lab/endpointslices": {"addressType": "IPv4", "endpoints": []},
}
VERBS = {"get": "GET", "list": "GET", "watch": "GET", "create": "POST", "update": "PUT", "patch": "PATCH", "delete": "DELETE",
         "deletecollection": "DELETE"}


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    with harness.Daemon(tmp_path_factory.mktemp("matrix"), "--agent", "off", "--anonymous", "none", "--user-quota", "off") as daemon:
        yield Lab(daemon)


class Lab:
    def __init__(self, daemon):
        self.daemon = daemon
        daemon.post("/api/v1/namespaces", {"metadata": {"name": "lab", "annotations": {"berth.dev/members": "owner,member"}}})
        self.tokens = {}
        for name in ("owner", "member", "other", "viewer", "disabled"):
            daemon.post("/v1/users", {"name": name, "groups": ["berth:viewers"] if name == "viewer" else []})
            self.tokens[name] = daemon.post("/v1/tokens", {"user": name})["token"]
        revoked = daemon.post("/v1/tokens", {"user": "owner"})
        daemon.request("DELETE", f"/v1/tokens/{revoked['id']}")
        expired = daemon.post("/v1/tokens", {"user": "owner", "ttlSec": 1})["token"]
        self.tokens.update(revoked=revoked["token"], expired=expired, job="0" * 64)  # another job's: none of ours
        daemon.request("PATCH", "/v1/users/disabled", {"disabled": True})
        for path, more in OBJECTS.items():
            self.create(path, "mine", more)
        self.uid = daemon.get("/apis/berth.dev/v1/namespaces/lab/trainingjobs/mine")["metadata"]["uid"]
        harness.wait(lambda: daemon.request("GET", "/v1/tokens", via="http", token=expired).code == 401, "the token to end")

    def create(self, path, name, more):
        answer = self.daemon.request("POST", path, {"metadata": {"name": name}, **more}, via="http", token=self.tokens["owner"])
        assert answer.code == 201, (path, answer.body)

    def ask(self, role, method, path, body=None):
        headers = {"Content-Type": "application/merge-patch+json"} if method == "PATCH" and path.startswith("/api") else {}
        if role == "admin":
            answer = self.daemon.request(method, path, body, headers=headers)
        elif role in ("http", "https"):
            answer = self.daemon.request(method, path, body, headers=headers, via=role)
        elif role == "nameless":  # a uid without an account
            if os.geteuid():
                return None
            answer = as_account(self.daemon, "64999", method, path, body)
        else:
            answer = self.daemon.request(method, path, body, headers=headers, via="http", token=self.tokens[role])
        return str(answer.code) if answer.code in (401, 403) else "yes"


def kube_rows(lab):
    """(name of the row, method, path) of every kind × verb, and of what is below objects."""
    for root in ("/api/v1", *(f"/apis/{v}" for g in lab.daemon.get("/apis")["groups"] for v in [g["preferredVersion"]["groupVersion"]])):
        for kind in sorted(lab.daemon.get(root)["resources"], key=lambda k: k["name"]):
            plural, _, sub = kind["name"].partition("/")
            base = f"{root}/namespaces/lab/{plural}" if kind["namespaced"] else f"{root}/{plural}"
            name = "lab" if plural == "namespaces" else "mine"
            for verb in sorted(kind["verbs"]):
                if verb not in VERBS:
                    continue
                path = base if verb in ("list", "watch", "deletecollection") or (verb == "create" and not sub) else f"{base}/{name}"
                path += f"/{sub}" if sub else ""
                query = "?dryRun=All" if VERBS[verb] != "GET" else "?watch=1&timeoutSeconds=1" if verb == "watch" else ""
                yield f"{verb} {root.rpartition('/')[0].removeprefix('/apis/') if root != '/api/v1' else 'core'} {kind['name']}", \
                    VERBS[verb], path + query


def path_rows(lab):
    skip = ("/queue/stream", "/assets/...")  # a stream without an end; files by their hash
    for row in lab.daemon.get("/v1/access")["paths"]:
        path = row["path"].replace("/**", f"/{lab.uid}/x").replace("/*", f"/{lab.uid}") if row["who"] == "job" else row["path"]
        path = path.replace("/...", "/v1").replace("/**", "/lab/mine").replace("/*", "/mine")
        if not path.endswith(skip):
            yield f"{row['method']} {row['path']}", row["method"], path


def table(lab):
    lines = [f"{'':62}" + "".join(f"{role:>10}" for role in ROLES)]
    for title, method, path in [*path_rows(lab), *kube_rows(lab)]:
        body = None if method in ("GET", "DELETE") else {"priority": 1} if path.endswith("/priority") else {}
        cells = []
        for role in reversed(ROLES):  # those who may come last
            if "watch=1" in path:  # asked as a list: the watch itself would have to be waited for
                cells.append(lab.ask(role, method, path.replace("?watch=1&timeoutSeconds=1", "?watch=1&resourceVersion=bad")))
            else:
                cells.append(lab.ask(role, method, path, body))
        lines.append(f"{title:62}" + "".join(f"{cell or '-':>10}" for cell in reversed(cells)))
    return [line.rstrip() for line in lines]


def test_everybody_may_do_what_the_matrix_says_and_nothing_else(lab):
    if os.geteuid():
        pytest.skip("one of the roles needs root")
    rows = table(lab)
    if os.environ.get("BERTH_WRITE_MATRIX"):
        EXPECTED.write_text("\n".join(rows) + "\n")
    expected = EXPECTED.read_text().splitlines()
    missing = sorted({row[:62] for row in rows} - {row[:62] for row in expected})
    assert not missing, f"these have no row in {EXPECTED.name}: {missing}"
    assert rows == expected


def test_no_route_is_served_without_a_row(lab):
    """The tables of handlers hold nothing that the table of who may does not."""
    known = {(row["method"], row["path"]) for row in lab.daemon.get("/v1/access")["paths"]}
    route = re.compile(r'\{"(GET|POST|PUT|DELETE|PATCH)", "(/[^"]*)",')
    for folder in ("src/api/rest", "src/machine"):
        for source in (harness.ROOT / folder).rglob("*.c"):
            for method, path in route.findall(source.read_text()):
                assert (method, path) in known, f"{source.name}: {method} {path}"
    assert lab.daemon.request("GET", "/v1/nothing").code == 404
