"""The page in a real Chromium against a live daemon that runs real pods and a real training job on declared cards.
$BERTH_PAGE_SHOTS names a folder for pictures of the views."""
import json
import os
import pathlib
import shutil
import signal
import tempfile
import time

import pytest

import harness
import page_browser
import podkit
from page_browser import browser  # noqa: F401 (a fixture)

pytestmark = [podkit.needs, pytest.mark.plain, pytest.mark.skipif(bool(page_browser.missing()), reason=page_browser.missing())]

ANN, BOB = "games", "news"  # users that every Debian has: their pods run with their rights
HOSTILE = "<img src=x onerror=window.hacked=1>"
SCRIPT = """
import json, os, sys, time, urllib.request
url, job = os.environ["BERTH_URL"], os.environ["JOB_UUID"]
def call(path, doc=None):
    data = None if doc is None else json.dumps(doc).encode()
    headers = {"Content-Type": "application/json", "Authorization": "Bearer " + os.environ.get("BERTH_TOKEN", "")}
    return urllib.request.urlopen(urllib.request.Request(url + path, data, headers), timeout=10).read()
print("<script>window.hacked=1</script> and \\x1b[31mred\\x1b[0m needle-in-the-log", flush=True)
for epoch in range(int(os.environ["EPOCHS_DONE"]), int(os.environ["EPOCHS_TO_BE_DONE"])):
    if call("/has_to_stop/" + job) == b"1":
        sys.exit(0)
    for step in range(epoch * 4, epoch * 4 + 4):
        time.sleep(0.05)
        call(f"/v1/train/{job}/log", {"rank": 0, "records": [{"step": step, "epoch": epoch, "values": {"loss": 2 / (1 + step / 9)}}]})
        print("epoch", epoch, "step", step, flush=True)
    call("/profiling/" + job, {"jobid": job, "iternum": epoch * 4 + 4, "numgpu": 1, "rank": 0, "meandur": 0.05, "gpumem": 0, "epochDur": 0.2})
    call("/end_epoch/" + job, {"done": epoch + 1})
if os.environ["EPOCHS_TO_BE_DONE"] == "25":  # a progress bar: its line never ends
    for i in range(10000):
        sys.stdout.write("\\r%d/9999 done" % i)
    sys.stdout.flush()
    time.sleep(4)
"""


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    folder = tmp_path_factory.mktemp("page")
    daemon = harness.Daemon(folder, "--agent", "on", "--gpus", "4x24576", "--min-run", "0", env={"BERTH_SHIM": str(podkit.SHIM), "BERTH_IMAGE_HELPER": str(podkit.HELPER)})
    daemon.custom = pathlib.Path(tempfile.mkdtemp(prefix="berth-page-"))  # pytest's own folders are root's alone
    daemon.custom.chmod(0o755)
    (daemon.custom / "train.py").write_text(SCRIPT)
    for user in (ANN, BOB):
        daemon.post("/v1/users", {"name": user})
        # Four pods, as the default quota has it, are too few here.
        for kind in ("resourcequotas", "limitranges"):
            daemon.request("DELETE", f"/api/v1/namespaces/{user}/{kind}/default")
    daemon.tokens = {user: daemon.post("/v1/tokens", {"user": user})["token"] for user in (ANN, BOB)}
    yield daemon
    daemon.kubectl("delete", "trainingjobs", "--all", "--all-namespaces", timeout=60)
    podkit.close(daemon)
    shutil.rmtree(daemon.custom, ignore_errors=True)


def pod(lab, user, name, gpus=1, command="while :; do echo alive; sleep 0.2; done", **labels):
    doc = podkit.pod(name, command, resources={"limits": {"nvidia.com/gpu": str(gpus)}} if gpus else {})
    doc["metadata"]["labels"] = {"user": user, **labels}
    doc["spec"]["terminationGracePeriodSeconds"] = 0
    answer = lab.request("POST", f"/api/v1/namespaces/{user}/pods", doc, via="http", token=lab.tokens[user])
    assert answer.code == 201, answer.body
    return answer.json()["metadata"]["uid"]


