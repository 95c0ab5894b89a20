#!/usr/bin/env python3
"""Replays recorded Kubernetes API requests and reports where a server answers otherwise.

tests/data/kube-diff/NN-name.json hold requests and the answers that a real kube-apiserver gave to
them (tools/kube-record writes those; tools/kube-oracle starts such a server). A scenario is

    {"about": TEXT, "namespace": "diff-NN",      created before the first step, removed after the last
     "cluster": [PATH, ...],                     objects outside the namespace to remove likewise
     "steps": [STEP, ...]}

and a step is

    {"note": TEXT, "method": M, "path": P, "headers": {...}, "body": JSON | "raw": TEXT | "base64": TEXT,
     "as": "user",                   send the second user's token; skipped where none is given
     "save": {"rv": "/metadata/resourceVersion"},    then usable as ${rv} in later paths, headers, bodies
     "wait": {"/status/used/pods": "1"},             repeat the request until its answer says so
     "settle": 0.5,                  seconds to wait after it, while recording (informer caches)
     "ignore": ["/status", "/items/*/spec"],         parts of the answer not to compare
     "only": {"/resources": ["name", "pods", "jobs"]},   of that list, only items whose name is one of these
     "managers": true,               compare who manages fields (manager, operation), not only the object
     "known": TEXT,                  a difference here is deliberate, and why
     "expect": {"code": N, "type": T, "warnings": [...], "body": JSON | "text": T | "watch": [...]}}

${ns} is the namespace, ${pad:N} N letters, ${nest:N} N nested lists. Answers are compared whole, after
what differs between any two runs has been replaced: times <time>, uids <uid>, resource versions <rv>,
ages <age>, generated names NAME-<rand>. In an expected text <any> stands for anything (Go's dumps of
whole structures, for instance).

As a program: kube_diff.py --url U --token T [FILE...]; status 0 no differences, 1 some, 2 trouble.
"""

import argparse
import base64
import dataclasses
import http.client
import json
import os
import pathlib
import re
import ssl
import sys
import time
import urllib.parse

DATA = pathlib.Path(__file__).resolve().parent.parent / "data" / "kube-diff"
WAIT_SEC = 20  # for a "wait" step, and for a namespace to go away
ASK_SEC = 20  # for one answer
JSON_TYPE = "application/json"
ABSENT = object()


# ---- talking to the server -------------------------------------------------------------------------


class Trouble(Exception):
    """The server could not be asked at all, or a scenario is not what it should be."""


@dataclasses.dataclass
class Answer:
    code: int
    headers: list
    body: bytes

    def header(self, name):
        return [value for key, value in self.headers if key.lower() == name]


class Server:
    """One server and who we are to it. Keeps its connection."""

    def __init__(self, url, token, user_token=None, cafile=None):
        self.url = urllib.parse.urlsplit(url)
        self.tokens = {"admin": token, "user": user_token, "bad": "not-a-token-of-anybody"}
        self.tls = ssl.create_default_context(cafile=cafile)
        if not cafile:
            self.tls.check_hostname = False
            self.tls.verify_mode = ssl.CERT_NONE
        self.link = None

    def _connect(self):
        if self.url.scheme == "https":
            return http.client.HTTPSConnection(self.url.netloc, timeout=ASK_SEC, context=self.tls)
        return http.client.HTTPConnection(self.url.netloc, timeout=ASK_SEC)

    def ask(self, method, path, headers=None, body=None, who="admin"):
        headers = {"Accept": JSON_TYPE, **(headers or {})}
        if self.tokens.get(who):
            headers["Authorization"] = "Bearer " + self.tokens[who]
        for attempt in (1, 2):  # a kept connection may have been closed meanwhile
            fresh = self.link is None
            try:
                if fresh:
                    self.link = self._connect()
                self.link.request(method, self.url.path.rstrip("/") + path, body=body, headers=headers)
                reply = self.link.getresponse()
                data = reply.read()
                if reply.will_close:
                    self.close()
                return Answer(reply.status, reply.getheaders(), data)
            except (OSError, http.client.HTTPException) as err:
                self.close()
                if fresh or attempt == 2:
                    raise Trouble(f"{method} {path}: {err!r}") from err
        raise AssertionError("unreachable")

    def close(self):
        if self.link:
            self.link.close()
        self.link = None


