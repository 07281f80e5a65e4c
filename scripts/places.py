#!/usr/bin/env python3
"""The files of a pool with a journal in other places, other times and other states; `scripts/places.sh` says how to call it.

Each case makes pools on a file system of its own, in a mount namespace with a `/dev/shm` and a boot number of its own, kills the process that
has them open, or lets it close them, and does something to their files. Then it looks at what the program says: *lost* is exit status 0
with fewer entries than were acknowledged. A wrong refusal, or one that does not say what to do, is a failure of another kind.
"""

import dataclasses, fnmatch, glob, json, os, pathlib, random, select, shutil, signal, struct, subprocess, sys, tempfile, time, traceback, types

import power_cuts

BOOT = "/proc/sys/kernel/random/boot_id"
SHM = "/dev/shm"
SKIP = 77
REGION = 8192
MARKER = 1024
CELL = 80
PAGE = 4096
MKFS = {"ext4": ["mkfs.ext4", "-q", "-F"], "xfs": ["mkfs.xfs", "-q", "-f"], "btrfs": ["mkfs.btrfs", "-q", "-f"]}
FOREIGN = b"a file of somebody else\n" * 1000


class Wrong(Exception):
    """The program does not do what it should."""


class Lost(Wrong):
    """It says nothing, and something is missing."""


class LeftOut(Exception):
    """The case cannot be had."""


def tool(*command, check=True):
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if check and done.returncode:
        raise LeftOut(f"{' '.join(command)}: {done.stderr.strip()}")
    return done.stdout.strip()


def value(key):
    return f"the value of {key}"


def entries(keys):
    return {str(key): value(key) for key in keys}


# The files.


@dataclasses.dataclass
class Frame:
    """A frame of a log, and where its body is."""

    place: int
    position: int
    positions: int
    epoch: int
    body: int
    end: int


class Log:
    """The frames of a log from the beginning of its region on. Logs of these cases never come around to it again."""

    def __init__(self, path):
        self.data = read(path)
        self.is_new = self.data[:8] == b"BRISLOG2"
        self.frames, place = [], REGION
        head = 56 if self.is_new else 40
        while place + head <= len(self.data):
            _, position, size, epoch = struct.unpack_from("<4Q", self.data, place)
            positions, body = size & 0xFFFFFFFF, size >> 32
            if not positions or place + head + body > len(self.data):
                break
            self.frames.append(Frame(place, position, positions, epoch, place + head, place + head + body))
            place += head + body
        self.end = place

    def newest(self):
        """The frames of the last epoch that no checkpoint has made free."""
        position = struct.unpack_from("<Q", self.data, self.newer_twin() + 64)[0]
        last = self.frames[-1].epoch if self.frames else 0
        return [frame for frame in self.frames if frame.epoch == last and frame.position >= position]

    def next(self):
        """The position behind the last frame."""
        return self.frames[-1].position + self.frames[-1].positions if self.frames else 0

    def newer_twin(self):
        """Where the header is that counts."""
        return max((0, 4096), key=lambda at: struct.unpack_from("<Q", self.data, at + 8)[0])


class Ring:
    """The cells of a ring by their positions."""

    def __init__(self, path):
        data = read(path)
        # The number of cells is a power of two, and the head is no whole cell.
        self.head = 2048 if data[:8] == b"BRISRNG2" else len(data) % CELL or CELL
        self.cells = {}
        for at in range(self.head, len(data) - CELL + 1, CELL):
            tag = struct.unpack_from("<Q", data, at)[0] & 0xFFFFFFFF
            if tag:
                self.cells[tag - 1] = at


