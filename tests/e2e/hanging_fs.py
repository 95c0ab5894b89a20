"""A file system that is there and then hangs, as a file server does that went away: FUSE, spoken by hand. Its root
can be looked at; whoever asks for a name in it waits until the file system is closed. Needs root."""

import ctypes
import errno
import os
import select
import struct
import subprocess
import threading

LOOKUP, FORGET, GETATTR, INIT, INTERRUPT = 1, 2, 3, 26, 36
HEADER = struct.Struct("<IIQQIIII")  # length, opcode, unique, node, uid, gid, pid
DIRECTORY = 0o40755


class HangingFs:
    def __init__(self, folder):
        self.folder, self.asked = str(folder), threading.Event()
        os.makedirs(self.folder, exist_ok=True)
        self.fd = os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC | os.O_NONBLOCK)
        options = f"fd={self.fd},rootmode=40000,user_id=0,group_id=0,allow_other"
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.mount(b"hanging", self.folder.encode(), b"fuse", 0, options.encode()):
            code = ctypes.get_errno()
            os.close(self.fd)
            raise OSError(code, os.strerror(code))
        self.end, self.stop = os.pipe()
        self.thread = threading.Thread(target=self.serve, daemon=True)
        self.thread.start()

    def reply(self, unique, body=b"", error=0):
        os.write(self.fd, struct.pack("<IiQ", 16 + len(body), -error, unique) + body)

    def serve(self):
        attributes = struct.pack("<6Q10I", 1, 0, 0, 0, 0, 0, 0, 0, 0, DIRECTORY, 2, 0, 0, 0, 4096, 0)
        while True:
            # Never in read(): a thread in there would keep the connection when it is closed.
            if self.end in select.select([self.fd, self.end], [], [])[0]:
                return
            try:
                request = os.read(self.fd, 1 << 17)
            except OSError as trouble:
                if trouble.errno in (errno.EINTR, errno.ENOENT, errno.EAGAIN):
                    continue
                return  # unmounted
            opcode, unique = HEADER.unpack_from(request)[1:3]
            if opcode == INIT:
                self.reply(unique, struct.pack("<4I2H2I2H8I", 7, 31, 0, 0, 12, 9, 4096, 1, 0, 0, *[0] * 8))
            elif opcode == GETATTR:
                self.reply(unique, struct.pack("<QII", 3600, 0, 0) + attributes)
            elif opcode == LOOKUP:
                self.asked.set()  # and never an answer
            elif opcode not in (FORGET, INTERRUPT):
                self.reply(unique, error=errno.ENOSYS)

    def close(self):
        subprocess.run(["umount", "-l", self.folder], check=False)
        os.close(self.stop)
        self.thread.join()
        os.close(self.end)
        os.close(self.fd)  # ends the connection: whoever waits gets an error
