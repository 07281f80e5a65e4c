//! The benchmarks of `bristlecone`: see the library.

fn main() -> std::process::ExitCode {
    bristlecone_bench::main()
}
