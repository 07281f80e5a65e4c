# One verb per check. The commands are in scripts/check, which CI calls too.

# What there is
default:
    @just --list

# Formatting
fmt:
    scripts/check fmt

# That comments say what they speak of, in lines of 120 columns
words:
    scripts/check words

# Lints, warnings denied
clippy:
    scripts/check clippy

# The tests of the library and the command line, or those whose names contain FILTER
test *FILTER:
    scripts/check test {{FILTER}}

# The tests within src/, or those whose names contain FILTER
units *FILTER:
    scripts/check units {{FILTER}}

# The tests of which `test` and `units` take a part, whole
long:
    scripts/check long

# The tests of the benchmarks, with the features and filters of ARGS
bench-test *ARGS:
    scripts/check bench-test {{ARGS}}

# Documentation, warnings denied
doc:
    scripts/check doc

# What a crate that depends on this one gets
user:
    scripts/check user

# The oldest Rust that is promised
msrv:
    scripts/check msrv

# That it compiles for Windows and macOS
platforms:
    scripts/check platforms

# That the interface fits the version, as the last release has it
semver:
    scripts/check semver

# The models of the locks, under every interleaving
loom:
    scripts/check loom

# Every crash state of small trees
crash:
    scripts/check crash

# That docs/persist-audit.md is what the checker finds without each persist step
audit:
    scripts/check audit

# The systems of the papers under their names, and what every layout does
systems:
    scripts/check systems

# Histories of many threads, with delays, for LIN_SECONDS (30)
lin:
    scripts/check lin

# The stores of a shift, in the assembly
assembly:
    scripts/check assembly

# The instructions from assembler files
asm-shims:
    scripts/check asm-shims

# Every damaged byte of small pools
damage:
    scripts/check damage

# The code without assembler
portable:
    scripts/check portable

# aarch64 in an emulator, as three CPUs
aarch64:
    scripts/check aarch64

# Processes killed in the middle of everything, KILL_ROUNDS (260) times
kill:
    scripts/check kill

# The power cut under real file systems, CUTS (40) times each
power:
    scripts/check power

# Disks that are full, under real file systems
full-disk:
    scripts/check full-disk

# Pools within less memory than they have bytes
memory:
    scripts/check memory

# Pools with a journal in other places, boots and states, after kills; OLD=PROGRAM for pools of an older build
places *CASES:
    scripts/check places {{CASES}}

# Each system call of a command fails in turn; FAULTS=all for every one
faults:
    scripts/check faults

# The library under AddressSanitizer
asan:
    scripts/check asan

# The library under ThreadSanitizer
tsan:
    scripts/check tsan

# What needs neither assembler nor files, in Miri
miri:
    scripts/check miri

# Each fuzz target for FUZZ_SECONDS (60)
fuzz-smoke:
    scripts/check fuzz-smoke

# All fuzz targets, on all cores, for so many HOURS
fuzz HOURS *TARGETS:
    scripts/check fuzz {{HOURS}} {{TARGETS}}

# Writes the seeds of the fuzz targets
fuzz-seeds:
    scripts/check fuzz-seeds

# Measures what docs/benchmarks.md and the README show, NAMES or all, in more than an hour, and writes their tables
bench-page *NAMES:
    scripts/check bench-page {{NAMES}}

# The papers' FIGURES, or all, in less than two hours, and what docs/papers.md shows of them
papers *FIGURES:
    scripts/papers.sh {{FIGURES}}

# The long forms of the checks, those of older code first, for so many HOURS, and docs/proof.md; or those of ROWS
proof HOURS *ROWS:
    scripts/check proof {{HOURS}} {{ROWS}}

# Which rows of docs/proof.md are of older code
proof-old:
    scripts/check proof-old

# That docs/proof.md is what its results say
proof-page:
    scripts/check proof-page

# The benchmarks
bench *ARGS:
    scripts/check bench {{ARGS}}

# All that CI runs
ci:
    .ci/run
