#!/usr/bin/env python3
"""The long forms of the checks, and the page that says what they found: docs/proof.md.

    scripts/proof.py HOURS [ROW...]   runs the rows that are old, for so many hours, and writes the page
    scripts/proof.py --old            tells which rows are of older code, and by how much
    scripts/proof.py --page           writes the page from docs/proof/results.jsonl
    scripts/proof.py --check          fails if the page is not what the results say
    scripts/proof.py --list           the rows with their commands, and the seconds that they are expected to take

A row is one check of one subject. It has a short form, a long one, or both; the same command with another size. Two hours are enough for
all short forms. A run first gives each row that has no current result its short form, then its long one. It begins nothing that does not
fit into what is left of its time, and a run that was stopped goes on where it was: what was completed is kept row by row. Two runs of
different rows may go on side by side.

A result is current while what it depends on is as it was: `src/`, the manifest, and the files of the check itself, by the hashes that
git has of them. Results are of commits: with changes that are not committed, nothing is run.
"""

import dataclasses, datetime, fcntl, hashlib, json, os, pathlib, re, subprocess, sys, time

ROOT = pathlib.Path(__file__).resolve().parent.parent
RESULTS = "docs/proof/results.jsonl"
PAGE = "docs/proof.md"
# What each row has printed.
LOGS = ROOT / os.environ.get("CARGO_TARGET_DIR", "target") / "proof"
BEGIN, END = "<!-- results of ", "<!-- end of results -->"
NONE = "No run of this is on record.\n"
# What every row depends on.
CODE = ["src", "Cargo.toml", "Cargo.lock", "build.rs"]
# What those depend on that run the command line.
COMMAND = ("cli/src", "cli/Cargo.toml")
# The exit status of a check that cannot be had on this machine.
NOT_HERE = 77


@dataclasses.dataclass(frozen=True)
class Form:
    """A size of a check: its command, and about how many seconds it takes, the build included."""

    command: str
    seconds: int


@dataclasses.dataclass(frozen=True)
class Row:
    """What is checked. `table` is where its results stand in the page; `files` are those of the check itself."""

    table: str
    name: str
    short: Form | None
    long: Form | None
    files: tuple[str, ...] = ()

    @property
    def id(self):
        return f"{self.table}/{self.name}"

    def forms(self):
        """The forms that there are, the shortest first."""
        return [(name, form) for name, form in (("short", self.short), ("long", self.long)) if form]


def crash_rows():
    # Seconds of the short form (what CI runs) and of the long one.
    layouts = {"one_line": (60, 300), "linear": (60, 300), "circular": (60, 300), "crab": (60, 300), "cow_only": (60, 300),
               "append": (60, 300), "versioned": (60, 300), "fingerprint": (60, 300),
               "two_one_line": (30, 240), "two_bytes": (30, 240), "bytes": (120, 120)}
    others = """crab_opt crab_printed sip_only append_fixed append_aggressive append_printed append_over_logged logged logged_whole
        fingerprint_printed versioned_over_versioned circ_printed scanned_linear scanned_circular sentinel_linear sentinel_circular
        fingerprinted_linear fingerprinted_circular sentinel_leaves_circular fingerprinted_leaves_circular""".split()
    layouts.update({layout: (None, 120) for layout in others})
    for layout, (short, long) in layouts.items():
        command = f"env JSON=1 scripts/check crash {layout}"
        yield Row("crash", layout, short and Form(command, short), Form(command.replace("JSON=1", "JSON=1 EVERYTHING=1"), long),
                  COMMAND)
    compacting = "cargo test --test layouts compacting::"
    yield Row("crash", "compact and shrink", Form(f"env BRISTLECONE_LONG=1 {compacting}", 300),
              Form(f"env BRISTLECONE_LONG=1 BRISTLECONE_ROUNDS=200 {compacting}", 900), ("tests/layouts/compacting.rs",))
    yield Row("crash", "steps left out", Form("scripts/check audit", 400), None, ("tests/audit", "docs/persist-audit.md"))


def lin_rows():
    groups = {"words": "one_line,linear,circular", "bytes": "bytes", "transactions": "two_one_line,two_bytes",
              "papers": "crab,cow_only,append,versioned,fingerprint,logged,circ_printed,sentinel_circular,fingerprinted_circular"}
    for group, layouts in groups.items():
        for kind in ("histories", "crashes"):
            def form(seconds):
                command = f"env JSON=1 LIN_FEATURES=papers LIN_LAYOUTS={layouts} LIN_SECONDS={seconds} scripts/check lin {kind}"
                return Form(command, seconds + 10)
            yield Row("lin", f"{group}, {kind}", form(60), form(600), COMMAND)
    yield Row("lin", "planted bugs", Form("env JSON=1 LIN_FEATURES=papers scripts/check lin controls", 240), None, COMMAND)


