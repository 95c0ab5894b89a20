"""Faults inside berthd, by a library that is put before libc: see preload.c."""

import mmap
import os
import pathlib
import struct
import subprocess

HERE = pathlib.Path(__file__).resolve().parent
CONTROL = struct.Struct("iiq")


def build(folder):
    path = pathlib.Path(folder) / "preload.so"
    subprocess.run(["cc", "-O1", "-Wall", "-Werror", "-shared", "-fPIC", "-o", path, HERE / "preload.c", "-ldl", "-lpthread"],
                   check=True)
    return path


class Control:
    """What the process that is started with env() has to bear."""

    def __init__(self, folder, record=None):
        self.library = build(folder)
        self.path = pathlib.Path(folder) / "control"
        self.path.write_bytes(bytes(4096))
        self.record = record
        fd = os.open(self.path, os.O_RDWR)
        self.map = mmap.mmap(fd, 4096)
        os.close(fd)
        self.sync_ms = self.sync_fails = self.clock_offset = 0

    def env(self):
        env = {"LD_PRELOAD": str(self.library), "TORTURE_CONTROL": str(self.path),
               "ASAN_OPTIONS": "verify_asan_link_order=0:" + os.environ.get("ASAN_OPTIONS", "")}
        if self.record:
            env["TORTURE_RECORD"] = str(self.record)
        return env

    def set(self, **more):
        for key, value in more.items():
            setattr(self, key, value)
        self.map[:CONTROL.size] = CONTROL.pack(self.sync_ms, self.sync_fails, self.clock_offset)

    def clear(self):
        self.set(sync_ms=0, sync_fails=0)