def train(lab, name, **options):
    return lab.post("/v1/train", {"job_name": name, "image_name": "host", "script_path": "/custom/train.py", "custom_dir": str(lab.custom),
                                  "estimated_memory": 6000, "est_nhours": 2, **options})["id"]


def clear(lab):
    lab.kubectl("delete", "trainingjobs,pods", "--all", "--all-namespaces", "--grace-period=0", "--wait=true", timeout=60)
    harness.wait(lambda: not lab.get("/v1/queue")["jobs"], "the queue is empty", 30)


@pytest.fixture
def empty(lab):
    clear(lab)
    return lab


def state(lab, uid):
    """None in the moment between a job's end and its record."""
    answer = lab.request("GET", f"/v1/queue/{uid}")
    return answer.json()["state"] if answer.code == 200 else None


def sign_in(browser, lab, user=None):
    """By a link, as people do it."""
    browser.forget()
    args = ["token", "--web"] + (["--user", user] if user else [])
    browser.open(lab.berth(*args).ok().strip())
    browser.wait_js("return window.berth?.session.user")
    browser.wait_text("live", "#link")


def picture(browser, name):
    folder = os.environ.get("BERTH_PAGE_SHOTS")
    if folder:
        pathlib.Path(folder).mkdir(parents=True, exist_ok=True)
        browser.driver.save_screenshot(str(pathlib.Path(folder) / f"{name}.png"))


def go(browser, where):
    browser.js("location.hash = arguments[0]", where)


def test_the_queue_is_live(browser, empty):
    sign_in(browser, empty)
    assert "#/queue" in browser.driver.current_url and "signin" not in browser.driver.current_url
    browser.wait_text("All cards are free")
    uids = [pod(empty, ANN, "first"), pod(empty, ANN, "second"), pod(empty, BOB, "third", priority="2")]
    for uid in uids:
        harness.wait(lambda uid=uid: state(empty, uid) == "Running", f"{uid} runs")
    browser.wait_js("return document.querySelectorAll('tr.s-running').length === 3")
    text = browser.text("table")
    assert "user’s 1st GPU" in text and "user’s 2nd GPU" in text and "+2" in text
    browser.wait_text("3 of 4 GPUs", ".capacity")
    waiting = pod(empty, BOB, "fourth", gpus=4)
    browser.wait_js("return document.querySelector(`tr[data-key='${arguments[0]}']`)?.innerText.includes('Pending')", waiting)
    row = browser.js("return document.querySelector(`tr[data-key='${arguments[0]}']`).innerText", waiting)
    assert len(row.splitlines()[-1]) > 10, row  # a reason
    browser.js("const s = document.querySelector('.filters select'); s.value = arguments[0]; s.dispatchEvent(new Event('change'))", ANN)
    browser.wait_js("return document.querySelectorAll('tr[data-key]:not(.group)').length === 2")
    assert f"user={ANN}" in browser.js("return location.hash")
    empty.kubectl("delete", "pod", "-n", ANN, "second", "--wait=false").ok()
    browser.wait_js("return document.querySelectorAll('tr[data-key]:not(.group)').length === 1")
    assert browser.complaints() == []


def test_a_change_shows_within_a_moment(browser, empty):
    uid = pod(empty, ANN, "timed")
    harness.wait(lambda: state(empty, uid) == "Running", "it runs")
    sign_in(browser, empty)
    browser.wait_js("return document.querySelectorAll('tr[data-key]').length > 1")
    took = []
    for priority in (1, 2, 3, 4, 5):
        browser.js("""window.seenAt = 0; const cell = document.querySelector(`tr[data-key="${arguments[0]}"] .c-prio`);
            new MutationObserver((_, o) => requestAnimationFrame(() => { window.seenAt = Date.now(); o.disconnect(); })).observe(cell, {childList: true, characterData: true, subtree: true});""", uid)
        before = time.time() * 1000
        empty.post(f"/v1/queue/{uid}/priority", {"priority": priority})
        took.append(browser.wait_js("return window.seenAt") - before)
    took.sort()
    browser.open(empty.http)
    shown = browser.wait_js("return performance.getEntriesByName('queue-shown')[0]?.startTime")
    path = os.environ.get("BERTH_PAGE_FIGURES")
    if path:
        with open(path, "a", encoding="utf-8") as out:
            out.write(json.dumps({"live_update_ms": [round(t) for t in took], "live_shown_ms": round(shown)}) + "\n")
    assert took[2] <= 200, took
    assert shown <= 3000, shown  # 300 on a machine that does nothing else: docs/benchmarks.md