def kill_rows():
    for mode, options in {"all modes in turn": "", "journal each": " --journal each", "journal on request": " --journal request",
                          "journal every 10 ms": " --journal 10ms"}.items():
        def form(rounds):
            build = "cargo build --release --package bristlecone-cli --features papers"
            return Form(f"{build} && ${{CARGO_TARGET_DIR:-target}}/release/bristlecone kill --rounds {rounds} --json{options}", 20 + rounds // 8)
        yield Row("kill", mode, form(100), form(1000), COMMAND)
    yield Row("kill", "planted bugs", Form("env KILL_ROUNDS=20 scripts/check kill", 120), None, COMMAND)


def power_rows():
    for system in ("ext4", "xfs", "btrfs"):
        files = (*COMMAND, "scripts/power-cuts.sh", "scripts/power_cuts.py")
        def form(part, cuts, seconds):
            return Form(f"env FS={system} {cuts} scripts/check power {part}", seconds)
        yield Row("power", system, form("cuts", "CUTS=40", 60), form("cuts", "CUTS=500", 600), files)
        yield Row("power", f"{system}, errors before", form("errors", "ERROR_CUTS=40", 60), form("errors", "ERROR_CUTS=300", 600), files)
        yield Row("power", f"{system}, planted bugs", Form(f"env FS={system} scripts/check power controls", 60), None, files)


def fuzz_rows():
    for target in ("ops", "crash", "open", "load"):
        def form(seconds):
            return Form(f"scripts/fuzz.sh one {target} {seconds}", seconds + 60)
        files = ("fuzz/src", "fuzz/Cargo.toml", "fuzz/seeds", "scripts/fuzz.sh")
        yield Row("fuzz", target, form(120), form(3600), (*COMMAND, *files) if target == "load" else files)


def rows():
    test = ("tests/watched.rs",)
    simple = [
        ("threads", "models", Form("scripts/check loom", 400), None, ()),
        ("faults", "system calls", Form("scripts/check faults", 120), Form("env FAULTS=all scripts/check faults", 700),
         (*COMMAND, "cli/tests/cli/faults.rs")),
        ("disks", "file systems that fill up", Form("scripts/check full-disk", 120), None,
         (*COMMAND, "scripts/full-disk.sh")),
        ("places", "rings, logs and bits", Form("scripts/check places", 240),
         Form('env BITS=1000 FS="ext4 xfs btrfs" scripts/check places', 2400),
         (*COMMAND, "scripts/places.sh", "scripts/places.py", "scripts/power_cuts.py")),
        ("damage", "bytes and words", Form("scripts/check damage", 60), Form("env DAMAGE=all scripts/check damage", 240),
         ("tests/trees/damage.rs",)),
        ("sanitizers", "AddressSanitizer", Form("scripts/check asan", 300), Form("env EVERYTHING=1 scripts/check asan", 1800), test),
        ("sanitizers", "ThreadSanitizer", Form("scripts/check tsan", 400), Form("env EVERYTHING=1 scripts/check tsan", 3600), test),
        ("sanitizers", "Miri", Form("scripts/check miri", 500), Form("env EVERYTHING=1 scripts/check miri", 1800), test),
    ]
    return [*crash_rows(), *lin_rows(), *kill_rows(), *power_rows(), *fuzz_rows(), *(Row(*row) for row in simple)]


def git(*arguments):
    return subprocess.run(["git", *arguments], cwd=ROOT, check=True, capture_output=True, text=True).stdout.strip()


def tree_of(row, commit="HEAD"):
    """What a result depends on, as one number."""
    # The file with all checks is left out: a change of one verb would make the rows of all others old.
    hashes = [git("rev-parse", f"{commit}:{path}") for path in (*CODE, *row.files)]
    return hashlib.sha256("\n".join(hashes).encode()).hexdigest()[:16]


def read_results():
    path = ROOT / RESULTS
    lines = path.read_text().splitlines() if path.exists() else []
    return {(result["row"], result["form"]): result for result in map(json.loads, lines)}


def keep(result):
    """Adds a result to those that there are. Another run may do so at the same time."""
    with open(LOGS / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        results = read_results()
        results[result["row"], result["form"]] = result
        write_results(results)


def write_results(results):
    order = {(row.id, form): i for i, (row, form) in enumerate((row, form) for row in rows() for form in ("short", "long"))}
    lines = [json.dumps(results[key]) for key in sorted(results, key=order.get) if key in order]
    path = ROOT / RESULTS
    path.parent.mkdir(exist_ok=True)
    path.with_suffix(".new").write_text("".join(line + "\n" for line in lines))
    path.with_suffix(".new").rename(path)


def is_current(result, tree):
    return result is not None and result["tree"] == tree and result["status"] == 0


def due(results, trees, rows):
    """The forms of rows that are still to be run: all short ones, then the long ones. A long form that is current stands for the short one."""
    have = lambda row, form: is_current(results.get((row.id, form)), trees[row.id])
    for which in ("short", "long"):
        for row in rows:
            for name, form in row.forms():
                if name == which and not have(row, name) and not (name == "short" and have(row, "long")):
                    yield row, name, form


def figures(text):
    """What the output of a check says: sums of the figures of its JSON objects, or how many tests have passed."""
    found = [json.loads(line) for line in text.splitlines() if line.startswith("{")]
    if not found:
        counts = [tuple(map(int, pair)) for pair in re.findall(r"^test result: \w+\. (\d+) passed; (\d+) failed", text, re.M)]
        return {"passed": sum(passed for passed, _ in counts), "failed": sum(failed for _, failed in counts)}
    described = {}
    for key in found[0]:
        values = [one.get(key) for one in found]
        if key in ("seed", "slots", "threads", "seconds"):
            continue
        if all(isinstance(value, (int, float)) and not isinstance(value, bool) for value in values):
            described[key] = round(sum(values), 2)
        elif all(isinstance(value, str) and value == values[0] for value in values):
            described[key] = values[0]
    return {"runs": len(found), **described} if len(found) > 1 else described


def run(row, name, form, log):
    """Runs a form of a row, and returns its result, or None where it cannot be had."""
    start, lines = time.monotonic(), []
    commit, tree = git("rev-parse", "--short=10", "HEAD"), tree_of(row)
    with open(log, "w") as kept:
        process = subprocess.Popen(["bash", "-c", form.command], cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   stderr=subprocess.STDOUT, text=True, errors="replace")
        for line in process.stdout:
            kept.write(line)
            lines.append(line)
        status = process.wait()
    if status == NOT_HERE:
        return None
    return {"row": row.id, "form": name, "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
            "commit": commit, "tree": tree, "command": form.command,
            "seconds": round(time.monotonic() - start), "status": status, "result": figures("".join(lines))}


def prove(hours, wanted):
    if git("status", "--porcelain", "--untracked-files=no", "--", ".", ":!docs/proof", f":!{PAGE}"):
        sys.exit("there are changes that are not committed: a result is that of a commit")
    chosen = [row for row in rows() if not wanted or row.id in wanted or row.table in wanted]
    if not chosen:
        sys.exit("no such row: scripts/proof.py --list")
    end = time.monotonic() + hours * 3600
    trees = {row.id: tree_of(row) for row in chosen}
    results, wrong, skipped, no_time = read_results(), [], [], []
    LOGS.mkdir(parents=True, exist_ok=True)
    todo = list(due(results, trees, chosen))
    for i, (row, name, form) in enumerate(todo):
        before = results.get((row.id, name))
        expected = before["seconds"] if before and before["command"] == form.command else form.seconds
        left = end - time.monotonic()
        if expected > left:
            no_time.append(f"{row.id} ({name}, {expected} s)")
            continue
        print(f"[{i + 1}/{len(todo)}, {left / 60:.0f} min left] {row.id}, {name}: {form.command}", flush=True)
        log = LOGS / f"{row.id.replace('/', '-').replace(' ', '_')}-{name}.log"
        result = run(row, name, form, log)
        if result is None:
            skipped.append(row.id)
            print(f"    skipped: it cannot be had here ({log})", flush=True)
            continue
        keep(result)
        said = ", ".join(f"{key} {value}" for key, value in result["result"].items())
        print(f"    {'passed' if result['status'] == 0 else 'FAILED'} in {result['seconds']} s: {said}", flush=True)
        if result["status"]:
            wrong.append(f"{row.id}: {log}")
    write_page()
    for what, names in (("no time was left for", no_time), ("cannot be had here", skipped), ("FAILED", wrong)):
        if names:
            print(f"{what}: {'; '.join(names)}")
    sys.exit(1 if wrong else 0)


def number(value):
    return f"{value:,}" if isinstance(value, (int, float)) else str(value)


def table(name, results):
    """The rows of a table: of each the result of the long form, and that of the short one if it is of other code."""
    lines = []
    for row in rows():
        if row.table != name:
            continue
        long, short = results.get((row.id, "long")), results.get((row.id, "short"))
        if short and long and short["tree"] == long["tree"]:
            short = None
        for result in filter(None, (short, long)):
            said = ", ".join(f"{key.replace('_', ' ')} {number(value)}" for key, value in result["result"].items())
            failed = "" if result["status"] == 0 else "**failed**: "
            lines.append(f"| {row.name} | {result['form']} | {result['date']} | `{result['commit']}` | {number(result['seconds'])} "
                         f"| {failed}{said} |\n")
    return "| what | form | date | commit | seconds | result |\n|---|---|---|---|---|---|\n" + "".join(lines) if lines else NONE


def written(page, results):
    """The page with every table as the results give it."""
    first, *parts = page.split(BEGIN)
    for part in parts:
        name, rest = part.split(" -->", 1)
        first += f"{BEGIN}{name} -->\n{table(name, results)}{END}{rest.split(END, 1)[1]}"
    return first


def write_page():
    path = ROOT / PAGE
    path.write_text(written(path.read_text(), read_results()))


def check_page():
    page = (ROOT / PAGE).read_text()
    if missing := {row.table for row in rows()} - set(re.findall(re.escape(BEGIN) + r"(\w+) -->", page)):
        sys.exit(f"{PAGE} has no table for {', '.join(sorted(missing))}")
    if page != written(page, read_results()):
        sys.exit(f"{PAGE} is not what the results say: scripts/proof.py --page writes it")
    # The negative controls: a figure that was typed is found, and so is a result of other code.
    sample = {"row": "kill/all modes in turn", "form": "long", "date": "d", "commit": "c", "tree": "t", "command": "k", "seconds": 7, "status": 0,
              "result": figures('{"kills":1234567,"lost":0,"seed":3}\nnoise\n{"kills":1,"lost":0,"seed":4}\n')}
    results = {(sample["row"], "long"): sample}
    right = written(f"a\n{BEGIN}kill -->\nold\n{END}\nb\n", results)
    assert "| all modes in turn | long | d | `c` | 7 | runs 2, kills 1,234,568, lost 0 |" in right, right
    assert written(right, results) == right != right.replace("lost 0", "lost 1") and right == written(right.replace("lost 0", "lost 1"), results)
    assert NONE in written(right, {})
    row = next(row for row in rows() if row.id == sample["row"])
    names = lambda trees, results: [name for _, name, _ in due(results, trees, [row])]
    assert names({row.id: "t"}, results) == [] and names({row.id: "other"}, results) == ["short", "long"]
    assert names({row.id: "t"}, {(row.id, "long"): {**sample, "status": 1}}) == ["short", "long"]
    assert figures("test result: ok. 3 passed; 0 failed; 1 ignored\ntest result: ok. 4 passed; 0 failed\n") == {"passed": 7, "failed": 0}


def tell_old():
    results, old = read_results(), 0
    for row in rows():
        tree = tree_of(row)
        for name, _ in row.forms():
            result = results.get((row.id, name))
            if result is None:
                print(f"{row.id}, {name}: never run")
            elif result["status"]:
                print(f"{row.id}, {name}: FAILED at {result['commit']}")
            elif result["tree"] != tree:
                try:
                    since = [f"{result['commit']}..HEAD", "--", *CODE, *row.files]
                    changes = f"{git('rev-list', '--count', *since)} commits: {git('diff', '--shortstat', *since) or 'no lines'}"
                except subprocess.CalledProcessError:
                    changes = "of a commit that is not here"
                print(f"{row.id}, {name}: of {result['commit']}, {result['date']}, older by {changes}")
            else:
                continue
            old += 1
    print(f"{old} of {sum(len(row.forms()) for row in rows())} are not of this code")


def main(arguments):
    match arguments:
        case ["--old"]:
            tell_old()
        case ["--page"]:
            write_page()
        case ["--check"]:
            check_page()
        case ["--list"]:
            for row in rows():
                for name, form in row.forms():
                    print(f"{row.id}, {name}: {form.command} ({form.seconds} s)")
        case [hours, *wanted] if re.fullmatch(r"\d+(\.\d+)?", hours):
            prove(float(hours), wanted)
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    main(sys.argv[1:])