def flip(path, bit):
    with open(path, "r+b") as file:
        file.seek(bit // 8)
        byte = file.read(1)[0]
        file.seek(bit // 8)
        file.write(bytes([byte ^ 1 << bit % 8]))


def read(path):
    return pathlib.Path(path).read_bytes()


def write(path, data):
    pathlib.Path(path).write_bytes(data)


def replaced(path, data):
    """A file in its place with this content: another inode."""
    write(f"{path}.new", data)
    os.rename(f"{path}.new", path)


def removed(pattern):
    """Removes the files of these names. A ring that grows meanwhile is made under another name, which goes by itself."""
    for name in glob.glob(pattern):
        pathlib.Path(name).unlink(missing_ok=True)


# The pools.


class Writer:
    """A process that has a pool open, and acknowledges each line before it reads the next."""

    def __init__(self, pool, *options):
        self.pool, self.said, self.rest = pool, tempfile.TemporaryFile(), b""
        command = [pool.world.program, "load", pool.path, "-", "--ack", *options]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.said, bufsize=0)
        pool.world.running.append(self.process)

    def feed(self, keys, must=True):
        """Adds these, and waits for all acknowledgements. Without `must`, fewer may come."""
        waiting = set(map(str, keys))
        try:
            for key in keys:
                self.process.stdin.write(f"{key}\t{value(key)}\n".encode())
        except BrokenPipeError:
            pass
        deadline = time.monotonic() + 30
        while waiting and time.monotonic() < deadline:
            if not select.select([self.process.stdout], [], [], 1)[0]:
                continue
            data = os.read(self.process.stdout.fileno(), 65536)
            if not data:
                break
            *whole, self.rest = (self.rest + data).split(b"\n")
            for key in map(bytes.decode, whole):
                waiting.discard(key)
                self.pool.acknowledged[key] = value(key)
        if waiting and must:
            raise Wrong(f"load does not acknowledge {len(waiting)} of {len(keys)} lines: {self.kill()}")

    def message(self):
        self.said.seek(0)
        return self.said.read().decode(errors="replace").strip()

    def kill(self):
        self.process.kill()
        self.process.wait()
        return self.message()

    def close(self):
        """Lets it close the pool in order. Gives its exit status."""
        self.process.stdin.close()
        try:
            return self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.kill()
            raise Wrong("load does not end in 30 s") from None


@dataclasses.dataclass
class Done:
    command: str
    status: int
    out: str
    err: str

    def __str__(self):
        return f"{self.command}: exit status {self.status}, '{(self.err or self.out).strip()}'"


class Pool:
    """The files of a pool, and what was acknowledged."""

    def __init__(self, world, path):
        self.world, self.path, self.acknowledged = world, str(path), {}

    @property
    def log(self):
        return f"{self.path}.log"

    @property
    def ring(self):
        """The ring, wherever it is."""
        beside = f"{self.path}.ring"
        if os.path.exists(beside):
            return beside
        found = glob.glob(f"{SHM}/bristlecone-*.ring")
        if len(found) != 1:
            raise Wrong(f"there is no {os.path.basename(beside)}, and {SHM} has {len(found)} rings")
        return found[0]

    def files(self):
        return [path for path in (self.path, self.log, f"{self.path}.ring") if os.path.exists(path)]

    def run(self, verb, *arguments):
        """Runs a verb on the pool."""
        return self.world.run(verb, self.path, *arguments)

    def succeeds(self, verb, *arguments, what=""):
        return self.world.succeeds(verb, self.path, *arguments, what=what)

    def first(self, keys=range(1, 1001), options=("--journal", "request")):
        """Makes it, with these entries, and closes it in order."""
        writer = Writer(self, *options)
        writer.feed(keys)
        if writer.close():
            raise Wrong(f"load: {writer.message()}")
        return self

    def killed(self, keys=range(2001, 3001), options=("--journal", "request")):
        """Adds these, and kills the process with `kill -9`: with `request` they are in the ring only."""
        writer = Writer(self, *options)
        writer.feed(keys)
        writer.kill()
        return self

    def copied(self, path, *, ring=True, sparse="never"):
        """A copy of its files under another name."""
        for name in self.files():
            if ring or not name.endswith(".ring"):
                tool("cp", f"--sparse={sparse}", "--reflink=never", name, f"{path}{name[len(self.path):]}")
        return self.known_as(path)

    def moved(self, path, *, ring=True):
        for name in self.files():
            if ring or not name.endswith(".ring"):
                tool("mv", name, f"{path}{name[len(self.path):]}")
        return self.known_as(path)

    def known_as(self, path):
        pool = Pool(self.world, path)
        pool.acknowledged = dict(self.acknowledged)
        return pool

    # What is expected.

    def content(self, *options):
        """What a reader sees, or None with what it said."""
        done = self.run("scan", *options)
        self.world.ended(done)
        if done.status:
            return None, done
        return dict(line.split("\t", 1) for line in done.out.splitlines()), done

    def missing(self, found):
        return sum(found.get(key) != wanted for key, wanted in self.acknowledged.items())

    def see(self, *options, what=""):
        """That a reader sees everything."""
        found, done = self.content(*options)
        if found is None:
            raise Wrong(f"{what}refused: {done}")
        self.nothing_missing(found, what)
        return done

    def nothing_missing(self, found, what=""):
        if missing := self.missing(found):
            raise Lost(f"{what}exit status 0, and {missing:,} of {len(self.acknowledged):,} acknowledged entries are missing")

    def whole(self, *options, what=""):
        """That everything is there for a reader, for a writer, and stays there."""
        self.see(*options, what=what)
        self.put(*options, what=what)
        self.see(what=f"{what}after put: ")
        self.succeeds("check", what=what)

    def put(self, *options, what=""):
        done = self.run("put", "5", value("5, again"), *options)
        self.world.ended(done)
        if done.status:
            found, _ = self.content(*options)
            raise Wrong(f"{what}{'everything is there, but ' if found is not None and not self.missing(found) else ''}{done}")
        self.acknowledged["5"] = value("5, again")
        return done

    def refused(self, *names, verbs=("get", "stat", "put"), what=""):
        """That each verb fails and names these things, and does not change the files."""
        before = self.bytes()
        for verb in verbs:
            done = self.run(verb, *{"get": ["1"], "put": ["5", "x"]}.get(verb, []))
            self.world.ended(done)
            if done.status == 0:
                found, _ = self.content()
                missing = self.missing(found) if found is not None else 0
                kind = Lost if missing else Wrong
                raise kind(f"{what}{verb} exits with 0, and {missing:,} of {len(self.acknowledged):,} acknowledged entries are missing")
            if unnamed := [name for name in names if name not in done.err]:
                raise Wrong(f"{what}refused, but does not name {' and '.join(unnamed)}: {done}")
        if changed := [os.path.basename(name) for name, data in before.items() if self.bytes().get(name) != data]:
            raise Wrong(f"{what}refused, but {' and '.join(changed)} is not what it was")

    def bytes(self):
        return {name: read(name) for name in self.files()}

    def without_ring(self, least, most, *words, what=""):
        """That `--without-ring` shows what was synced, and says that a ring was given up, and that the pool goes on then."""
        for verb, *arguments in (("get", "1"), ("put", "9", value(9))):
            done = self.succeeds(verb, *arguments, "--without-ring", what=what)
            if unsaid := [word for word in ("ring", *words) if word not in done.err]:
                raise Wrong(f"{what}says nothing of {' and '.join(unsaid)}: {done}")
        found, done = self.content()
        if found is None:
            raise Wrong(f"{what}after a put --without-ring: {done}")
        if not least <= len(found) <= most:
            kind = Lost if len(found) < least else Wrong
            raise kind(f"{what}--without-ring shows {len(found):,} entries, not {least:,} to {most:,}")

    def moment(self, least, fed, what=""):
        """That it has the first of what was fed, at least so many, and stays so; or names a way on that leads there. Says whether it was
        refused."""
        (found, done), way = self.content(), ()
        if found is None:
            self.refused("--uncertain-ring", what=what)
            way = ("--uncertain-ring", "prefix")
            found, done = self.content(*way)
        if found is None:
            raise Wrong(f"{what}refused: {done}")
        if len(found) < least:
            raise Lost(f"{what}{len(found):,} entries, and {least:,} were synced")
        if found != entries(list(fed)[: len(found)]):
            raise Lost(f"{what}{len(found):,} of {len(fed):,} entries, which are not the first ones")
        self.acknowledged = found
        self.whole(*way, what=what)
        return bool(way)

    def never_silent(self, what=""):
        """That a reader, and a writer, see everything, or fail. Says which."""
        found, _ = self.content()
        if found is not None:
            self.nothing_missing(found, what)
        done = self.run("put", "5", value("5, again"))
        self.world.ended(done)
        if done.status == 0:
            self.acknowledged["5"] = value("5, again")
            after, done = self.content()
            if after is None:
                raise Wrong(f"{what}after a put: {done}")
            self.nothing_missing(after, f"{what}after a put: ")
        return found is not None


class World:
    """A file system with directories `a` and `b`, another one `other`, a `/dev/shm` and a boot."""

    def __init__(self, program, scratch, kind):
        self.program, self.scratch, self.kind, self.running, self.boots = program, scratch, kind, [], 0
        self.other, self.mounted, self.device, self.hidden, self.recorder = f"{scratch}/other", f"{scratch}/disk", None, False, None
        for place in (self.other, self.mounted):
            os.makedirs(place, exist_ok=True)

    def __enter__(self):
        self.image = f"{self.scratch}/image"
        if self.kind == "tmpfs":
            tool("mount", "-t", "tmpfs", "none", self.mounted)
        else:
            tool("rm", "-f", self.image)
            tool("truncate", "-s", "512M", self.image)
            tool(*MKFS[self.kind], self.image)
            self.mount()
        tool("mount", "-t", "tmpfs", "none", self.other)
        tool("mount", "-t", "tmpfs", "-o", "mode=1777", "none", SHM)
        self.reboot()
        for name in ("a", "b"):
            os.mkdir(f"{self.mounted}/{name}")
        return self

    def __exit__(self, *_):
        for process in self.running:
            process.kill()
            process.wait()
            for pipe in (process.stdin, process.stdout):
                pipe.close()
        if self.hidden:
            self.show_boot()
        for place in (BOOT, SHM, self.other, self.mounted):
            while subprocess.run(["mountpoint", "-q", place], check=False).returncode == 0 and self.is_ours(place):
                tool("umount", "-l", place, check=False)
        if self.device:
            tool("losetup", "-d", self.device, check=False)
        if self.recorder:
            self.recorder.stop()

    @staticmethod
    def is_ours(place):
        """The `/dev/shm` of the machine stays."""
        points = [line.split()[4] for line in pathlib.Path("/proc/self/mountinfo").read_text().splitlines()]
        return place != SHM or points.count(SHM) > 1

    def mount(self):
        """Mounts the image on a device that it was not on before."""
        device = tool("losetup", "-f", "--show", self.image)
        if self.device:
            tool("losetup", "-d", self.device)
        self.device = device
        tool("mount", device, self.mounted)

    def remount(self):
        if self.kind == "tmpfs":
            raise LeftOut("tmpfs has no device")
        tool("umount", self.mounted)
        self.mount()

    def serve(self):
        """From now on, the file system is on a device that can be taken out."""
        if self.kind == "tmpfs":
            raise LeftOut("tmpfs has no device")
        tool("umount", self.mounted)
        served = f"{self.scratch}/served"
        pathlib.Path(served).touch()
        try:
            self.recorder = power_cuts.Recorder(self.image, served)
        except OSError as error:
            raise LeftOut(f"a device of our own cannot be had: {error}") from error
        self.image = served
        self.mount()

    def take_out(self):
        """From now on, every read and write of the device fails."""
        self.recorder.fail("gone", lambda _start, _end: True, self.random)
        self.recorder.chance = types.SimpleNamespace(random=lambda: 0)  # not even a part is written

    def put_back(self):
        """In the same boot. What was in memory only is gone with the mount."""
        tool("umount", self.mounted)
        self.recorder.work()
        self.mount()

    def new_shm(self):
        tool("umount", SHM)
        tool("mount", "-t", "tmpfs", "-o", "mode=1777", "none", SHM)

    def new_boot(self):
        """Another boot number, and nothing else."""
        if self.boots:
            tool("umount", BOOT)
        self.boots += 1
        path = f"{self.scratch}/boot"
        replaced(path, read("/proc/sys/kernel/random/uuid"))
        tool("mount", "--bind", path, BOOT)

    def reboot(self):
        """As if on another machine: another boot number, and an empty `/dev/shm`."""
        self.new_boot()
        self.new_shm()

    def hide_boot(self):
        """As for a service with `ProcSubset=pid`."""
        tool("mount", "-t", "proc", "-o", "subset=pid", "proc", "/proc")
        self.hidden = True
        if os.path.exists(BOOT):
            raise LeftOut("the boot number cannot be hidden")

    def show_boot(self):
        tool("umount", "-l", "/proc")
        self.hidden = False

    def pool(self, name="p.pool", directory="a"):
        return Pool(self, f"{self.mounted}/{directory}/{name}")

    def run(self, *arguments, program=None):
        command = [program or self.program, *arguments]
        said = " ".join([os.path.basename(arguments[1]) if i == 1 else part for i, part in enumerate(arguments)][:8])
        try:
            done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=60, check=False)
        except subprocess.TimeoutExpired:
            raise Wrong(f"{said}: no end after 60 s") from None
        done = Done(said, done.returncode, done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace"))
        if os.environ.get("VERBOSE"):
            print(f"    {done}", file=sys.stderr, flush=True)
        return done

    def succeeds(self, *arguments, what=""):
        done = self.run(*arguments)
        self.ended(done)
        if done.status:
            raise Wrong(f"{what}refused: {done}")
        return done

    @staticmethod
    def ended(done):
        """That it was neither a signal nor a panic."""
        if done.status < 0 or done.status > 100:
            raise Wrong(f"ends by a signal or a panic: {done}")
        if done.status == 2:
            raise Wrong(f"is not known: {done}")


# The cases.

CASES = {}


def case(name):
    def add(function):
        CASES[name] = function
        return function
    return add


# The ring that belongs.


def found_again(name, change):
    @case(name)
    def _(world):
        pool = world.pool().first().killed()
        after = change(world, pool)
        (after if isinstance(after, Pool) else pool).whole()


found_again("container: another /dev/shm", lambda world, _: world.new_shm())
found_again("remount: another device number", lambda world, _: world.remount())
found_again("nspawn: another boot number", lambda world, _: world.new_boot())
found_again("other boot: remounted", lambda world, _: (world.remount(), world.reboot()))
found_again("mv: to another file system", lambda world, pool: pool.moved(f"{world.other}/p.pool"))
found_again("mv: under another name", lambda world, pool: pool.moved(f"{world.mounted}/b/q.pool"))
found_again("journal remove: of a pool that was killed", lambda world, pool: world.succeeds("journal", "remove", pool.path))


@case("cp: original and copy")
def _(world):
    pool = world.pool().first().killed()
    copy = pool.copied(f"{world.other}/p.pool")
    copy.whole(what="the copy: ")
    pool.whole(what="the original: ")


@case("removeipc: /dev/shm is emptied, then a kill")
def _(world):
    pool = world.pool().first()
    writer = Writer(pool, "--journal", "request")
    writer.feed(range(2001, 3001))
    removed(f"{SHM}/*")
    writer.feed(range(3001, 4001))
    writer.kill()
    pool.whole()


@case("other boot: as on another machine")
def _(world):
    pool = world.pool().first().killed()
    copy = pool.copied(f"{world.other}/p.pool")
    world.reboot()
    copy.whole(what="a copy: ")
    pool.whole(what="in its place: ")


@case("twice: killed again after each")
def _(world):
    pool = world.pool().first().killed()
    world.new_shm()
    pool.killed(range(3001, 3501))
    world.remount() if world.kind != "tmpfs" else None
    pool.killed(range(4001, 4501))
    world.reboot()
    pool.killed(range(5001, 5501)).moved(f"{world.other}/p.pool").whole()


@case("killed at any moment")
def _(world):
    pool = world.pool().first()
    for round_ in range(8):
        writer = Writer(pool, "--journal", ("request", "10ms", "each", "1ms")[round_ % 4])
        keys = range(10_000 * (round_ + 1), 10_000 * (round_ + 1) + 1000)
        writer.process.stdin.write("".join(f"{key}\t{value(key)}\n" for key in keys).encode())
        writer.feed([keys[-1] + 1] if round_ % 2 else [], must=False)
        time.sleep(0.003 * round_)
        writer.kill()
        for key in map(bytes.decode, writer.rest.split(b"\n")[:-1] + writer.process.stdout.read().split(b"\n")[:-1]):
            if key in map(str, keys):
                pool.acknowledged[key] = value(key)
        pool.see(what=f"round {round_}: ")
    pool.whole()


@case("backup of a pool that was killed")
def _(world):
    pool = world.pool().first().killed()
    pool.succeeds("backup", f"{world.other}/copy.pool")
    pool.known_as(f"{world.other}/copy.pool").see()


@case("sparse: a ring that was copied with holes")
def _(world):
    pool = world.pool().first().killed()
    pool.copied(f"{world.other}/p.pool", sparse="always").whole(what="copied: ")
    name = pool.ring
    tool("cp", "--sparse=always", name, f"{name}.sparse")
    os.rename(f"{name}.sparse", name)
    pool.see(what="brought back: ")
    tool("fallocate", "--dig-holes", name)
    pool.whole(what="holes dug in place: ")


# No boot number.


@case("noproc: a new pool")
def _(world):
    world.hide_boot()
    pool = world.pool()
    writer = Writer(pool, "--journal", "request")
    writer.feed(range(1, 1001), must=False)
    if writer.close():
        if left := pool.files():
            raise Wrong(f"creation is refused, and leaves {' '.join(map(os.path.basename, left))}: {writer.message()}")
        raise Wrong(f"creation is refused: {writer.message()}")
    pool.whole(what="closed in order: ")


@case("noproc: killed, opened with a boot number and without")
def _(world):
    world.hide_boot()
    pool = world.pool().first().killed()
    pool.whole(what="without, then without: ")
    pool.killed(range(3001, 3501))
    world.show_boot()
    pool.whole(what="without, then with: ")
    pool.killed(range(4001, 4501))
    world.hide_boot()
    pool.whole(what="with, then without: ")


@case("noproc: journal add and remove")
def _(world):
    pool = world.pool().first(options=("--journal", "none"))
    world.hide_boot()
    done = world.run("journal", "add", pool.path)
    if done.status:
        pool.see(what="journal add is refused, then: ")
        raise Wrong(f"{done}")
    pool.whole(what="after journal add: ")
    world.succeeds("journal", "remove", pool.path)
    pool.whole(what="after journal remove: ")


# No ring, and the header says that it is beside.


def only_synced(world):
    """A pool of which 1,000 entries were synced, and 1,000 went to the ring. A ring that fills, or grows, syncs what it holds: so up to all of
    them may be in the log."""
    return world.pool().first().killed()


def in_the_ring(world, name="p.pool"):
    """As `only_synced`, with at least 100 cells in the ring that are not in the log."""
    for attempt in range(10):
        pool = world.pool(f"{attempt}.{name}").first().killed()
        if len(cells_behind_the_log(pool)) >= 100:
            return pool
    raise Wrong("each ring has synced what it held")


@case("lost: moved without the ring")
def _(world):
    pool = only_synced(world).moved(f"{world.other}/p.pool", ring=False)
    pool.refused("p.pool.ring", "--without-ring", verbs=("get", "scan", "stat", "check", "put"))
    pool.without_ring(1000, 2000)


@case("lost: each verb takes --without-ring")
def _(world):
    pool = only_synced(world)
    os.remove(pool.ring)
    lines = f"{world.other}/lines"
    pathlib.Path(lines).write_text(f"9\t{value(9)}\n")
    verbs = [("get", "1"), ("scan",), ("dump",), ("stat",), ("check",), ("backup", f"{world.other}/copy.pool"), ("del", "9999"),
             ("put", "9", "x"), ("load", lines), ("compact",), ("journal", "remove")]
    for number, (verb, *arguments) in enumerate(verbs):
        copy = pool.copied(f"{world.other}/{number}.pool")
        command = (verb, *arguments, copy.path) if verb == "journal" else (verb, copy.path, *arguments)
        refused, done = world.run(*command), world.run(*command, "--without-ring")
        if refused.status == 0:
            raise Lost(f"{refused}")
        if verb == "backup" and os.path.exists(arguments[0]):
            os.remove(arguments[0])
        if done.status != (1 if verb == "del" else 0):
            raise Wrong(f"{done}")
        if "ring" not in done.err:
            raise Wrong(f"says nothing of the ring: {done}")


def lost(name, change):
    @case(name)
    def _(world):
        pool = only_synced(world)
        pool = change(world, pool) or pool
        pool.refused("p.pool.ring", "--without-ring")
        pool.without_ring(1000, 2000)


def moved_and_rebooted(world, pool):
    world.reboot()
    return pool.moved(f"{world.other}/p.pool", ring=False)


lost("lost: moved without the ring, another boot", moved_and_rebooted)
lost("lost: removed", lambda _, pool: os.remove(pool.ring))


@case("lost: brought back")
def _(world):
    pool = only_synced(world)
    name = pool.ring
    shutil.move(name, f"{world.mounted}/b/kept")
    pool.refused("--without-ring")
    shutil.move(f"{world.mounted}/b/kept", name)
    pool.whole()


@case("lost: everything was synced")
def _(world):
    pool = world.pool().first().killed(options=("--journal", "each"))
    os.remove(pool.ring)
    pool.refused("p.pool.ring", "--without-ring")
    pool.without_ring(2000, 2001)


@case("unlinked while open: then a sync")
def _(world):
    pool = world.pool().first()
    writer = Writer(pool, "--journal", "request")
    writer.feed(range(2001, 3001))
    os.remove(pool.ring)
    writer.feed(range(3001, 3501), must=False)
    status = writer.close()
    if status == 0:
        return pool.whole()
    # It noticed. What the log has is there, or an error.
    if "ring" not in writer.message():
        raise Wrong(f"the sync fails, and says nothing of the ring: {writer.message()}")
    pool.never_silent()


@case("unlinked while open: synced every 10 ms")
def _(world):
    pool = world.pool().first()
    writer = Writer(pool, "--journal", "10ms")
    writer.feed(range(2001, 2501))
    os.remove(pool.ring)
    for start in range(3000, 6000, 100):
        writer.feed(range(start, start + 100), must=False)
        time.sleep(0.005)
    status = writer.close()
    if status == 0:
        return pool.whole()
    pool.never_silent(what="after an error: ")


@case("unlinked while open: then a kill")
def _(world):
    pool = world.pool().first()
    writer = Writer(pool, "--journal", "request")
    writer.feed(range(2001, 3001))
    os.remove(pool.ring)
    writer.feed(range(3001, 3501), must=False)
    writer.kill()
    pool.never_silent()


@case("lost: the log of a pool that is not settled")
def _(world):
    pool = only_synced(world)
    os.remove(pool.log)
    pool.refused("the log")


# Rings and logs of other pools and times.


def another(name, find):
    """A ring in the place of the one that belongs, which gives the pool and the content of the ring."""
    @case(name)
    def _(world):
        pool, ring = find(world, only_synced(world))
        replaced(pool.ring, ring)
        pool.refused("p.pool.ring")


def of_an_older_copy(world, pool):
    copy = pool.copied(f"{world.other}/p.pool")
    return pool.killed(range(3001, 3501)), read(copy.ring)


def of_the_original(world, pool):
    copy = pool.copied(f"{world.other}/p.pool").killed(range(3001, 3501))
    # Both are of the same epoch, as they count.
    return copy, read(pool.killed(range(4001, 4501)).ring)


def of_two_epochs_ago(_, pool):
    old = read(pool.ring)
    return pool.killed(range(3001, 3501)).killed(range(4001, 4501)), old


def of_before_the_close(_, pool):
    old = read(pool.ring)
    return pool.first(range(3001, 3501)).killed(range(4001, 4501)), old


another("another: the ring of another pool", lambda world, pool: (pool, read(world.pool("q.pool", "b").first().killed().ring)))
another("another: the ring of an older copy", of_an_older_copy)
another("another: the ring of the original, at a copy that went on", of_the_original)
another("another: a ring of two epochs ago", of_two_epochs_ago)
another("another: the ring of before the last close", of_before_the_close)


@case("another: the log of an epoch ago")
def _(world):
    pool = only_synced(world)
    old = read(pool.log)
    pool.killed(range(3001, 3501), options=("--journal", "each"))
    replaced(pool.log, old)
    pool.refused("p.pool")


@case("another: pool and log of an epoch ago")
def _(world):
    pool = only_synced(world)
    copy = pool.copied(f"{world.other}/p.pool")
    pool.killed(range(3001, 3501), options=("--journal", "each"))
    for name in ("", ".log"):
        replaced(pool.path + name, read(copy.path + name))
    # Which of them is not of its time is not to be known.
    pool.refused("p.pool")


def killed_later(pool, path):
    """Adds lines that are synced one by one, and kills the process. Returns what the file held after half of them."""
    writer = Writer(pool, "--journal", "each")
    writer.feed(range(2001, 2501))
    writer.process.send_signal(signal.SIGSTOP)
    held = read(path)
    writer.process.send_signal(signal.SIGCONT)
    writer.feed(range(2501, 3001))
    writer.kill()
    return held


@case("another: an older log of the same epoch, which the ring knows to be longer")
def _(world):
    pool = world.pool().first()
    # More than the ring has cells would be enough without this: here all of them are in the ring.
    old = killed_later(pool, pool.log)
    replaced(pool.log, old)
    pool.never_silent()


@case("another: a file that is no ring")
def _(world):
    for what, data in (("bytes", FOREIGN), ("nothing", b""), ("zeros", bytes(1 << 20))):
        pool = world.pool(f"{what}.pool").first().killed()
        replaced(pool.ring, data)
        pool.refused(f"{what}.pool.ring", what=f"{what}: ")


@case("another: a ring that was cut")
def _(world):
    for part in (0.01, 0.5, 0.999):
        pool = world.pool(f"{part}.pool").first().killed()
        os.truncate(pool.ring, int(os.path.getsize(pool.ring) * part))
        pool.never_silent(what=f"at {part}: ")


@case("another: a directory, or a link to nowhere, where the ring was")
def _(world):
    for what, make in (("directory", os.mkdir), ("link", lambda path: os.symlink("/nowhere/ring", path))):
        pool = world.pool(f"{what}.pool").first().killed()
        name = pool.ring
        os.remove(name)
        make(f"{pool.path}.ring")
        pool_ring = f"{pool.path}.ring"
        for verb, *arguments in (("get", "1"), ("put", "5", "x")):
            done = pool.run(verb, *arguments)
            world.ended(done)
            if done.status == 0:
                raise Lost(f"{what}: {verb} exits with 0")
        if not os.path.lexists(pool_ring):
            raise Wrong(f"{what}: is gone")


@case("another: a ring that belongs to a stranger")
def _(world):
    pool = only_synced(world)
    name = pool.ring
    os.chown(name, 12345, 12345)
    before = read(name)
    pool.never_silent()
    done = pool.run("get", "2001")
    if done.status == 0:
        raise Wrong("a ring is taken that a stranger may have written")
    if read(name) != before:
        raise Wrong("the stranger's file was written to")


@case("uncertain: cells are missing, as when a disk was taken out, in the same boot")
def _(world):
    pool = in_the_ring(world).copied(f"{world.other}/p.pool")
    cells = cells_behind_the_log(pool)
    with open(pool.ring, "r+b") as file:
        file.seek(cells[len(cells) // 2][0])
        file.write(bytes(CELL))
    found, done = pool.content()
    if found is not None:
        pool.nothing_missing(found)
    pool.refused("p.pool.ring")
    # After a restart of the machine this is legal, and is said.
    world.reboot()
    done = pool.run("put", "9", value(9))
    world.ended(done)
    if done.status == 0 and "ring" not in done.err:
        raise Lost(f"another boot: cells are left out, and it says nothing: {done}")
    if done.status == 0:
        found, done = pool.content()
        if not 1000 <= len(found or {}) < 2001:
            raise Lost(f"another boot: {len(found or {})} entries")


# A disk that is taken out, and comes back in the same boot.


@case("taken out: while a process writes")
def _(world):
    world.serve()
    for mode in ("each", "10ms", "request"):
        pool, fed = world.pool(f"{mode}.pool").first(), [*range(1, 1001), *range(2001, 3001)]
        writer = Writer(pool, "--journal", mode)
        writer.feed(range(2001, 2501))
        time.sleep(3 if mode == "10ms" else 0.5)  # what was made before is on the disk, if the mode says so
        world.take_out()
        writer.feed(range(2501, 3001), must=False)
        status, said = writer.close(), writer.message()
        if status != 1 and status != -signal.SIGBUS or status == 1 and "os error" not in said:
            raise Wrong(f"{mode}: load ends with {status}: {said}")
        for verb, *arguments in (("get", "1"), ("put", "5", "x")):
            done = pool.run(verb, *arguments)
            if done.status not in (1, -signal.SIGBUS) and (verb, done.status) != ("get", 0):
                raise Wrong(f"{mode}: while the disk is gone: {done}")
        world.put_back()
        pool.moment(1000 if mode == "request" else 1500, fed, what=f"{mode}: ")


@case("taken out: after a kill")
def _(world):
    world.serve()
    for mode in ("each", "10ms"):
        pool, fed = world.pool(f"{mode}.pool").first().killed(options=("--journal", mode)), [*range(1, 1001), *range(2001, 3001)]
        world.take_out()
        world.put_back()
        pool.moment(2000 if mode == "each" else 1000, fed, what=f"{mode}: ")


@case("taken out: after a kill, with a part of the ring written back")
def _(world):
    world.serve()
    for part, (begin, end) in {"nothing": (0, 0), "the beginning": (0, 0.5), "the end": (0.5, 1), "all": (0, 1)}.items():
        pool, fed = in_the_ring(world, f"{part}.pool"), [*range(1, 1001), *range(2001, 3001)]
        cells = cells_behind_the_log(pool)
        pages = list(dict.fromkeys(at // PAGE * PAGE for at, _ in cells))
        tool("sync", pool.ring)
        world.take_out()
        world.put_back()
        # The system writes back more than it is asked to. These pages are as if it had not: cells are empty until they are filled.
        with open(pool.ring, "r+b") as file:
            for number, page in enumerate(pages):
                if not begin <= number / len(pages) < end:
                    for at, behind in cells:
                        first, last = max(at, page), min(behind, page + PAGE)
                        if first < last:
                            file.seek(first)
                            file.write(bytes(last - first))
        uncertain = pool.moment(2000 if part == "all" else 1000, fed, what=f"{part}: ")
        if part == "the end" and not uncertain:
            raise Lost(f"{part}: the ring has entries behind a gap, which is not said")
        if part != "the end" and uncertain:
            raise Wrong(f"{part}: refused, though the ring has no gap")


@case("taken out: a page of the ring written back while a thread was about to fill a cell")
def _(world):
    world.serve()
    pool, fed = in_the_ring(world), [*range(1, 1001), *range(2001, 3001)]
    cells = cells_behind_the_log(pool)
    tool("sync", pool.ring)
    world.take_out()
    world.put_back()
    # The cell was filled later, others after it, and its page was not written back again.
    with open(pool.ring, "r+b") as file:
        file.seek(cells[len(cells) // 2][0] + 4)
        file.write(bytes(4))
    pool.moment(1000, fed)


# Settled pools.


@case("settled: the ring stays, and is not needed")
def _(world):
    pool = world.pool().first()
    if not os.path.exists(f"{pool.path}.ring"):
        raise Wrong(f"a close leaves {' '.join(os.listdir(os.path.dirname(pool.path)))}")
    for name in (".ring", ".log", ".log .ring"):
        for suffix in name.split():
            if os.path.exists(pool.path + suffix):
                os.remove(pool.path + suffix)
        pool.see(what=f"without {name}, to read: ")
        pool.whole(what=f"without {name}: ")


@case("settled: the pool file alone")
def _(world):
    pool = world.pool().first()
    tool("cp", pool.path, f"{world.other}/p.pool")
    pool.known_as(f"{world.other}/p.pool").whole()


@case("settled: moved without its ring, and killed there")
def _(world):
    pool = world.pool().first().moved(f"{world.other}/p.pool", ring=False)
    pool.killed().whole()


@case("settled: a foreign file where the ring is to be")
def _(world):
    other = world.pool("q.pool", "b").first().killed()
    data = {"bytes": FOREIGN, "ring": read(other.ring)}
    for what, foreign in data.items():
        pool = world.pool(f"{what}.pool").first()
        name = f"{pool.path}.ring"
        replaced(name, foreign)
        for when in (what, f"{what}, after a kill"):
            pool.whole(what=f"{when}: ")
            if read(name) != foreign:
                raise Wrong(f"{when}: the foreign file was overwritten")
            pool.killed()


@case("settled: zeros where the ring is to be, as a cut leaves them")
def _(world):
    for size in (0, 4096, 8 << 20):
        pool = world.pool(f"{size}.pool").first()
        replaced(f"{pool.path}.ring", bytes(size))
        pool.whole(what=f"{size} bytes: ")
        pool.killed().whole(what=f"{size} bytes, after a kill: ")


@case("settled: a ring that is older, of the same pool")
def _(world):
    pool = world.pool().first().killed()
    old = read(pool.ring)
    pool.first(range(3001, 3501))
    replaced(f"{pool.path}.ring", old)
    pool.whole()
    pool.killed(range(4001, 4501)).whole(what="after a kill: ")


@case("settled: a stranger's file where the ring is to be")
def _(world):
    pool = world.pool().first()
    name = f"{pool.path}.ring"
    if not os.path.exists(name):
        write(name, FOREIGN)
    os.chown(name, 12345, 12345)
    before = read(name)
    pool.whole()
    pool.killed().whole(what="after a kill: ")
    if read(name) != before or os.stat(name).st_uid != 12345:
        raise Wrong("the stranger's file was written to")


# The ring in memory.

MEMORY = ("--journal", "request", "--ring", "memory")


def in_memory(world):
    pool = world.pool().first(options=MEMORY).killed()
    if os.path.exists(f"{pool.path}.ring"):
        raise Wrong("the ring is beside the pool")
    return pool


@case("memory: found, in the same boot")
def _(world):
    pool = in_memory(world)
    pool.whole()


@case("memory: /dev/shm is gone, in the same boot")
def _(world):
    pool = in_memory(world)
    world.new_shm()
    pool.refused("--without-ring")
    pool.without_ring(1000, 2000)


@case("memory: removed while open, then a kill")
def _(world):
    pool = world.pool().first(options=MEMORY)
    writer = Writer(pool, "--journal", "request")
    writer.feed(range(2001, 3001))
    removed(f"{SHM}/bristlecone-*")
    writer.feed(range(3001, 4001), must=False)
    writer.kill()
    pool.never_silent()


@case("memory: another boot")
def _(world):
    pool = in_memory(world)
    world.reboot()
    done = pool.run("put", "9", value(9))
    world.ended(done)
    if done.status:
        raise Wrong(f"refused: {done}")
    if "ring" not in done.err:
        raise Wrong(f"says nothing of the ring: {done}")
    found, _ = pool.content()
    if not 1000 <= len(found or {}) < 2001:
        raise Lost(f"{len(found or {})} entries, and 1,000 were synced")


@case("memory: moved, in the same boot")
def _(world):
    pool = in_memory(world).moved(f"{world.other}/p.pool")
    if not pool.never_silent():
        pool.refused("--without-ring")


@case("memory: a closed pool, and a stranger's file under the name of its ring")
def _(world):
    pool = world.pool().first(options=MEMORY)
    writer = Writer(pool, "--journal", "request")
    writer.feed([2001])
    name = pool.ring
    if writer.close():
        raise Wrong(f"load: {writer.message()}")
    write(name, FOREIGN)
    os.chown(name, 12345, 12345)
    pool.whole()
    if read(name) != FOREIGN:
        raise Wrong("the stranger's file was written to")


# Giving a pool a journal.


@case("journal add: then the log is lost, or the pool is copied alone")
def _(world):
    pool = world.pool().first(options=("--journal", "none"))
    world.succeeds("journal", "add", pool.path)
    tool("cp", pool.path, f"{world.other}/p.pool")
    pool.known_as(f"{world.other}/p.pool").whole(what="copied alone: ")
    for name in pool.files()[1:]:
        os.remove(name)
    pool.see(what="without the log, to read: ")
    pool.whole(what="without the log: ")


@case("journal add: then journal remove without the log")
def _(world):
    pool = world.pool().first(options=("--journal", "none"))
    world.run("journal", "add", pool.path)
    for name in pool.files()[1:]:
        os.remove(name)
    world.succeeds("journal", "remove", pool.path)
    pool.whole()


# Wrong bits.


def synced(world, keys=range(2001, 2601), name="p.pool"):
    """A pool whose entries are all in the log, in many frames, killed: so few that no checkpoint applies them."""
    return world.pool(name).first().killed(keys, options=("--journal", "each"))


def in_the_middle(pool):
    """A bit of the log that was synced."""
    frames = Log(pool.log).newest()
    if len(frames) < 20:
        raise Wrong(f"the log has {len(frames)} frames of its last epoch")
    return (frames[len(frames) // 2].body + 4) * 8 + 2


def damaged(pool, what):
    """One bit wrong in the middle of what was synced: an error that names the log, and everything is back with the bit."""
    bit = in_the_middle(pool)
    flip(pool.log, bit)
    pool.refused("the log", what=f"{what}: ")
    done = pool.run("check")
    if done.status == 0:
        raise Lost(f"{what}: check exits with 0")
    return bit


@case("bit: in the middle of the log, after a kill")
def _(world):
    pool = synced(world)
    flip(pool.log, damaged(pool, "the ring is there"))
    pool.whole()


@case("bit: in the middle of the log, another boot")
def _(world):
    pool = synced(world).copied(f"{world.other}/p.pool")
    world.reboot()
    flip(pool.log, damaged(pool, "another boot"))
    pool.whole()


@case("bit: in the middle of the log, and no ring")
def _(world):
    pool = synced(world)
    bit = in_the_middle(pool)
    os.remove(pool.ring)
    flip(pool.log, bit)
    before = pool.bytes()
    for verb, *arguments in (("get", "1"), ("put", "5", "x")):
        for options in ((), ("--without-ring",)):
            done = pool.run(verb, *arguments, *options)
            if done.status == 2:  # a build without the option
                continue
            world.ended(done)
            if done.status == 0:
                raise Lost(f"{done}, with {pool.missing(pool.content(*options)[0] or {}):,} entries missing")
    if "the log" not in done.err:
        raise Wrong(f"does not name the log: {done}")
    if pool.bytes() != before:
        raise Wrong("refused, and files are not what they were")
    flip(pool.log, bit)
    pool.whole("--without-ring")


def applied(pool):
    """The position up to which the log may have been applied to the pool's file, as its marker says."""
    with open(pool.path, "rb") as file:
        file.seek(MARKER)
        marker = file.read(64)
    if marker[:8] != b"BRISMARK":
        raise Wrong("the pool has no marker")
    return struct.unpack_from("<Q", marker, 32)[0]


@case("torn: the end of the log, after a loss of power")
def _(world):
    # Of a pool that syncs each line: the frames, and the ring as the system has written it back some time before.
    for last, what in ((1, "the last frame: "), (2, "the one before: ")):
        for attempt in range(10):
            pool = world.pool(f"{last}.{attempt}.pool").first()
            ring = killed_later(pool, pool.ring)
            # A frame that a checkpoint has applied was on the disk before, whole.
            if Log(pool.log).frames[-last].position >= applied(pool):
                break
        else:
            raise Wrong(f"{what}each checkpoint has applied it")
        replaced(pool.ring, ring)
        world.reboot()
        flip(pool.log, (Log(pool.log).frames[-last].body + 4) * 8 + 2)
        if last == 2:  # the last frame says that this one was on the disk
            pool.refused("the log", what=what)
            continue
        found, done = pool.content()
        if found is None:
            raise Wrong(f"{what}this may be a torn write, and is refused: {done}")
        if pool.missing(found) > 1:
            raise Lost(f"{what}{pool.missing(found):,} of {len(pool.acknowledged):,} acknowledged entries are missing")


@case("bit: check --repair keeps a copy of the log")
def _(world):
    for ring in (True, False):
        what = "with its ring: " if ring else "without its ring: "
        pool = synced(world, name=f"{ring}.pool")
        if not ring:
            os.remove(pool.ring)
        bit = in_the_middle(pool)
        flip(pool.log, bit)
        log, there = read(pool.log), set(os.listdir(f"{world.mounted}/a"))
        done = pool.run("check", "--repair", *(() if ring else ("--without-ring",)))
        world.ended(done)
        said = done.out + done.err
        if not any(character.isdigit() for character in said):
            raise Wrong(f"{what}does not say how much is missing: {done}")
        new = set(os.listdir(f"{world.mounted}/a")) - there
        if not any(read(f"{world.mounted}/a/{name}")[: len(log)] == log for name in new):
            raise Wrong(f"{what}keeps no copy of the log, but makes {new or 'nothing'}: {done}")
        if done.status and "lacks what the pool already has" in said:
            # Killed within a checkpoint that had come as far: there is no moment to go back to, and nothing was changed.
            flip(pool.log, bit)
            if ring:
                pool.whole(what=f"{what}refused, and the bit put back: ")
            else:
                pool.without_ring(1000, 2000, what=f"{what}refused, and the bit put back: ")
            continue
        found, done = pool.content()
        if found is None:
            raise Wrong(f"{what}after the repair: {done}")
        if set(found) - set(pool.acknowledged) or not 1000 <= len(found) <= 2000:
            raise Wrong(f"{what}after the repair there are {len(found):,} entries")
        pool.acknowledged = found
        pool.whole(what=f"{what}after the repair: ")


@case("bit: each word of the newer twin of the log's header")
def _(world):
    pool = synced(world)
    twin = Log(pool.log).newer_twin()
    for word in range(32):
        bit = (twin + word * 8) * 8 + world.random.randrange(64)
        flip(pool.log, bit)
        found, _ = pool.content()
        if found is not None:
            pool.nothing_missing(found, f"word {word}: ")
        copy = pool.copied(f"{world.other}/p.pool")
        copy.never_silent(what=f"word {word}, to write: ")
        flip(pool.log, bit)
    pool.whole()


def sampled(world, pool, path, places, what):
    """One bit wrong, BITS times: an error, or everything is there. To read, in place; to write, a copy."""
    errors, count = 0, int(os.environ.get("BITS", "60"))
    for number in range(count):
        start, end = world.random.choice(places)
        bit = world.random.randrange(start * 8, end * 8)
        where = f"{what}, bit {bit % 8} of byte {bit // 8:#x}"
        flip(path, bit)
        try:
            found, _ = pool.content()
            errors += found is None
            if found is not None:
                pool.nothing_missing(found, f"{where}: ")
            if number % 2:
                copy = pool.copied(f"{world.other}/p.pool")
                copy.never_silent(f"{where}, to write: ")
        finally:
            flip(path, bit)
        world.bits += 1
    pool.see(what=f"{what}, put right: ")
    return f"{errors} of {count} are errors"


def bits(name, make, path, places):
    """Wrong bits in a part of a file, of which `places` gives the ranges."""
    @case(f"bits: {name}")
    def _(world):
        pool = make(world)
        return sampled(world, pool, path(pool), places(pool), name)


def in_another_boot(world):
    pool = synced(world).copied(f"{world.mounted}/b/p.pool")
    world.reboot()
    # What was synced last, and nothing vouches for, may be gone after a loss of power: the ring's head is here, and vouches.
    return pool


def all_of_the_log(pool):
    return [(REGION, Log(pool.log).end)]


def cells_behind_the_log(pool):
    """Where the ring has entries that are not in the log, the first ones first."""
    ring, first = Ring(pool.ring), Log(pool.log).next()
    return [(at, at + CELL) for position, at in sorted(ring.cells.items()) if position >= first]


LOG, RING = (lambda pool: pool.log), (lambda pool: pool.ring)
bits("the header of the log", synced, LOG, lambda _: [(0, 256), (4096, 4096 + 256)])
bits("the log, everything in it", synced, LOG, all_of_the_log)
bits("the log, a part still in the ring", lambda world: synced(world, range(2001, 2501)).killed(range(3001, 4001)), LOG, all_of_the_log)
bits("the head of the ring", only_synced, RING,
     lambda pool: [(0, min(512 * part + 256, Ring(pool.ring).head)) for part in range(4)])
bits("cells that are not in the log", in_the_ring, RING, cells_behind_the_log)
bits("the header of the pool file", only_synced, lambda pool: pool.path, lambda _: [(0, 2048)])
bits("the log, in another boot", in_another_boot, LOG, all_of_the_log)


# The pools of older builds.


def old(name, options=("--journal", "request"), killed=True):
    """A case that gets a pool of an old build, killed or closed."""
    def add(body):
        @case(f"old: {name}")
        def _(world):
            if not os.environ.get("OLD"):
                raise LeftOut("OLD= is not given")
            now, world.program = world.program, os.path.realpath(os.environ["OLD"])
            pool = world.pool().first()
            if killed:
                pool.killed(options=options)
            if Log(pool.log).is_new:
                raise LeftOut("OLD= makes logs of the new form")
            old_program, world.program = world.program, now
            body(world, pool, old_program)
    return add


def refused_by(program, pool):
    done = pool.world.run("get", pool.path, "1", program=program)
    if done.status == 0:
        raise Wrong(f"the old build opens it again: {done}")


@old("killed under an old build")
def _(_, pool, program):
    # A reader first, which changes nothing.
    pool.see(what="to read: ")
    pool.whole()
    if left := glob.glob(f"{SHM}/bristlecone-*"):
        raise Wrong(f"the old ring is left: {left}")
    pool.killed(range(3001, 3501))
    refused_by(program, pool)
    pool.whole(what="after another kill: ")


@old("closed under an old build", killed=False)
def _(_, pool, program):
    pool.see(what="to read: ")
    pool.killed()
    refused_by(program, pool)
    pool.whole()


@old("killed under an old build, another boot", ("--journal", "each"))
def _(world, pool, _):
    world.reboot()
    pool.whole()


@old("given back by journal remove")
def _(world, pool, program):
    pool.whole()
    world.succeeds("journal", "remove", pool.path)
    world.program = program
    pool.see(what="by the old build: ")


def planted(program, scratch, options):
    """A program that takes a way on without being asked, and without a word."""
    path = f"{scratch}/planted"
    pathlib.Path(path).write_text(f"""#!/bin/sh
case $1 in
    load | journal | check) exec {program} "$@" ;;
    *) exec {program} "$@" {options} 2>/dev/null ;;
esac
""")
    os.chmod(path, 0o755)
    return path


def campaign(program, kind, wanted, control):
    """All cases on one kind of file system. Gives a report, or None where it cannot be had."""
    report = {"fs": kind, "cases": 0, "failures": 0, "lost": 0, "left_out": 0, "bits": 0, "seconds": 0}
    start, seed = time.monotonic(), os.environ.get("SEED") or str(random.SystemRandom().randrange(1 << 32))
    for name, body in CASES.items():
        if not any(fnmatch.fnmatch(name, f"{pattern}*") for pattern in wanted or ["*"]):
            continue
        with tempfile.TemporaryDirectory(prefix="places-") as scratch:
            subprocess.run(["mount", "-t", "tmpfs", "none", scratch], check=True)
            world = World(planted(program, scratch, control) if control else program, scratch, kind)
            world.random, world.bits = random.Random(f"{seed}/{name}"), 0
            try:
                with world:
                    said = body(world) or "ok"
            except LeftOut as error:
                said = f"left out: {error}"
                report["left_out"] += 1
            except Lost as error:
                said = f"LOST: {error}"
                report["failures"] += 1
                report["lost"] += 1
            except Wrong as error:
                said = f"WRONG: {error}"
                report["failures"] += 1
            except (OSError, ValueError, struct.error) as error:
                said = f"WRONG: the case cannot go on: {traceback.format_exc(limit=-1).strip()}"
                report["failures"] += 1
            finally:
                subprocess.run(["umount", "-l", scratch], check=False)
            report["cases"] += 1
            report["bits"] += world.bits
        # One line each.
        print(f"{name}: {'; '.join(filter(None, map(str.strip, said.splitlines())))[:500]}", flush=True)
        if control is not None and report["lost"]:
            break
    if report["cases"] == report["left_out"]:
        return None
    report["seconds"] = round(time.monotonic() - start, 1)
    report["seed"] = seed
    print(json.dumps(report), flush=True)
    return report


def main(arguments):
    if arguments == ["--list"]:
        return print("\n".join(CASES))
    control = None
    if arguments[:1] == ["--control"]:
        control = ""
        del arguments[0]
        if arguments[:1] == ["--planted"]:
            control = arguments[1]
            del arguments[:2]
    if not arguments:
        sys.exit(__doc__)
    program, *wanted = arguments
    program = os.path.realpath(program)
    reports = []
    for kind in os.environ.get("FS", "ext4").split():
        if kind != "tmpfs" and not shutil.which(MKFS[kind][0]):
            print(f"left out: there is no {MKFS[kind][0]}")
        elif report := campaign(program, kind, wanted, control):
            reports.append(report)
    if not reports:
        print("skipped: none of the cases can be had here", file=sys.stderr)
        return SKIP
    lost, failures = (sum(report[what] for report in reports) for what in ("lost", "failures"))
    print(f"{sum(report['cases'] for report in reports)} cases, {failures} failures, {lost} of them lost something without a word")
    if control is not None:
        print("found: the program that is wrong" if lost else "not found: the program that is wrong")
        return 0 if lost else 1
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
