#!/usr/bin/env python3
"""Cuts the power under a real file system; `scripts/power-cuts.sh` says how to call it.

A file system is on a loop device, whose file is served by this program, through /dev/fuse. So every write that leaves the file
system comes by here, and every flush, in order. The writer works in this file system, and says what it holds for durable. For each
cut, the device is made anew: what a flush had covered is there, and of the rest what chance gives. It is mounted, as after a
restart of the machine, and the verifier says whether what was acknowledged before the cut is there.

In some recordings the device fails for a while: it answers EIO to what is written to all of it, or to the blocks of one file. The
writer says nothing of what was not synced, ends, and is called again, in the same boot, until the device works again and it gets on.
"""

import argparse
import bisect
import ctypes
import dataclasses
import errno
import fcntl
import gzip
import json
import math
import os
import pickle
import random
import re
import select
import shlex
import signal
import stat
import struct
import subprocess
import sys
import tempfile
import threading
import time
import typing
import uuid
import zlib

libc = ctypes.CDLL(None, use_errno=True)
libc.mount.argtypes = [ctypes.c_char_p, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_ulong, ctypes.c_char_p]
libc.umount2.argtypes = [ctypes.c_char_p, ctypes.c_int]
libc.fallocate.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64]
libc.sync_file_range.argtypes = [ctypes.c_int, ctypes.c_int64, ctypes.c_int64, ctypes.c_uint]

SECTOR, BLOCK, MEGABYTE = 512, 4096, 1 << 20
LOG_LIMIT = 4 << 30
KEPT = 8
SKIP = 77
# The exit status of a writer or verifier that cannot go on, and says so: the disk failed, or what is there is not to be trusted.
REFUSED = 3
# So often a writer may refuse to go on, once the device works again.
PATIENCE = 8

# What the file systems themselves need whole: a superblock that is written in place and has a checksum of all of it. Their
# authors count on a device that does not tear these; a torn one cannot be mounted, which says nothing about the writer.
WHOLE = {"ext4": (0, BLOCK), "btrfs": (65536, 65536 + BLOCK)}
# The superblocks lie in these bytes.
WRECKED = 128 << 10
# The place of the number of the file system, in the superblock of xfs and in the blocks of its trees and directories.
XFS_UUID, XFS_BLOCK_UUIDS = 32, (24, 32, 40)
MKFS = {
    "ext4": ["mkfs.ext4", "-q", "-F", "-E", "nodiscard,lazy_itable_init=0,lazy_journal_init=0"],
    "xfs": ["mkfs.xfs", "-q", "-f", "-K"],
    "btrfs": ["mkfs.btrfs", "-q", "-f", "-K"],
}


def checked(result, what):
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


def mount(source, target, kind, data="", flags=0):
    checked(libc.mount(source.encode(), target.encode(), kind.encode(), flags, data.encode()), f"mount {kind} on {target}")


def umount(target):
    # A loop device goes away some time after the file system on it: up to seconds, on a busy machine.
    for _ in range(1500):
        if libc.umount2(target.encode(), 0) == 0:
            return
        if ctypes.get_errno() != errno.EBUSY:
            break
        time.sleep(0.02)
    checked(libc.umount2(target.encode(), 0), f"umount {target}")


def loop_device(path, direct):
    """A loop device for the file, which goes away with its last user; and a descriptor of it."""
    config_number, free_number, autoclear, direct_io = 0x4C0A, 0x4C82, 4, 16
    with open(path, "r+b", buffering=0) as backing:
        for _ in range(100):
            with open("/dev/loop-control", "rb") as control:
                number = fcntl.ioctl(control, free_number)
            device = f"/dev/loop{number}"
            descriptor = os.open(device, os.O_RDWR)
            config = bytearray(304)
            struct.pack_into("=II", config, 0, backing.fileno(), SECTOR)
            struct.pack_into("=I", config, 8 + 52, autoclear | (direct_io if direct else 0))
            try:
                fcntl.ioctl(descriptor, config_number, config)
                return device, descriptor
            except OSError as error:
                os.close(descriptor)
                if error.errno != errno.EBUSY:
                    raise
        raise OSError(errno.EBUSY, "no loop device stays free")


class Unmountable(Exception):
    """The file system cannot be mounted."""


def mount_file(path, target, kind, direct=False):
    device, descriptor = loop_device(path, direct)
    try:
        mount(device, target, kind)
    except OSError as error:
        raise Unmountable(str(error)) from error
    finally:
        os.close(descriptor)


def punch(descriptor, offset, length):
    keep_size, punch_hole = 1, 2
    checked(libc.fallocate(descriptor, keep_size | punch_hole, offset, length), "punch")


def write_all(descriptor, data, offset):
    view = memoryview(data)
    while view:
        done = os.pwrite(descriptor, view, offset)
        view, offset = view[done:], offset + done


def pieces(start, end, unit):
    """The parts of a range that lie between multiples of the unit."""
    while start < end:
        yield start, min(end, start - start % unit + unit)
        start += unit - start % unit


def extents(descriptor):
    """The parts of a sparse file that hold data."""
    end, position = os.fstat(descriptor).st_size, 0
    while position < end:
        try:
            start = os.lseek(descriptor, position, os.SEEK_DATA)
        except OSError:  # no data beyond
            return
        position = os.lseek(descriptor, start, os.SEEK_HOLE)
        yield start, position - start


def copy_sparse(source, target):
    with open(source, "rb") as read, open(target, "wb") as write:
        write.truncate(os.fstat(read.fileno()).st_size)
        for start, length in extents(read.fileno()):
            done = 0
            while done < length:
                done += os.copy_file_range(read.fileno(), write.fileno(), length - done, start + done, start + done)