def test_a_training_job_from_start_to_end(browser, empty):
    sign_in(browser, empty)
    uid = train(empty, "curve", max_epochs=25)
    go(browser, f"#/job/{uid}")
    browser.wait_text("Running", ".jobhead")
    browser.wait_js("return /epoch \\d+ of 25/.test(document.querySelector('.jobhead')?.innerText)")
    browser.wait_js("return [...document.querySelectorAll('figcaption')].some((n) => n.innerText.startsWith('loss'))")
    browser.wait_text("needle-in-the-log", ".log")
    assert "\x1b" not in browser.text(".log") and "<script>window.hacked=1</script>" in browser.text(".log")
    browser.wait_text("step 20", ".log")  # it follows
    browser.wait_js("return document.querySelector('.log').innerText.includes('9999/9999 done') && document.querySelector('.jobhead').innerText.includes('Running')")
    assert "5000/9999" not in browser.text(".log")
    browser.js("const s = document.querySelector('.logbox input[type=search]'); s.value = 'needle'; s.dispatchEvent(new Event('input'))")
    browser.wait_js("return document.querySelector('.log mark')?.textContent === 'needle'")
    browser.click("Manifest")
    browser.wait_text("kind: TrainingJob", "pre.code")
    browser.click("Events")
    browser.wait_js("return document.querySelectorAll('.tabpanel .events li').length > 0")
    picture(browser, "job-live")
    harness.wait(lambda: state(empty, uid) == "Succeeded", "it succeeds", 40)
    browser.wait_text("Succeeded", ".jobhead")
    go(browser, "#/history")
    browser.wait_text("curve", "table.grid")
    browser.wait_js("return document.querySelector('.history a.button')?.getAttribute('href').includes('format=csv')")
    assert b"curve" in empty.request("GET", "/v1/history?format=csv").body
    assert browser.js("return window.hacked") is None and browser.complaints() == []


def test_preemption_is_told(browser, empty):
    sign_in(browser, empty)
    uid = train(empty, "gives-way", max_epochs=400, priority=-1, labels={"user": ANN}, disable_gpu_sharing=True, is_single_gpu=True)
    harness.wait(lambda: (empty.get(f"/v1/queue/{uid}")["epochsDone"] or 0) > 0, "an epoch is done", 30)
    for name in ("a", "b", "c", "d"):
        pod(empty, ANN, f"fill-{name}") if name != "d" else pod(empty, BOB, "claims")
    go(browser, f"#/job/{uid}")
    browser.wait_js("return /Preempt/.test(document.querySelector('.events')?.innerText || '')", timeout=60)
    entry = next(h for h in empty.get(f"/v1/queue/{uid}")["history"] if h["state"].startswith("Preempt"))
    assert entry["reason"] in browser.text(".events")


def test_cards_and_who_holds_them(browser, empty):
    sign_in(browser, empty)
    uids = [pod(empty, ANN, "whole"), train(empty, "share-a", max_epochs=900, is_single_gpu=True), train(empty, "share-b", max_epochs=900, is_single_gpu=True)]
    for uid in uids:
        harness.wait(lambda uid=uid: state(empty, uid) == "Running", f"{uid} runs", 30)
    go(browser, "#/gpus")
    browser.wait_js("return document.querySelectorAll('.share:not(.free)').length === 3")
    assert browser.js("return document.querySelectorAll('.card .tag').length") == 4  # all declared
    used = {c["index"] for uid in uids for c in empty.get(f"/v1/queue/{uid}")["cards"]}
    assert browser.js("return [...document.querySelectorAll('.card')].filter((c) => c.querySelector('a.share')).length") == len(used)
    browser.wait_js("return document.querySelector('.timeline canvas')?.width > 100")
    browser.wait_js("return [...document.querySelectorAll('.gpus tbody tr')].filter((n) => n.textContent.includes('now')).length === 3")
    picture(browser, "gpus-live")
    assert browser.complaints() == []


