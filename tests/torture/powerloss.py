#!/usr/bin/python3
"""Power loss at every moment: replays prefixes of what berthd wrote to its database.

A daemon makes and deletes objects with the recorder of preload.c before libc. Every answer that the driver got is noted in
the same stream, so it stands behind everything that was written before it. Then the power is cut at places of the
stream: what was synced is on the disk, of what was not a random part is, in any order, torn at 512 bytes. On each such disk
a daemon is started: it starts, or says plainly what is wrong where the disk broke its word, and has what was acknowledged.

Usage: powerloss.py [--seed N] [--cuts N] [--objects N]"""

import argparse
import concurrent.futures
import json
import os
import pathlib
import random
import shutil
import struct
import sys
import tempfile
import threading

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "e2e"))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import harness  # noqa: E402
import preload  # noqa: E402

ENTRY = struct.Struct("<IIQq64s")
WRITE, TRUNCATE, SYNC, UNLINK, NOTE = range(1, 6)
SECTOR = 512
PATH = "/api/v1/namespaces/default/configmaps"


class Record:
    """The stream, as the driver adds to it."""

    def __init__(self, path):
        self.path = path
        path.touch()
        self.fd = os.open(path, os.O_WRONLY | os.O_APPEND)

    def note(self, **what):
        text = json.dumps(what).encode()
        os.write(self.fd, ENTRY.pack(NOTE, len(text), 0, 0, b"") + text)

    def entries(self):
        data, at = self.path.read_bytes(), 0
        while at + ENTRY.size <= len(data):
            op, size, inode, where, name = ENTRY.unpack_from(data, at)
            at += ENTRY.size
            yield op, inode, where, name.rstrip(b"\0").decode(), data[at:at + size]
            at += size


def work(daemon, record, number, count, rng):
    """Creates, changes and deletes; notes what was asked, and what was acknowledged."""
    for i in range(count):
        name = f"w{number}-{i}"
        body = {"metadata": {"name": name}, "data": {"n": "0", "fill": "x" * rng.choice([10, 500, 6000])}}
        record.note(asked=name)
        if daemon.request("POST", PATH, body).code == 201:
            record.note(there=name, n="0")
        if rng.random() < 0.4:
            body["data"]["n"] = "1"
            record.note(asked=name, n="1")
            if daemon.request("PUT", f"{PATH}/{name}", body).code == 200:
                record.note(there=name, n="1")
        if rng.random() < 0.3:
            record.note(asked=name, gone=True)
            if daemon.request("DELETE", f"{PATH}/{name}").code == 200:
                record.note(gone=name)


class Disk:
    """What is surely on the disk, and what may be."""

    def __init__(self):
        self.names, self.sure, self.maybe = {}, {}, {}
        self.promised, self.asked = {}, {}

    def apply(self, entry):
        op, inode, at, name, data = entry
        if op == NOTE:
            self.note(json.loads(data))
        elif op == UNLINK:
            self.names.pop(name, None)
        else:
            self.names[name] = inode
            self.sure.setdefault(inode, bytearray())
            pending = self.maybe.setdefault(inode, [])
            if op == SYNC:
                for one in pending:
                    self.do(self.sure[inode], *one)
                pending.clear()
            else:
                pending.append((op, at, data))

    @staticmethod
    def do(content, op, at, data):
        if op == TRUNCATE:
            if at < len(content):
                del content[at:]
            else:
                content.extend(bytes(at - len(content)))
            return
        if at > len(content):
            content.extend(bytes(at - len(content)))
        content[at:at + len(data)] = data

    def note(self, what):
        if "asked" in what:
            self.asked[what["asked"]] = what
        elif "there" in what:
            self.promised[what["there"]] = what["n"]
            self.asked.pop(what["there"], None)
        else:
            self.promised[what["gone"]] = None
            self.asked.pop(what["gone"], None)

    def after_power_loss(self, rng):
        """{name: content}: of what was not synced nothing, everything, or some, torn."""
        how = rng.choice(["nothing", "everything", "some", "some"])
        result = {}
        for name, inode in self.names.items():
            content = bytearray(self.sure[inode])
            for op, at, data in self.maybe[inode]:
                if how == "nothing" or (how == "some" and rng.random() < 0.5):
                    continue
                if how == "some" and op == WRITE and rng.random() < 0.3:
                    parts = [(at + k, data[k:k + SECTOR]) for k in range(0, len(data), SECTOR)]
                    for part in parts:
                        if rng.random() < 0.5:
                            self.do(content, WRITE, *part)
                else:
                    self.do(content, op, at, data)
            result[name] = bytes(content)
        return how, result