# ---- JSON pointers -----------------------------------------------------------------------------------


def pointer_parts(pointer):
    return [p.replace("~1", "/").replace("~0", "~") for p in pointer.split("/")[1:]]


def pointer_get(value, pointer):
    for part in pointer_parts(pointer):
        if isinstance(value, dict) and part in value:
            value = value[part]
        elif isinstance(value, list) and part.isdigit() and int(part) < len(value):
            value = value[int(part)]
        else:
            return ABSENT
    return value


def pointer_drop(value, parts):
    """Removes what the pointer's parts name; * is every member."""
    if not parts:
        return
    head, rest = parts[0], parts[1:]
    if isinstance(value, dict):
        keys = list(value) if head == "*" else [head] if head in value else []
    elif isinstance(value, list):
        keys = range(len(value)) if head == "*" else [int(head)] if head.isdigit() else []
        keys = [k for k in keys if k < len(value)]
    else:
        return
    for key in keys:
        if rest:
            pointer_drop(value[key], rest)
        else:
            value[key] = "<ignored>"
    if not rest and isinstance(value, dict):
        for key in keys:
            del value[key]


# ---- what differs between any two runs ---------------------------------------------------------------

TIME = re.compile(r"\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z")
UUID = re.compile(r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b")
AGE = re.compile(r"^(\d+(y|d|h|m|s|ms))+$")
OWNER = "berth.dev/user"
AGE_COLUMNS = {"Age", "Last Seen", "First Seen", "Duration"}
RV_IN_TEXT = re.compile(r"(ResourceVersion in (?:object meta|precondition|the precondition|record)(?:: | \())\d+")
AGO = re.compile(r"\(\w+ ago\)$")
RAND = re.compile(r"^[bcdfghjklmnpqrstvwxz2456789]{5}$")
GO_DIFF = re.compile(r"\n\s+[a-z]+\.\w+\{")
DOCUMENT = re.compile(r'Invalid value: "(?:\{\\"|map\[)(?:[^"\\]|\\.)*"')
GO_VALUE = re.compile(r"(?:Invalid|Duplicate) value: (?=&?(?:\[\])?(?:[a-z0-9]+\.[A-Za-z]+|map\[\w+\]\w+)\{)")


def scrub_text(text, saved):
    for name, value in saved:
        text = text.replace(value, "${%s}" % name)
    text = UUID.sub("<uid>", TIME.sub("<time>", text))
    return RV_IN_TEXT.sub(r"\1<rv>", text)


def skip_braces(text, start):
    """Where the first {...} after start ends."""
    depth = 0
    for i in range(text.index("{", start), len(text)):
        depth += {"{": 1, "}": -1}.get(text[i], 0)
        if depth == 0:
            return i + 1
    return len(text)


def scrub_message(text):
    """Validation messages may hold a whole Go structure or document, or end in a diff of two."""
    diff = GO_DIFF.search(text)
    if diff:
        text = text[:diff.start()]
    text = DOCUMENT.sub("Invalid value: <any>", text)
    out, at = "", 0
    for match in GO_VALUE.finditer(text):
        if match.end() > at:
            out += text[at:match.end()] + "<any>"
            at = skip_braces(text, match.end())
    return out + text[at:] + ("<any>" if diff else "")


def scrub_meta(meta, managers):
    name, prefix = meta.get("name"), meta.get("generateName")
    if name and prefix and name.startswith(prefix) and RAND.match(name[len(prefix):]):
        meta["name"] = prefix + "<rand>"
    if isinstance(meta.get("annotations"), dict) and OWNER in meta["annotations"]:  # Berth's own
        left = {k: v for k, v in meta["annotations"].items() if k != OWNER}
        meta.pop("annotations")
        meta.update({"annotations": left} if left else {})
    if "resourceVersion" in meta:
        meta["resourceVersion"] = "<rv>" if meta["resourceVersion"] else ""
    if meta.get("continue"):
        meta["continue"] = "<continue>"
    fields = meta.pop("managedFields", None)
    if managers:
        meta["managers"] = sorted(
            " ".join(filter(None, (f.get("manager"), f.get("operation"), f.get("subresource"))))
            for f in fields or []
        )
    for owner in meta.get("ownerReferences", []):
        if isinstance(owner, dict) and "uid" in owner:
            owner["uid"] = "<uid>"


def scrub_spec(spec):
    """What a service address, or the service account admission plugin, puts there."""
    if isinstance(spec.get("clusterIP"), str) and spec["clusterIP"] not in ("", "None"):
        spec["clusterIP"] = "<ip>"
        spec["clusterIPs"] = ["<ip>" for _ in spec.get("clusterIPs", [])]
    for key in ("serviceAccount", "serviceAccountName"):
        if spec.get(key) == "default":
            del spec[key]
    for port in spec.get("ports", []):
        if isinstance(port, dict) and port.get("nodePort"):
            port["nodePort"] = "<port>"


def scrub_table(table):
    columns = table.get("columnDefinitions") or []
    for column in columns:
        column.pop("description", None)
    ages = [i for i, column in enumerate(columns) if column.get("name") in AGE_COLUMNS]
    for row in table.get("rows") or []:
        for i in ages if columns else range(len(row.get("cells", []))):  # a watch names columns only once
            cell = row["cells"][i] if i < len(row.get("cells", [])) else None
            if isinstance(cell, str) and AGE.match(cell):
                row["cells"][i] = "<age>"
        row["cells"] = [AGO.sub("(<age> ago)", c) if isinstance(c, str) else c for c in row.get("cells", [])]
        thing = row.get("object") or {}
        if thing.get("kind") == "PartialObjectMetadata":
            thing["metadata"] = {k: v for k, v in thing["metadata"].items() if k in ("name", "namespace")}


def scrub_status(status):
    causes = (status.get("details") or {}).get("causes", [])
    for part in (status, *causes):
        if "message" in part:
            part["message"] = scrub_message(part["message"])
    if all(cause.get("reason") == "FieldManagerConflict" for cause in causes):
        causes.sort(key=lambda cause: (cause.get("message", ""), cause.get("field", "")))  # from a Go map


def scrub(value, saved=(), managers=False):
    """The answer without what differs between any two runs. Nulls count as absent."""
    if isinstance(value, list):
        return [scrub(item, saved, managers) for item in value]
    if isinstance(value, str):
        return scrub_text(value, saved)
    if not isinstance(value, dict):
        return value
    value = {k: v for k, v in value.items() if v is not None}
    if value.get("kind") == "Table":
        scrub_table(value)
    if value.get("kind") == "Status" and value.get("apiVersion") == "v1":
        scrub_status(value)
    if isinstance(value.get("metadata"), dict):
        value["metadata"] = dict(value["metadata"])
        scrub_meta(value["metadata"], managers and "kind" in value)
    if isinstance(value.get("spec"), dict):
        value["spec"] = dict(value["spec"])
        scrub_spec(value["spec"])
    return {scrub_text(k, saved): scrub(v, saved, managers) for k, v in value.items()}


def picture(step, answer, saved):
    """An answer in the form of "expect"."""
    out = {"code": answer.code}
    kind = (answer.header("content-type") or [""])[0].strip()
    if ";g=" not in kind:  # the form of discovery is said in the parameters
        kind = kind.split(";")[0].strip()
    warnings = [scrub_text(w, saved) for w in answer.header("warning")]
    if warnings:
        out["warnings"] = warnings
    if kind != JSON_TYPE:
        out["type"] = kind
    if not kind.startswith(JSON_TYPE):
        out["text"] = scrub_text(answer.body.decode("utf-8", "replace"), saved)
        return out
    managers = bool(step.get("managers"))
    if is_watch(step) and answer.code == 200:
        events = [json.loads(line) for line in answer.body.splitlines() if line.strip()]
        out["watch"] = [scrub(event, saved, managers) for event in events]
        root = out["watch"]
    else:
        try:
            out["body"] = scrub(json.loads(answer.body), saved, managers)
        except ValueError:
            out["text"] = scrub_text(answer.body.decode("utf-8", "replace"), saved)
        root = out.get("body")
    for pointer, (key, *names) in step.get("only", {}).items():
        items = pointer_get(root, pointer)
        if isinstance(items, list):
            items[:] = sorted((i for i in items if i.get(key) in names), key=lambda i: i[key])
    for pointer in step.get("ignore", []):
        pointer_drop(root, pointer_parts(pointer))
    return out


def is_watch(step):
    return re.search(r"[?&]watch=(1|true)", step["path"]) is not None


# ---- running a scenario ------------------------------------------------------------------------------


def fill(value, variables):
    """The value with each ${name} replaced, ${pad:N} by N letters x, ${nest:N} by N nested lists."""
    if isinstance(value, str):
        value = re.sub(r"\$\{pad:(\d+)\}", lambda m: "x" * int(m[1]), value)
        value = re.sub(r"\$\{nest:(\d+)\}", lambda m: "[" * int(m[1]) + "]" * int(m[1]), value)
        return re.sub(r"\$\{(\w+)\}", lambda m: str(variables.get(m[1], m[0])), value)
    if isinstance(value, list):
        return [fill(item, variables) for item in value]
    if isinstance(value, dict):
        return {fill(k, variables): fill(v, variables) for k, v in value.items()}
    return value


def step_bytes(step, variables):
    if "base64" in step:
        return base64.b64decode(step["base64"])
    if "raw" in step:
        return fill(step["raw"], variables).encode()
    if "body" in step:
        return json.dumps(fill(step["body"], variables)).encode()
    return None


def send(server, step, variables):
    body = step_bytes(step, variables)
    headers = {} if body is None else {"Content-Type": JSON_TYPE}
    headers.update(fill(step.get("headers", {}), variables))
    headers = {k: v for k, v in headers.items() if v}
    path = fill(step["path"], variables)
    until = time.monotonic() + WAIT_SEC
    while True:
        answer = server.ask(step["method"], path, headers, body, step.get("as", "admin"))
        if not step.get("wait") or came_true(step["wait"], answer) or time.monotonic() > until:
            return answer
        time.sleep(0.1)


def came_true(wait, answer):
    try:
        body = json.loads(answer.body)
    except ValueError:
        return False
    body["code"] = body.get("code", answer.code)
    return all(pointer_get(body, pointer) == value for pointer, value in wait.items())


def save(step, answer, variables):
    if not step.get("save"):
        return
    try:
        body = json.loads(answer.body)
    except ValueError:
        body = None
    for name, pointer in step["save"].items():
        value = pointer_get(body, pointer)
        if value is not ABSENT:
            variables[name] = value


def wipe(server, scenario):
    """Removes all that the scenario makes, and waits until it is gone."""
    space = "/api/v1/namespaces/" + scenario["namespace"]
    now = json.dumps({"gracePeriodSeconds": 0, "propagationPolicy": "Background"}).encode()
    head = {"Content-Type": JSON_TYPE}
    paths = list(scenario.get("cluster", []))
    if server.ask("GET", space).code != 404:
        server.ask("DELETE", space + "/pods", head, now)
        paths.append(space)
    for path in paths:
        server.ask("DELETE", path, head, now)
    until = time.monotonic() + WAIT_SEC
    for path in paths:
        while server.ask("GET", path).code == 200 and time.monotonic() < until:
            time.sleep(0.1)


def load(path):
    try:
        return json.loads(pathlib.Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError) as err:
        raise Trouble(f"{path}: {err}") from err


def names_in(variables):
    """Saved names and uids, which other parts of an answer may repeat; versions are numbers."""
    return [(key, value) for key, value in variables.items()
            if key != "ns" and isinstance(value, str) and len(value) >= 8 and not value.isdigit()]


def play(server, scenario, patient=False):
    """Runs the scenario; yields (number from 1, step, answer or None where skipped, picture)."""
    wipe(server, scenario)
    space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": scenario["namespace"]}}
    made = server.ask("POST", "/api/v1/namespaces", {"Content-Type": JSON_TYPE}, json.dumps(space).encode())
    if made.code != 201:
        raise Trouble(f"namespace {scenario['namespace']}: {made.code} {made.body[:300]!r}")
    variables = {"ns": scenario["namespace"]}
    try:
        for number, step in enumerate(scenario["steps"], 1):
            if step.get("as") == "user" and not server.tokens["user"]:
                yield number, step, None, None
                continue
            try:
                answer = send(server, step, variables)
            except Trouble as err:
                answer = Answer(0, [], str(err).encode())
            save(step, answer, variables)
            yield number, step, answer, picture(step, answer, names_in(variables))
            if patient and step.get("settle"):
                time.sleep(step["settle"])
    finally:
        wipe(server, scenario)


# ---- comparing ---------------------------------------------------------------------------------------


@dataclasses.dataclass
class Difference:
    """One step that was answered otherwise."""

    file: str
    step: int
    note: str
    request: str
    lines: list
    known: str = ""

    def __str__(self):
        mark = f" (known: {self.known})" if self.known else ""
        head = f"{self.file} step {self.step}: {self.note}{mark}"
        return "\n".join([head, *("  " + line for line in [self.request, *self.lines] if line)])


def same_text(expected, came):
    if "<any>" not in expected:
        return expected == came
    pattern = ".*".join(re.escape(part) for part in expected.split("<any>"))
    return re.fullmatch(pattern, came, re.S) is not None


def once(causes):
    """Without repetitions: the real server validates updates twice and then repeats causes."""
    return [cause for i, cause in enumerate(causes) if cause not in causes[:i]]


def compare(expected, came, where=""):
    """Yields (pointer, expected, came) for each place where the two differ."""
    if isinstance(expected, dict) and isinstance(came, dict):
        for key in sorted({*expected, *came}):
            inner = where + "/" + key.replace("~", "~0").replace("/", "~1")
            yield from compare(expected.get(key, ABSENT), came.get(key, ABSENT), inner)
    elif isinstance(expected, list) and isinstance(came, list):
        if where.endswith("/details/causes"):
            expected, came = once(expected), once(came)
        for i in range(max(len(expected), len(came))):
            left = expected[i] if i < len(expected) else ABSENT
            right = came[i] if i < len(came) else ABSENT
            yield from compare(left, right, f"{where}/{i}")
    elif isinstance(expected, str) and isinstance(came, str):
        if not same_text(expected, came):
            yield where, expected, came
    elif expected is not came and (expected != came or isinstance(expected, bool) != isinstance(came, bool)):
        yield where, expected, came


def show(value, limit=600):
    if value is ABSENT:
        return "(absent)"
    text = json.dumps(value, ensure_ascii=False, sort_keys=True)
    return text if len(text) <= limit else text[:limit] + f"... ({len(text)} characters)"


def explain(expected, came):
    """Readable lines, code first; an answer of another kind altogether is shown whole."""
    lines = []
    if came["code"] == 0:
        return [f"no answer: {came['text']}"]
    if expected["code"] != came["code"]:
        lines.append(f"code: expected {expected['code']}, came {came['code']}")
    left, right = (e.get("body", e.get("text", e.get("watch"))) for e in (expected, came))
    if kind_of(left) != kind_of(right):
        return lines + [f"expected {show(left)}", f"came     {show(right)}"]
    rest = ({k: v for k, v in e.items() if k != "code"} for e in (expected, came))
    for where, left, right in compare(*rest):
        where = where.removeprefix("/body") or "/"
        lines += [f"{where}", f"  expected {show(left)}", f"  came     {show(right)}"]
    return lines


def kind_of(value):
    return value.get("kind") if isinstance(value, dict) else type(value)


def request_line(step, scenario):
    line = f"{step['method']} {fill(step['path'], {'ns': scenario['namespace']})}"
    extra = [f"{k}: {v}" for k, v in step.get("headers", {}).items()]
    return line + (f"  [{'; '.join(extra)}]" if extra else "")


def default_paths():
    return sorted(DATA.glob("[0-9][0-9]-*.json"))


def judge(name, scenario, number, step, came):
    """The Difference of one step, or None."""
    lines = explain(step["expect"], came) if came and "expect" in step else []
    if not lines:
        return None
    return Difference(name, number, step.get("note", ""), request_line(step, scenario), lines, step.get("known", ""))


def outcome_of(step, answer, difference):
    if not answer or "expect" not in step:
        return "skipped"
    if not difference:
        return "same"
    return "known" if difference.known else "differs"


def run_scenarios(base_url, token, paths=None, user_token=None, cafile=None, on_step=None, patient=False):
    """Replays the scenarios and returns a list of Difference, the known ones among them.

    on_step(file, number, outcome) is told of each step: "same", "differs", "known" or "skipped".
    """
    found = []
    server = Server(base_url, token, user_token, cafile)
    server.ask("GET", "/version")  # is there anybody at all
    try:
        for path in paths or default_paths():
            scenario, name = load(path), os.path.basename(path)
            try:
                for number, step, answer, came in play(server, scenario, patient):
                    difference = judge(name, scenario, number, step, answer and came)
                    found += [difference] if difference else []
                    if on_step:
                        on_step(name, number, outcome_of(step, answer, difference))
            except Trouble as err:
                found.append(Difference(name, 0, "cannot be run to its end", "", [str(err)]))
    finally:
        server.close()
    return found


def main():
    parser = argparse.ArgumentParser(description="Replay recorded Kubernetes API requests against a server.")
    parser.add_argument("--url", required=True)
    parser.add_argument("--token", required=True, help="an administrator's bearer token")
    parser.add_argument("--user-token", help="token of user alice, who may do nothing in these namespaces")
    parser.add_argument("--cafile", help="check the server's certificate against this (default: do not check)")
    parser.add_argument("--settle", action="store_true", help="pause where the recording did")
    parser.add_argument("--brief", action="store_true", help="one line for each step that differs")
    parser.add_argument("--known", action="store_true", help="print deliberate differences too")
    parser.add_argument("files", nargs="*", help=f"scenarios (default: all of {DATA})")
    args = parser.parse_args()
    count = {}

    def on_step(name, _number, outcome):
        count.setdefault(name, {}).setdefault(outcome, 0)
        count[name][outcome] += 1

    try:
        found = run_scenarios(args.url, args.token, args.files, args.user_token, args.cafile, on_step, args.settle)
    except Trouble as err:
        print(f"kube_diff: {err}", file=sys.stderr)
        return 2
    for difference in found:
        if args.known or not difference.known:
            print(str(difference).partition("\n")[0] if args.brief else f"{difference}\n")
    for name, outcomes in count.items():
        print(f"{name}: " + ", ".join(f"{n} {what}" for what, n in sorted(outcomes.items(), reverse=True)))
    total = sum(sum(outcomes.values()) for outcomes in count.values())
    differing = sum(not d.known for d in found)
    print(f"{total} steps, {differing} differ, {len(found) - differing} known differences")
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main())