def test_submitting_with_a_dry_run_first(browser, empty):
    sign_in(browser, empty)
    go(browser, "#/submit")
    browser.wait_js("return document.querySelectorAll('.field').length > 10")
    fields = {"job_name": "by-form", "script_path": "/custom/train.py", "custom_dir": str(empty.custom), "max_epochs": "3", "estimated_memory": "3000"}
    for name, value in fields.items():
        browser.js("const i = document.querySelector(`[name='${arguments[0]}']`); i.value = arguments[1]; i.dispatchEvent(new Event('input', {bubbles: true}))", name, value)
    assert browser.js("return document.querySelector('button.main').disabled")
    browser.click("Dry run")
    browser.wait_text("What would happen")
    browser.wait_text("kind: TrainingJob", ".preview pre")
    assert empty.get("/v1/queue")["jobs"] == []
    browser.click("Send to the queue")
    browser.wait_js("return location.hash.startsWith('#/job/')")
    browser.wait_text("by-form", "h1")
    harness.wait(lambda: state(empty, "by-form") == "Succeeded", "it succeeds", 30)
    go(browser, "#/submit")
    browser.js("const i = document.querySelector(`[name='max_epochs']`)")
    browser.wait_js("return document.querySelectorAll('.field').length > 10")
    browser.js("const i = document.querySelector(`[name='job_name']`); i.value = 'x'; i.form.requestSubmit()")
    browser.wait_js("return document.querySelector('.panel.bad, .preview')")


def test_a_task_definition_becomes_a_form(browser, empty):
    template = ("apiVersion: batch/v1\nkind: Job\nmetadata:\n  name: \"{{ global.release }}\"\nspec:\n  backoffLimit: 0\n  template:\n    spec:\n"
                "      restartPolicy: Never\n      containers:\n      - name: c\n        image: host\n        command: [sh, -c, \"echo {{ process.word }}\"]\n")
    made = empty.request("POST", "/v1/task-templates", {"name": "say", "template": template})
    assert made.code == 201, made.body
    made = empty.request("POST", "/v1/task-definitions", {"name": "say-it", "task_template_name": "say", "user_values_description": {
        "process": {"word": "(Required) what to say", "loud": "(Optional) louder"}}, "user_values_example": {"process": {"word": "hello", "loud": False}}})
    assert made.code == 201, made.body
    sign_in(browser, empty)
    go(browser, "#/submit?kind=task&definition=say-it")
    browser.wait_js("return document.querySelector(`[name='word']`)?.value === 'hello'")
    assert browser.js("return document.querySelector(`[name='word']`).required && !document.querySelector(`[name='loud']`).required")
    assert "what to say" in browser.text(".submit")
    browser.click("YAML")
    browser.wait_js("return document.querySelector('textarea.code')?.value.includes('word: hello')")
    browser.click("Dry run")
    browser.wait_text("echo hello", ".preview pre")
    browser.click("Create the task")
    browser.wait_js("return location.hash.startsWith('#/job/')")
    browser.wait_text("hello", ".log", timeout=20)