def record_run(folder, seed, objects):
    rng = random.Random(seed)
    record = Record(folder / "stream")
    control = preload.Control(folder, record.path)
    with harness.Daemon(folder / "first", env=control.env()) as daemon:
        rounds = 3
        for turn in range(rounds):  # with ends of both kinds in between: a checkpoint, and a log that is read again
            threads = [threading.Thread(target=work, args=(daemon, record, f"{turn}-{i}", objects // rounds // 4,
                                                           random.Random(rng.random()))) for i in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            if turn < rounds - 1:
                if turn % 2:
                    daemon.stop()
                else:
                    daemon.kill9()
                daemon.start()
        data = daemon.data
    return record, data


def check(folder, data, how, files, promised, asked):
    """Starts a daemon on that disk; a sentence when it broke its word, else None."""
    target = folder / "data"
    target.mkdir(parents=True)
    for name in ("pki", "admin.kubeconfig", "library.port"):
        if (data / name).is_dir():
            shutil.copytree(data / name, target / name)
        elif (data / name).exists():
            shutil.copy(data / name, target / name)
    for name, content in files.items():
        path = target / name
        path.write_bytes(content)
        path.chmod(0o600)
    try:
        with harness.Daemon(folder) as daemon:
            items = {i["metadata"]["name"]: i["data"]["n"] for i in daemon.get(PATH)["items"]
                     if i["metadata"]["name"].startswith("w")}
            made = daemon.request("POST", PATH, {"metadata": {"name": "after"}})
    except harness.Trouble as trouble:
        return f"it does not start: {trouble}"
    if made.code != 201:
        return f"it takes no writes: {made.body}"
    for name, n in promised.items():
        if name in asked:
            continue  # a change was under way: either is right
        if n is None and name in items:
            return f"{name} was deleted, and is there"
        if n is not None and items.get(name) != n:
            return f"{name} was acknowledged with {n}, and has {items.get(name)}"
    for name in items:
        if name not in promised and name not in asked:
            return f"{name} is there, and nobody asked for it"
    return None


def run(folder, seed=1, cuts=40, objects=240, jobs=2):
    """[sentence, ...] of what went wrong, and how many cuts were looked at."""
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    record, data = record_run(folder, seed, objects)
    entries = list(record.entries())
    rng = random.Random(seed)
    first = next((i for i, e in enumerate(entries) if e[0] == NOTE), 0)  # before, it was never ready
    syncs = [i for i, e in enumerate(entries) if e[0] == SYNC and i > first]
    places = set(rng.sample(syncs, min(len(syncs), cuts // 2)))  # right after a sync
    while len(places) < min(cuts, len(entries) - first):
        places.add(rng.randrange(first, len(entries)))
    disk, wrong, waiting = Disk(), [], []
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        for i, entry in enumerate(entries):
            disk.apply(entry)
            if i not in places:
                continue
            how, files = disk.after_power_loss(rng)
            waiting.append((i, how, pool.submit(check, folder / f"cut-{i}", data, how, files, dict(disk.promised),
                                                dict(disk.asked))))
        for i, how, future in waiting:
            sentence = future.result()
            if sentence:
                wrong.append(f"cut after entry {i} of {len(entries)}, {how} of what was not synced: {sentence}")
            else:
                shutil.rmtree(folder / f"cut-{i}", ignore_errors=True)
    return wrong, len(waiting), len(entries)


def main():
    args = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    args.add_argument("--seed", type=int, default=1)
    args.add_argument("--cuts", type=int, default=200)
    args.add_argument("--objects", type=int, default=400)
    args.add_argument("--keep", action="store_true", help="the folders, with the disks on which it failed")
    chosen = args.parse_args()
    folder = tempfile.mkdtemp(prefix="powerloss-")
    wrong, looked, entries = run(folder, chosen.seed, chosen.cuts, chosen.objects)
    print(f"powerloss: {looked} cuts of a stream of {entries} writes, seed {chosen.seed}: {len(wrong)} wrong")
    for sentence in wrong:
        print(f"  {sentence}")
    if wrong or chosen.keep:
        print(f"  see {folder}")
    else:
        shutil.rmtree(folder)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
