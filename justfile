# One verb per check. The commands are in scripts/check, which CI calls too.

# What there is
default:
    @just --list

# Formatting
fmt:
    scripts/check fmt

# Lints, warnings denied
clippy:
    scripts/check clippy

# All tests, or those whose names contain FILTER
test *FILTER:
    scripts/check test {{FILTER}}

# Documentation, warnings denied
doc:
    scripts/check doc

# The oldest Rust that is promised
msrv:
    scripts/check msrv

# The models of the locks, under every interleaving
loom:
    scripts/check loom

# Every crash state of small trees
crash:
    scripts/check crash

# Histories of many threads, with delays, for LIN_SECONDS (30)
lin:
    scripts/check lin

# The stores of a shift, in the assembly
assembly:
    scripts/check assembly

# Every damaged byte of small pools
damage:
    scripts/check damage

# The code without assembler
portable:
    scripts/check portable

# aarch64 in an emulator, as three CPUs
aarch64:
    scripts/check aarch64

# Each fuzz target for FUZZ_SECONDS (60)
fuzz-smoke:
    scripts/check fuzz-smoke

# The benchmarks
bench *ARGS:
    scripts/check bench {{ARGS}}

# All that CI runs
ci:
    .ci/run