def test_what_three_people_may(browser, empty):
    uid = pod(empty, ANN, "hers")
    harness.wait(lambda: state(empty, uid) == "Running", "it runs")
    buttons = "return [...document.querySelectorAll('.actions button')].map((b) => b.textContent)"
    for user, may in ((ANN, True), (BOB, False), (None, True)):
        sign_in(browser, empty, user)
        go(browser, f"#/job/{uid}")
        browser.wait_text("hers", "h1")
        browser.wait_js("return document.querySelector('.events li')")
        assert ("Cancel" in browser.js(buttons)) == may, user
        if may:
            browser.wait_text("alive", ".log")
        else:
            browser.wait_text("the owner’s and the admins’ to see", "main")
        code = browser.driver.execute_async_script("""const done = arguments[1]; fetch('v1/page/session').then((r) => r.json()).then((s) =>
            fetch(`v1/queue/${arguments[0]}/priority`, {method: 'POST', headers: {'X-Berth-CSRF': s.csrf}, body: '{"priority": 1}'})).then((r) => done(r.status));""", uid)
        assert code == (200 if may else 403), user
        code = browser.driver.execute_async_script("const done = arguments[1]; fetch(`v1/queue/${arguments[0]}/logs`).then((r) => { r.body.cancel(); done(r.status); })", uid)
        assert code == (200 if may else 403), user
    browser.forget()
    browser.open(empty.http)
    browser.wait_text("hers", "table")  # on this machine the queue is shown to everybody
    go(browser, f"#/job/{uid}")
    browser.wait_text("Sign in to see yours", "main")
    assert browser.js(buttons) == []
    sign_in(browser, empty, ANN)
    go(browser, f"#/job/{uid}")
    browser.click("Priority", ".actions button")
    browser.wait_js("return document.querySelector('dialog input')")
    browser.js("const i = document.querySelector('dialog input'); i.value = '7'; i.form.requestSubmit()")
    harness.wait(lambda: empty.get(f"/v1/queue/{uid}")["priority"] == 7, "the priority is set")
    browser.click("Cancel", ".actions button")
    browser.click("Cancel the job", "dialog button")
    harness.wait(lambda: state(empty, uid) == "Cancelled", "it is cancelled")
    browser.wait_text("Cancelled", ".jobhead")
    browser.click("Sign out")
    browser.wait_text("Sign in", "#who")


def test_hostile_labels_and_names(browser, empty):
    doc = podkit.pod("plain", f"echo '{HOSTILE}'; sleep 60")
    doc["metadata"]["annotations"] = {"x": HOSTILE}
    doc["spec"]["containers"][0]["env"] = [{"name": "A", "value": HOSTILE}]
    doc["spec"]["terminationGracePeriodSeconds"] = 0
    assert empty.request("POST", "/api/v1/namespaces/default/pods", doc).code == 201
    sign_in(browser, empty)
    uid = harness.wait(lambda: next((j["id"] for j in empty.get("/v1/queue")["jobs"]), None), "it is queued")
    go(browser, f"#/job/{uid}?tab=manifest")
    browser.wait_text(HOSTILE.replace("'", ""), "pre.code")
    browser.click("Log")
    browser.wait_text(HOSTILE, ".log")
    assert browser.js("return window.hacked") is None and browser.js("return document.querySelectorAll('main img').length") == 0
    assert browser.complaints() == []


def test_it_goes_on_after_a_restart(browser, empty):
    pod(empty, ANN, "stays")
    sign_in(browser, empty)
    browser.wait_text("stays", "table")
    empty.stop()
    browser.wait_text("reconnecting", "#link")
    empty.start()
    browser.wait_text("live", "#link", timeout=20)
    assert browser.js("return berth.session.user") == "system:admin"
    pod(empty, ANN, "came-later")
    browser.wait_text("came-later", "table")


def test_it_says_when_it_is_stale(browser, empty):
    """A connection that is silent but open, as behind a router that went away."""
    sign_in(browser, empty)
    browser.wait_text("live", "#link")
    os.kill(empty.process.pid, signal.SIGSTOP)
    try:
        began = time.monotonic()
        browser.wait_text("reconnecting, as of ", "#link", timeout=20)
        assert time.monotonic() - began < 15
    finally:
        os.kill(empty.process.pid, signal.SIGCONT)
    browser.wait_text("live", "#link", timeout=20)