def mapped(path):
    """Where the blocks of a file are on the device, as far as they have a place."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        most, unknown, found, start = 200, 0x2 | 0x4, [], 0  # flags: no place, not allocated yet
        while True:
            buffer = bytearray(32 + 56 * most)
            struct.pack_into("=QQIIII", buffer, 0, start, (1 << 63) - 1, 0, 0, most, 0)
            fcntl.ioctl(descriptor, 0xC020660B, buffer)
            count = struct.unpack_from("=I", buffer, 20)[0]
            for number in range(count):
                logical, physical, length, _, _, flags = struct.unpack_from("=5QI", buffer, 32 + 56 * number)
                start = logical + length
                if not flags & unknown:
                    found.append((physical, physical + length))
            if count < most:
                return found
    finally:
        os.close(descriptor)


def data_chunks(image):
    """Where btrfs has the content of files."""
    said = subprocess.run(["btrfs", "inspect-internal", "dump-tree", "-t", "chunk", image], stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL, check=False).stdout.decode()
    chunks = re.findall(r"length (\d+) owner \d+ stripe_len \d+ type DATA\|single\n(?:.*\n)*?\s+stripe 0 devid \d+ offset (\d+)", said)
    return [(int(offset), int(offset) + int(length)) for length, offset in chunks]


class Outages(threading.Thread):
    """Has the device fail for a while, once or twice, when the writer has got somewhere: it is gone, or takes nothing, or nothing where one
    file has its blocks."""

    def __init__(self, kind, recorder, directory, rng, seconds):
        super().__init__(daemon=True)
        self.kind, self.recorder, self.directory, self.rng, self.seconds = kind, recorder, directory, rng, seconds
        self.ending = threading.Event()
        self.start()

    def run(self):
        last = 0
        for _ in range(self.rng.choice((1, 1, 2))):
            last += self.rng.randint(20, 900)
            while not self.recorder.acks or self.recorder.acks[-1][1] < last:
                if self.ending.wait(0.002):
                    return
            self.outage()
            last = self.recorder.acks[-1][1]

    def outage(self):
        target = self.rng.choice(("gone", "all", "file", "file", "file", "file"))
        seconds = math.exp(self.rng.uniform(*map(math.log, self.seconds)))
        names = []
        if target == "file":
            names = sorted(entry.name for entry in os.scandir(self.directory) if entry.is_file() and entry.stat().st_size > SECTOR)
        name = self.rng.choice(names) if names else None
        if name is None:
            self.recorder.fail("gone" if target == "gone" else "all", lambda _start, _end: True, self.rng)
            self.ending.wait(seconds)
        else:
            ranges, end = set(), time.monotonic() + seconds
            self.recorder.fail(name, lambda start, end: any(start < b and a < end for a, b in tuple(ranges)), self.rng)
            while True:
                # btrfs writes what is new to other places.
                try:
                    path = f"{self.directory}/{name}"
                    ranges |= set(data_chunks(self.recorder.path) if self.kind == "btrfs" else mapped(path))
                except OSError:  # it is gone, for now
                    pass
                if time.monotonic() > end or self.ending.wait(0.01):
                    break
        self.recorder.work()

    def stop(self):
        """Once the writer has ended, or will not go on."""
        self.ending.set()
        self.join()


class Recorder(threading.Thread):
    """Serves one file through /dev/fuse, and notes what happens to it, and when the writer acknowledged what.

    `events` are ("w", offset, data), ("z", offset, length) for zeros, and ("f", covered, 0): a flush after which the first
    `covered` events are on the disk. A flush covers only what had been answered before the flush came: requests are taken together
    as far as there are any, and answered after that. The acknowledgements are read before the requests, so they are never held for
    earlier than they are, and hardly later.

    What fails is no event, unless the device has done it nevertheless.
    """

    def __init__(self, image, mountpoint):
        super().__init__(daemon=True)
        self.path, self.image = image, os.open(image, os.O_RDWR)
        self.size = os.fstat(self.image).st_size
        self.mountpoint = mountpoint
        self.events, self.acks, self.issued, self.bytes, self.kills = [], [], 0, 0, 0
        self.failing, self.outages, self.chance = None, [], None
        self.refusals, self.repairs, self.gave_up = 0, 0, None
        self.error, self.stopping, self.boot = None, False, None
        self.lines, self.pipe, self.pipe_lock = b"", None, threading.Lock()
        self.fuse = os.open("/dev/fuse", os.O_RDWR)
        os.set_blocking(self.fuse, False)
        mount("power", mountpoint, "fuse", f"fd={self.fuse},rootmode=100600,user_id=0,group_id=0")
        self.start()

    def stop(self):
        self.stopping = True
        umount(self.mountpoint)
        self.join()
        os.close(self.image)
        if self.error:
            raise RuntimeError("the recorder failed") from self.error

    # The writer.

    def listen(self, pipe):
        os.set_blocking(pipe, False)
        with self.pipe_lock:
            self.lines, self.pipe = b"", pipe

    def deaf(self):
        """Reads what the writer, which has ended, has left."""
        with self.pipe_lock:
            self.read_pipe()
            self.pipe = None

    def read_pipe(self):
        while self.pipe is not None:
            try:
                data = os.read(self.pipe, 65536)
            except BlockingIOError:
                return
            if not data:
                self.pipe = None
                return
            *whole, self.lines = (self.lines + data).split(b"\n")
            for line in whole:
                word, _, number = line.partition(b" ")
                if word == b"synced":
                    self.acks.append((len(self.events), int(number)))
                    self.issued = max(self.issued, int(number))
                elif word == b"issued":
                    self.issued = max(self.issued, int(number))
                else:
                    print("writer:", line.decode(errors="replace"), file=sys.stderr)

    # The device.

    def fail(self, what, where, rng):
        """From now on the device fails there, and says so."""
        self.chance = random.Random(rng.random())
        self.outages.append([what, len(self.events), None, 0])
        self.failing = where

    def work(self):
        """Now it works again."""
        if self.failing:
            self.failing = None
            self.outages[-1][2] = len(self.events)

    def fails(self, offset, length):
        failing = self.failing
        if failing is None or not failing(offset, offset + length):
            return False
        self.outages[-1][3] += 1
        return True

    def run(self):
        try:
            self.serve()
        except Exception as error:  # pylint: disable=broad-except
            self.error = error
        finally:
            os.close(self.fuse)  # a process that waits for an answer gets an error

    def serve(self):
        buffer = bytearray(MEGABYTE + 8192)
        view = memoryview(buffer)
        poll = select.poll()
        poll.register(self.fuse, select.POLLIN)
        listening = None
        while True:
            with self.pipe_lock:
                if self.pipe != listening:
                    if listening is not None:
                        poll.unregister(listening)
                    if self.pipe is not None:
                        poll.register(self.pipe, select.POLLIN)
                    listening = self.pipe
            poll.poll(20)
            with self.pipe_lock:
                self.read_pipe()
            answered, answers = len(self.events), []
            for _ in range(64):
                try:
                    length = os.readv(self.fuse, [buffer])
                except BlockingIOError:
                    break
                except OSError as error:
                    if self.stopping and error.errno in (errno.ENODEV, errno.ECONNABORTED):  # not mounted any more
                        return
                    if error.errno in (errno.ENOENT, errno.EINTR):
                        continue
                    raise
                answer = self.request(view[:length], answered)
                if answer is not None:
                    answers.append(answer)
            for error, unique, body in answers:
                try:
                    os.writev(self.fuse, [struct.pack("=IiQ", 16 + len(body), -error, unique), body])
                except OSError as failed:
                    if failed.errno != errno.ENOENT:  # the request was interrupted
                        raise
            if self.bytes > LOG_LIMIT:
                raise RuntimeError(f"the writer wrote more than {LOG_LIMIT >> 20} MiB to the device")

    def attributes(self):
        mode, links = stat.S_IFREG | 0o600, 1
        return struct.pack("=6Q10I", 1, self.size, self.size // SECTOR, 0, 0, 0, 0, 0, 0, mode, links, 0, 0, 0, BLOCK, 0)

    def request(self, view, answered):
        _, opcode, unique, _ = struct.unpack_from("=IIQQ", view)
        body = view[40:]
        if opcode == 15:  # READ
            _, offset, size = struct.unpack_from("=QQI", body)
            if self.failing and self.outages[-1][0] == "gone":
                return errno.EIO, unique, b""
            return 0, unique, os.pread(self.image, size, offset)
        if opcode == 16:  # WRITE
            _, offset, size = struct.unpack_from("=QQI", body)
            fails = self.fails(offset, size)
            if fails and self.chance.random() < 0.8:
                return errno.EIO, unique, b""
            data = bytes(body[40 : 40 + size])
            write_all(self.image, data, offset)
            self.events.append(("w", offset, data))
            self.bytes += size
            return (errno.EIO, unique, b"") if fails else (0, unique, struct.pack("=II", size, 0))
        if opcode == 20:  # FSYNC
            if self.fails(-1, 0):
                return errno.EIO, unique, b""
            self.events.append(("f", answered, 0))
            return 0, unique, b""
        if opcode == 43:  # FALLOCATE
            _, offset, length, mode = struct.unpack_from("=QQQI", body)
            if mode & ~0x13:  # other than keeping the size, punching holes, zeroing
                return errno.EOPNOTSUPP, unique, b""
            if self.fails(offset, length):
                return errno.EIO, unique, b""
            if mode & 0x12:
                punch(self.image, offset, length)
                self.events.append(("z", offset, length))
            return 0, unique, b""
        if opcode in (3, 4):  # GETATTR, SETATTR
            return 0, unique, struct.pack("=QII", 3600, 0, 0) + self.attributes()
        if opcode == 14:  # OPEN, past the page cache
            return 0, unique, struct.pack("=QIi", 0, 1, 0)
        if opcode == 26:  # INIT
            async_read, big_writes, async_dio, max_pages = 1 << 0, 1 << 5, 1 << 15, 1 << 22
            _, minor, ahead, offered = struct.unpack_from("=IIII", body)
            flags = offered & (async_read | big_writes | async_dio | max_pages)
            out = struct.pack("=IIIIHHIIHH", 7, min(minor, 31), ahead, flags, 64, 48, MEGABYTE, 1, MEGABYTE // BLOCK, 0)
            return 0, unique, out.ljust(64, b"\0")
        if opcode in (18, 25):  # RELEASE, FLUSH (of a descriptor)
            return 0, unique, b""
        if opcode in (2, 36, 42):  # FORGET, INTERRUPT, BATCH_FORGET
            return None
        return errno.ENOSYS, unique, b""


class Recording:
    """What a recorder saw, and the device before it."""

    def __init__(self, kind, base, recorder):
        self.kind, self.base = kind, base
        self.events, self.acks, self.issued, self.kills = recorder.events, recorder.acks, recorder.issued, recorder.kills
        self.boot = recorder.boot
        self.outages = [tuple(outage) for outage in recorder.outages if outage[3]]
        self.index()

    def index(self):
        self.applied = None
        self.flushes = [i for i, event in enumerate(self.events) if event[0] == "f"]
        self.ack_places = [place for place, _ in self.acks]
        self.durable, best = [], 0
        for i in self.flushes:
            best = max(best, self.events[i][1])
            self.durable.append(best)
        with open(self.base, "rb") as read:
            self.uuid = read.read(SECTOR)[XFS_UUID:][:16]

    def acknowledged(self, cut):
        known = bisect.bisect_right(self.ack_places, cut)
        return max((number for _, number in self.acks[:known]), default=0)

    def covered(self, cut):
        """So many events are on the disk for sure when only the first `cut` have happened."""
        known = bisect.bisect_left(self.flushes, cut)
        return self.durable[known - 1] if known else 0

    def on_disk(self, covered, path):
        """A file with what is on the disk for sure, made further from the last one if that was earlier."""
        if self.applied is None or self.applied > covered:
            copy_sparse(self.base, path)
            self.applied = 0
        with open(path, "r+b", buffering=0) as out:
            for event in self.events[self.applied : covered]:
                apply(out.fileno(), event)
        self.applied = covered
        return path

    def may_refuse(self, cut):
        """Whether the device had failed before."""
        return any(begin <= cut for _, begin, _, _ in self.outages)

    def choose(self, rng):
        """Where to cut: anywhere, right at an acknowledgement, or right before a flush. Mostly after the device has failed, if it did."""
        if self.outages and rng.random() < 0.8:
            return rng.randint(self.outages[0][1], len(self.events))
        draw = rng.random()
        if draw < 0.3 and self.ack_places:
            return rng.choice(self.ack_places)
        if draw < 0.7 and self.flushes:
            return rng.choice(self.flushes)
        return rng.randint(0, len(self.events))

    def keeps_whole(self, place, block):
        """Whether the file system counts on a device that does not tear this block, which is one of its own.

        xfs writes blocks of its own in place. After a cut, it writes again what its log has, but not to blocks whose first sector says that
        they are of a later time than this. If only the first sector is new, the block stays torn, its checksum is wrong, and the file
        system cannot be mounted. These blocks say the number of the file system and, in sectors, their own place, which no content of a
        file does. (In other blocks of xfs, such as those of inodes, each sector has a time and a checksum of its own.)
        """
        if self.kind in WHOLE:
            start, end = WHOLE[self.kind]
            return start <= place < end
        return any(block[at : at + 16] == self.uuid and block[at - 16 : at - 8] == (place // SECTOR).to_bytes(8, "big")
                   for at in XFS_BLOCK_UUIDS)

    def blocks_kept_whole(self):
        for kind, offset, what in self.events:
            if kind == "w":
                for start, end in pieces(offset, offset + len(what), BLOCK):
                    yield self.keeps_whole(start, what[start - offset : end - offset])

    def save(self, path):
        with open(self.base, "rb") as base:
            size = os.fstat(base.fileno()).st_size
            data = [(start, os.pread(base.fileno(), length, start)) for start, length in extents(base.fileno())]
        with gzip.open(path, "wb", compresslevel=1) as out:
            pickle.dump((self.kind, size, data, self.events, self.acks, self.issued, self.outages, self.boot), out)

    @classmethod
    def load(cls, path, base):
        self = cls.__new__(cls)
        with gzip.open(path, "rb") as read:
            self.kind, size, data, self.events, self.acks, self.issued, self.outages, self.boot = pickle.load(read)
        with open(base, "wb") as out:
            out.truncate(size)
            for start, part in data:
                write_all(out.fileno(), part, start)
        self.base = base
        self.index()
        return self


def apply(descriptor, event):
    kind, offset, what = event
    if kind == "w":
        write_all(descriptor, what, offset)
    elif kind == "z":
        punch(descriptor, offset, what)


MODES = ("none", "all", "prefix", "writes", "blocks", "sectors")


@dataclasses.dataclass
class Cut:
    """What was done: how many writes were unflushed, how many blocks were torn, and how many of the file system were not; what was lost
    (or None), and a recording of the repair."""

    did: str
    unflushed: int
    torn: int
    kept_whole: int
    lost: typing.Optional[str] = None
    unmountable: bool = False
    refused: typing.Optional[str] = None
    taken_out: bool = False
    repair: typing.Optional[Recording] = None


def cut_image(recording, cut, rng, target, tear):
    """Makes the device as a cut after the first `cut` events may leave it."""
    covered = recording.covered(cut)
    copy_sparse(recording.on_disk(covered, f"{recording.base}.covered"), target)
    pending = [event for event in recording.events[covered:cut] if event[0] != "f"]
    mode = rng.choice(MODES if tear < BLOCK else MODES[:-1])
    part = rng.choice((0.1, 0.5, 0.9))
    torn = kept_whole = 0
    with open(target, "r+b", buffering=0) as out:
        out = out.fileno()
        some = {"none": 0, "prefix": rng.randint(0, len(pending))}.get(mode, len(pending))
        for event in pending[:some]:
            kind, offset, what = event
            if mode in ("all", "prefix"):
                apply(out, event)
            elif mode == "writes" or kind == "z":
                if rng.random() < part:
                    apply(out, event)
            else:
                for start, end in pieces(offset, offset + len(what), BLOCK):
                    block = what[start - offset : end - offset]
                    whole = mode == "blocks" or recording.keeps_whole(start, block)
                    kept_whole += whole and mode == "sectors"
                    parts = list(pieces(start, end, BLOCK if whole else tear))
                    written = [place for place in parts if rng.random() < part]
                    for begin, stop in written:
                        write_all(out, what[begin - offset : stop - offset], begin)
                    torn += 0 < len(written) < len(parts)
    did = f"event {cut} of {len(recording.events)}, {len(pending)} unflushed writes, {mode} {part}, {torn} blocks torn, {kept_whole} kept whole"
    return Cut(did, len(pending), torn, kept_whole)


class Said(typing.NamedTuple):
    """What a verifier says."""

    what: str
    refused: bool


class Harness:
    def __init__(self, options, work):
        self.options, self.work, self.boots, self.kept = options, work, 0, set()
        for name in ("device", "cut"):
            os.mkdir(f"{work}/{name}")
        open(f"{work}/disk", "wb").close()

    def probe(self):
        """Fails if this machine does not let us serve a loop device."""
        image, disk = f"{self.work}/probe.img", f"{self.work}/disk"
        with open(image, "wb") as out:
            out.truncate(MEGABYTE)
        recorder = Recorder(image, disk)
        try:
            os.close(loop_device(disk, self.options.direct)[1])
        finally:
            recorder.stop()

    def boot(self, number):
        """What a running system has that a restart does not leave: shared memory, and the number of the boot."""
        self.boots += 1
        boot = f"{self.work}/boot-{self.boots}"
        os.makedirs(f"{boot}/shm")
        os.chmod(f"{boot}/shm", 0o1777)
        with open(f"{boot}/id", "w", encoding="ascii") as out:
            out.write(f"{number}\n")
        return boot

    def in_boot(self, boot, command, directory, *numbers):
        script = 'mount --bind "$0/shm" /dev/shm && mount --bind "$0/id" /proc/sys/kernel/random/boot_id && exec "$@"'
        enter = ["unshare", "--mount", "sh", "-c", script, boot]
        return enter + shlex.split(command) + [directory] + [str(number) for number in numbers]

    def make(self, kind):
        base = f"{self.work}/{kind}.img"
        with open(base, "wb") as out:
            out.truncate(self.options.size << 20)
        subprocess.run(MKFS[kind] + [base], check=True, stdout=subprocess.DEVNULL)
        mount_file(base, f"{self.work}/cut", kind)
        os.mkdir(f"{self.work}/cut/data")
        umount(f"{self.work}/cut")
        subprocess.run(["fallocate", "--dig-holes", base], check=True)
        return base

    def record(self, kind, base, use):
        """Records what happens while the file system is mounted, used, and unmounted again."""
        image, disk, directory = f"{self.work}/device.img", f"{self.work}/disk", f"{self.work}/device"
        copy_sparse(base, image)
        recorder = Recorder(image, disk)
        try:
            mount_file(disk, directory, kind, self.options.direct)
            try:
                result = use(recorder, f"{directory}/data")
            finally:
                if os.path.ismount(directory):
                    umount(directory)
        finally:
            recorder.stop()
        return Recording(kind, base, recorder), result

    def write(self, kind, recorder, directory, rng):
        """Lets the writer write, with kills, and perhaps with a device that fails. Gives what it says is lost in this boot, or None."""
        options, recorder.boot = self.options, str(uuid.uuid4())
        boot = self.boot(recorder.boot)
        fails, outages = rng.random() < options.errors, None
        disturb = subprocess.Popen([sys.executable, __file__, "disturb", directory, str(rng.random()), *(["sync"] if fails else [])])
        if fails:
            outages = Outages(kind, recorder, directory, rng, options.error_seconds)
        try:
            deadline, kills, refusals = time.monotonic() + options.limit, options.kills, 0
            while True:
                said = tempfile.TemporaryFile() if outages else None
                writer = subprocess.Popen(self.in_boot(boot, options.writer, directory), stdout=subprocess.PIPE,
                                          stdin=subprocess.DEVNULL, stderr=said, start_new_session=True)
                recorder.listen(writer.stdout.fileno())
                works = recorder.failing is None
                try:
                    if kills and self.wait_for_kill(recorder, writer, rng):
                        kills -= 1
                        recorder.kills += 1
                        continue
                    writer.wait(max(1, deadline - time.monotonic()))
                except subprocess.TimeoutExpired:
                    raise RuntimeError(f"the writer did not end in {options.limit} s") from None
                finally:
                    if writer.returncode is None:
                        os.killpg(writer.pid, signal.SIGKILL)
                        writer.wait()
                    recorder.deaf()
                    writer.stdout.close()
                if writer.returncode == 0:
                    return None
                if not recorder.outages:
                    raise RuntimeError(f"the writer ended with {writer.returncode}")
                said.seek(0)
                why = said.read().decode(errors="replace").strip()
                if options.verbose:
                    print(f"writer: {writer.returncode}, {recorder.outages[-1]}: {why}", file=sys.stderr, flush=True)
                # A device that is gone cannot be read, either, and what is mapped is read by the processor. btrfs gives up after a failed
                # write, and lets nobody store to a page of a mapping that it has written before.
                ends_mappings = recorder.outages[-1][0] == "gone" or kind == "btrfs"
                if writer.returncode != REFUSED and not (writer.returncode == -signal.SIGBUS and ends_mappings):
                    return f"with a device that failed for {recorder.outages[-1][0]}, the writer ended with {writer.returncode}: {why}"
                recorder.refusals += 1
                # While the device fails, nothing else is to be had. Afterwards, the first one may have begun before.
                refusals = refusals + 1 if works else 0
                if refusals == PATIENCE:
                    recorder.gave_up = why
                    return None
                if works and recorder.failing is None and not self.can_write(directory):
                    recorder.repairs += 1
                    umount(f"{self.work}/device")
                    mount_file(f"{self.work}/disk", f"{self.work}/device", kind, options.direct)
                time.sleep(rng.uniform(0.01, 0.2))
        finally:
            if outages:
                outages.stop()
            disturb.kill()
            disturb.wait()

    @staticmethod
    def can_write(directory):
        """Whether the file system does: after errors in what it keeps for itself, it only reads."""
        path = f"{directory}/../probe"
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
            try:
                os.write(descriptor, b"probe")
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
            os.remove(path)
        except OSError:
            return False
        return True

    @staticmethod
    def wait_for_kill(recorder, writer, rng):
        """Waits for some acknowledgements, as often few as many, and a little. Says whether there is still a writer to kill."""
        some = len(recorder.acks) + int(math.exp(rng.uniform(0, math.log(1000))))
        deadline = time.monotonic() + rng.uniform(0.5, 2)
        while writer.poll() is None and len(recorder.acks) < some and time.monotonic() < deadline:
            time.sleep(0.001)
        time.sleep(rng.uniform(0, 0.003))
        return writer.poll() is None

    def verify(self, boot, directory, acknowledged, issued, way_on=""):
        """None, or what the verifier said is lost, or why it refuses to look."""
        command = self.in_boot(self.boot(boot), self.options.verifier, directory, acknowledged, issued) + shlex.split(way_on)
        try:
            done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                  timeout=self.options.limit, check=False)
        except subprocess.TimeoutExpired:
            return Said(f"the verifier did not end in {self.options.limit} s", False)
        said = done.stdout.decode(errors="replace").strip()
        return Said(f"the verifier ended with {done.returncode}: {said}", done.returncode == REFUSED) if done.returncode else None

    def look(self, cut, recording, at, boot, directory):
        """Has a cut verified, and notes what was said."""
        acknowledged, issued = recording.acknowledged(at), recording.issued
        said = self.verify(boot, directory, acknowledged, issued)
        if said and said.refused and cut.taken_out and self.options.way_on:
            cut.refused = said.what
            said = self.verify(boot, directory, acknowledged, issued, self.options.way_on)
            if said:
                said = Said(f"{cut.refused}; then {said.what}", said.refused)
        if said and said.refused and recording.may_refuse(at):
            cut.refused = said.what
        elif said:
            cut.lost = said.what

    def cut(self, recording, seed, second):
        """One cut, as the seed draws it. With `second`, the repair is recorded."""
        rng = random.Random(seed)
        at = recording.choose(rng)
        image, directory = f"{self.work}/cut.img", f"{self.work}/cut"
        cut = cut_image(recording, at, rng, image, self.options.tear)
        acknowledged, issued = recording.acknowledged(at), recording.issued
        cut.taken_out = recording.boot is not None and random.Random(f"{seed}/taken out?").random() < self.options.taken_out
        boot = recording.boot if cut.taken_out else str(uuid.uuid4())
        cut.did += f", {acknowledged} of {issued} acknowledged{', taken out' if cut.taken_out else ''}"
        if self.options.wreck:
            with open(image, "r+b", buffering=0) as out:
                punch(out.fileno(), 0, WRECKED)
        try:
            if second:
                base = f"{self.work}/second.img"
                os.rename(image, base)
                cut.repair, _ = self.record(recording.kind, base, lambda _, data: self.look(cut, recording, at, boot, data))
                cut.repair.acks, cut.repair.issued, cut.repair.boot = [(0, acknowledged)], issued, boot
                if recording.may_refuse(at):
                    cut.repair.outages = [("before", 0, 0, 1)]
                cut.repair.index()
            else:
                mount_file(image, directory, recording.kind)
                self.look(cut, recording, at, boot, f"{directory}/data")
                umount(directory)
        except Unmountable as error:
            cut.lost, cut.unmountable = str(error), True
        return cut

    def campaign(self, kind):
        options, start = self.options, time.monotonic()
        base = self.make(kind)
        report = {"fs": kind, "cuts": 0, "lost": 0, "acknowledged": 0, "seconds": 0, "second_cuts": 0, "unflushed": 0, "torn_blocks": 0,
                  "kept_whole": 0, "unmountable": 0, "events": 0, "flushes": 0, "megabytes": 0, "recordings": 0, "kills": 0, "taken_out": 0,
                  "record_seconds": 0, "outages": 0, "failed_writes": 0, "refusals": 0, "remounts": 0, "given_up": 0, "refused": 0,
                  "unmountable_after_errors": 0, "seed": options.seed}
        runs = max(1, options.cuts // options.each)
        for run in range(runs):
            if options.control and report[options.wanted]:
                break
            began = time.monotonic()
            rng = random.Random(f"{options.seed}/{kind}/{run}")
            recorders = []
            recording, lost = self.record(
                kind, base, lambda recorder, data: recorders.append(recorder) or self.write(kind, recorder, data, rng))
            report["recordings"] += 1
            report["outages"] += len(recording.outages)
            report["failed_writes"] += sum(outage[3] for outage in recording.outages)
            report["refusals"] += recorders[0].refusals
            report["remounts"] += recorders[0].repairs
            report["given_up"] += recorders[0].gave_up is not None
            if recorders[0].gave_up:
                print(f"given up: {recording.outages}: {recorders[0].gave_up}", file=sys.stderr, flush=True)
            if lost:
                report["lost"] += 1
                if not options.control:
                    print(f"LOST in the same boot, {options.seed}/{kind}/{run}: {lost}", file=sys.stderr, flush=True)
            report["kills"] += recording.kills
            report["events"] += len(recording.events)
            report["flushes"] += len(recording.flushes)
            report["megabytes"] += sum(len(event[2]) for event in recording.events if event[0] == "w") >> 20
            report["acknowledged"] += recording.acknowledged(len(recording.events))
            report["record_seconds"] += time.monotonic() - began
            if not recording.flushes or not recording.acks:
                raise RuntimeError(f"nothing to check: {len(recording.flushes)} flushes, {len(recording.acks)} acknowledgements")
            if not recording.outages and not any(recording.blocks_kept_whole()):
                raise RuntimeError(f"no write of {kind} is known for one that it needs whole")
            first, last = options.cuts * run // runs, options.cuts * (run + 1) // runs
            seeds = [f"{options.seed}/{kind}/{number}" for number in range(first, last)]
            if not options.control:  # in this order, little has to be written again
                seeds.sort(key=lambda seed: recording.choose(random.Random(seed)))
            for seed in seeds:
                if options.control and report[options.wanted]:
                    break
                second = random.Random(f"{seed}/second?").random() < options.second
                cut = self.cut(recording, seed, second)
                report["cuts"] += 1
                self.count(report, recording, f"{options.seed}-{kind}-recording-{run}", seed, cut)
                if cut.repair and not cut.lost and not cut.refused:
                    seed += "/second"
                    report["second_cuts"] += 1
                    self.count(report, cut.repair, seed.replace("/", "-"), seed, self.cut(cut.repair, seed, False))
        for name in os.listdir(self.work):
            if name.endswith((".img", ".covered")):
                os.remove(f"{self.work}/{name}")
        if options.errors == 1 and not report["outages"]:
            raise RuntimeError("nothing to check: the device has never failed")
        report["seconds"] = round(time.monotonic() - start, 1)
        report["record_seconds"] = round(report["record_seconds"], 1)
        return report

    def count(self, report, recording, name, seed, cut):
        options = self.options
        report["unflushed"] += cut.unflushed > 0
        report["torn_blocks"] += cut.torn
        report["taken_out"] += cut.taken_out
        report["kept_whole"] += cut.kept_whole
        if options.verbose:
            print(f"{seed}: {cut.did}: {cut.lost or cut.refused or 'there'}", file=sys.stderr, flush=True)
        report["refused"] += cut.refused is not None
        if not cut.lost:
            return
        if cut.unmountable and recording.outages:
            # What a file system makes of errors and a cut says nothing about the writer.
            report["unmountable_after_errors"] += 1
            print(f"left out {seed}: {cut.did}: {cut.lost}", file=sys.stderr, flush=True)
            return
        report["unmountable" if cut.unmountable else "lost"] += 1
        if options.control:
            return
        print(f"LOST {seed}: {cut.did}\n     {cut.lost}", file=sys.stderr, flush=True)
        if not options.keep:
            return
        path = f"{options.keep}/{name}.gz"
        if path not in self.kept and len(self.kept) < KEPT:
            os.makedirs(options.keep, exist_ok=True)
            recording.save(path)
            self.kept.add(path)
        if path in self.kept:
            print(f"     again: scripts/power-cuts.sh --replay {shlex.quote(path)} --cut {seed} {shlex.quote(options.verifier)}",
                  file=sys.stderr, flush=True)


# What stands in for a writer and its verifier, to check the checker.

RECORD = struct.Struct("<QI52x")
STAND_IN_RECORDS, STAND_IN_GROUP = 2000, 8


def records(path):
    """How many whole records the file begins with."""
    try:
        with open(path, "rb") as read:
            data = read.read()
    except FileNotFoundError:
        return 0
    found = 0
    for number, check in RECORD.iter_unpack(data[: len(data) // RECORD.size * RECORD.size]):
        if number != found + 1 or check != zlib.crc32(number.to_bytes(8, "little")):
            break
        found += 1
    return found


def block_number(path):
    """What each word of a block says, or 0 if they do not say the same."""
    try:
        with open(path, "rb") as read:
            words = set(struct.unpack(f"<{BLOCK // 8}Q", read.read(BLOCK)))
    except (FileNotFoundError, struct.error):
        return 0
    return words.pop() if len(words) == 1 else 0


def stand_in_block(directory):
    """Writes a block again and again, in place, and counts on a disk that does not tear it."""
    path, set_flags, no_cow = f"{directory}/block", 0x40086602, 0x00800000
    begin = block_number(path)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.ioctl(descriptor, set_flags, struct.pack("=Q", no_cow))
    except OSError:  # this is for btrfs, which else writes to another place
        pass
    for number in range(begin + 1, STAND_IN_RECORDS + 1):
        os.pwrite(descriptor, struct.pack("<Q", number) * (BLOCK // 8), 0)
        if number % STAND_IN_GROUP == 0:
            os.fsync(descriptor)
            print("synced", number, flush=True)


def stand_in_write(directory, how):
    """Appends records: `right`; `early`, which acknowledges before it syncs; `never`, which does not sync; `memory`, which writes
    to shared memory; `deaf`, which does not hear of errors; `boot`, which is early, and is only wrong in the same boot. `block` writes one block."""
    path = f"{'/dev/shm' if how == 'memory' else directory}/records"
    print("issued", STAND_IN_RECORDS, flush=True)
    if how == "block":
        return stand_in_block(directory)
    if how == "boot":
        with open(f"{directory}/boot", "w", encoding="ascii") as out:
            out.write(boot_id())
            out.flush()
            os.fsync(out.fileno())
        how = "early"
    begin = records(path)
    if how == "right" and begin:
        # After an error, what the system shows is not what the disk has, and may never be in this file.
        with open(path, "rb") as read, open(f"{path}.new", "wb") as write:
            write.write(read.read(begin * RECORD.size))
            write.flush()
            os.fsync(write.fileno())
        os.rename(f"{path}.new", path)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    os.ftruncate(descriptor, begin * RECORD.size)
    if how in ("right", "early", "deaf"):
        os.fsync(descriptor)
        parent = os.open(directory, os.O_RDONLY)
        os.fsync(parent)
        os.close(parent)
    for number in range(begin + 1, STAND_IN_RECORDS + 1):
        os.pwrite(descriptor, RECORD.pack(number, zlib.crc32(number.to_bytes(8, "little"))), (number - 1) * RECORD.size)
        if number % STAND_IN_GROUP == 0:
            if how in ("right", "memory"):
                os.fdatasync(descriptor)
            elif how == "deaf":
                try:
                    os.fdatasync(descriptor)
                except OSError:
                    pass
            print("synced", number, flush=True)
            if how == "early":
                os.fdatasync(descriptor)


def boot_id():
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as read:
        return read.read()


def stand_in_verify(directory, acknowledged, issued):
    try:
        with open(f"{directory}/boot", encoding="ascii") as read:
            if read.read() != boot_id():
                return
    except FileNotFoundError:
        pass
    found = max(block_number(f"{directory}/block"), *(records(f"{parent}/records") for parent in (directory, "/dev/shm")))
    if not acknowledged <= found <= issued:
        print(f"{found} records, not {acknowledged} to {issued}")
        sys.exit(1)


def disturb(directory, seed, syncs=False):
    """Has parts of files written to the device, without a flush, as the system does when it likes. With `syncs`, somebody else is told of
    errors now and then."""
    rng = random.Random(seed)
    while True:
        time.sleep(rng.uniform(0.005, 0.1))
        try:
            files = [entry.path for entry in os.scandir(directory) if entry.is_file()]
        except OSError:  # the file system has failed, or is mounted again just now
            files = []
        if not files:
            continue
        try:
            descriptor = os.open(rng.choice(files), os.O_RDONLY)
        except OSError:
            continue
        size = max(1, os.fstat(descriptor).st_size)
        if syncs and rng.random() < 0.1:
            libc.fsync(descriptor)
        else:
            libc.sync_file_range(descriptor, rng.randrange(size), rng.randrange(size) + 1, 2)
        os.close(descriptor)


def skip(why):
    print(f"skipped: {why}", file=sys.stderr)
    sys.exit(SKIP)


def main():
    if sys.argv[1:2] == ["write"]:
        try:
            return stand_in_write(sys.argv[3], sys.argv[2])
        except OSError as error:
            print(error, file=sys.stderr)
            return REFUSED
    if sys.argv[1:2] == ["verify"]:
        return stand_in_verify(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
    if sys.argv[1:2] == ["disturb"]:
        return disturb(sys.argv[2], sys.argv[3], sys.argv[4:] == ["sync"])

    parser = argparse.ArgumentParser()
    parser.add_argument("writer", nargs="?")
    parser.add_argument("verifier", nargs="?")
    parser.add_argument("--control", action="store_true", help="the writer is wrong: stop at a loss, which is wanted")
    parser.add_argument("--replay", help="a recording that was kept")
    parser.add_argument("--cut", help="the seed of its cut")
    environment = os.environ.get
    parser.set_defaults(
        cuts=int(environment("CUTS", "500")),
        fs=environment("FS", "ext4 xfs btrfs").split(),
        seed=environment("SEED") or str(random.SystemRandom().randrange(1 << 32)),
        kills=int(environment("KILLS", "2")),
        each=int(environment("EACH", "100")),
        errors=float(environment("ERRORS", "0")),
        error_seconds=[float(part) for part in environment("ERROR_SECONDS", "0.3 3").split()],
        second=float(environment("SECOND", "0.2")),
        tear=int(environment("TEAR", "512")),
        size=int(environment("SIZE", "512")),
        limit=float(environment("LIMIT", "120")),
        direct=environment("DIRECT", "1") != "0",
        keep=environment("KEEP"),
        verbose=bool(environment("VERBOSE")),
        taken_out=float(environment("TAKEN_OUT", "0.2")),
        way_on=environment("WAY_ON", ""),
        wreck=bool(environment("WRECK")),
    )
    options = parser.parse_args()
    # What a control is to find.
    options.wanted = "unmountable" if options.wreck else "lost"
    if options.replay:
        options.writer, options.verifier = None, options.writer
    elif not options.writer or not options.verifier:
        parser.error("a writer and a verifier are needed")

    with open("/proc/filesystems", encoding="ascii") as read:
        known = {line.split()[-1] for line in read}
    # A real disk is not needed: all is in memory.
    with tempfile.TemporaryDirectory(prefix="power-cuts-") as work:
        clone_newns, private = 0x20000, 0x4C000  # with MS_REC
        if libc.unshare(clone_newns) or libc.mount(b"none", b"/", None, private | 0x4000, None):
            skip("a mount namespace needs root")
        try:
            mount("tmpfs", work, "tmpfs", "size=75%")
        except OSError as error:
            skip(error)
        try:
            code = run(options, known, work)
        finally:
            libc.umount2(work.encode(), 2)
    return code


def run(options, known, work):
    harness = Harness(options, work)
    try:
        harness.probe()
    except OSError as error:
        skip(f"a loop device over /dev/fuse cannot be had: {error}")
    if options.replay:
        recording = Recording.load(options.replay, f"{work}/base.img")
        cut = harness.cut(recording, options.cut, False)
        print(f"{options.cut}: {cut.did}: {cut.lost or cut.refused or 'there'}")
        return 1 if cut.lost else 0
    reports, failed = 0, False
    for kind in options.fs:
        tool = MKFS[kind][0]
        if kind not in known:
            print(f"skipped: the kernel has no {kind}", file=sys.stderr)
            continue
        if subprocess.run(["sh", "-c", f"command -v {tool}"], stdout=subprocess.DEVNULL, check=False).returncode:
            print(f"skipped: there is no {tool}", file=sys.stderr)
            continue
        report = harness.campaign(kind)
        print(json.dumps(report), flush=True)
        reports += 1
        if options.control:
            failed |= report[options.wanted] == 0
        else:
            failed |= report["lost"] + report["unmountable"] > 0
    if not reports:
        skip("none of the file systems can be had")
    if failed:
        print("FAILED: a wrong writer was not noticed" if options.control else f"FAILED: SEED={options.seed}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