def test_a_job_view_keeps_what_is_under_the_mouse(browser, empty):
    """A job of many short epochs: its buttons, the focus and a selection outlive every update."""
    sign_in(browser, empty)
    uid = train(empty, "busy", max_epochs=400)
    harness.wait(lambda: state(empty, uid) == "Running", "it runs")
    go(browser, f"#/job/{uid}")
    browser.wait_js("return document.querySelector('.jobhead button.danger')")
    browser.js("""
        window.kept = [...document.querySelectorAll('.jobhead button')];
        kept.find((b) => b.textContent === 'Priority').focus();
        const name = document.querySelector('.jobhead h1');
        getSelection().selectAllChildren(name);
        window.epochs = document.querySelector('.progressline').textContent""")
    for _ in range(3):
        before = browser.js("return document.querySelector('.progressline').textContent")
        browser.wait_js("return document.querySelector('.progressline').textContent !== arguments[0]", before)
    browser.wait_text("Copy as command", ".jobhead")
    assert browser.js("return kept.every((b) => b.isConnected)")
    assert browser.js("return document.activeElement.textContent") == "Priority"
    assert browser.js("return String(getSelection())") == "busy"
    browser.click("Copy as command", ".jobhead button")
    browser.wait_text("Copied", ".jobhead")
    before = browser.js("return document.querySelector('.progressline').textContent")
    browser.wait_js("return document.querySelector('.progressline').textContent !== arguments[0]", before)
    browser.click("Cancel", ".jobhead button")
    browser.wait_js("return document.activeElement.textContent === 'Back'")
    browser.click("Cancel the job", "dialog button")
    browser.wait_js("return document.querySelector('.jobhead .state').textContent === 'Cancelled'")
    assert browser.js("return ![...document.querySelectorAll('.jobhead button')].some((b) => b.textContent === 'Cancel')")
    assert browser.complaints() == []


def test_below_a_path(browser, lab, tmp_path):
    with harness.Daemon(tmp_path, "--path-prefix", "/lab/berth", "--agent", "off") as other:
        browser.forget()
        browser.open(other.berth("token", "--web").ok().strip())
        browser.wait_text("live", "#link")
        assert browser.js("return berth.session.user") == "system:admin" and "/lab/berth/#/queue" in browser.driver.current_url
        go(browser, "#/history")
        browser.wait_text("No finished jobs")
        assert browser.js("return performance.getEntriesByType('resource').every((e) => new URL(e.name).pathname.startsWith('/lab/berth/'))")


def test_the_inbox_tells_what_happened_and_is_read_with_the_keyboard(browser, empty):
    from selenium.webdriver.common.keys import Keys
    sign_in(browser, empty, ANN)
    browser.wait_js("return !document.getElementById('inbox').hidden")
    empty.post(f"/v1/inbox/seen?user={ANN}", {})
    browser.wait_js("return document.querySelector('#inbox .count').hidden")
    uid = pod(empty, ANN, "mine")
    browser.wait_js("return document.querySelector(`tr[data-key='${arguments[0]}']`)?.innerText.includes('Running')", uid)
    empty.post(f"/v1/queue/{uid}/cancel", {})
    browser.wait_text("cancelled by", "#word")  # a word when a row leaves because of somebody else
    assert "mine" in browser.text("#word") and browser.text("#inbox .count") == "1"
    picture(browser, "word")
    browser.js("document.activeElement.blur()")
    browser.keys("g", "i")
    browser.wait_text("cancelled by", "#inbox-list")
    assert browser.js("return document.getElementById('word').hidden && document.querySelector('#inbox button').ariaExpanded") == "true"
    assert browser.js("return document.querySelector('#inbox-list li.new a').getAttribute('href')") == f"#/job/{uid}"
    browser.wait_js("return document.querySelector('#inbox .count').hidden")
    assert empty.get(f"/v1/inbox?user={ANN}")["unseen"] == 0
    picture(browser, "inbox")
    browser.emulate(dark=True)
    picture(browser, "inbox-dark")
    browser.emulate()
    browser.keys(Keys.ESCAPE)
    assert browser.js("return document.getElementById('inbox-list').hidden && document.activeElement.textContent.startsWith('Inbox')")
    uid = pod(empty, ANN, "broken", command=f"echo '{HOSTILE}'; exit 3")
    browser.wait_text("exit code 3", "#word")
    assert HOSTILE in browser.text("#word") and not browser.js("return window.hacked")
    assert browser.complaints() == []
