//! What the compiler makes of a shift: each store to the pool stays a separate store, in its place.
//!
//! Every order point leaves a comment in the emitted assembly. So between two stores to the pool there must be such a
//! comment, a fence, or a call; and no store may be wider than a word. This is exactly where published persistent trees
//! were broken.

use std::fs;
use std::path::Path;
use std::process::Command;

/// Emits the assembly of an example and returns it.
fn assembly(example: &str) -> String {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("assembly");
    let emit = ["--emit", "asm", "-C", "codegen-units=1", "-C", "debuginfo=0"];
    let status = Command::new(env!("CARGO"))
        .args(["rustc", "--quiet", "--release", "--example", example])
        // What other packages compile to is not looked at.
        .args(["--config", "profile.release.package.'*'.opt-level=0", "--target-dir"])
        .arg(&target)
        .arg("--")
        .args(emit)
        // The verbs on a leaf are functions of their own.
        .env("RUSTFLAGS", "--cfg bristlecone_assembly")
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .status()
        .expect("cargo runs");
    assert!(status.success(), "{status}");
    let is_it = |path: &Path| path.extension().is_some_and(|e| e == "s");
    let found = fs::read_dir(target.join("release/examples")).unwrap().map(|entry| entry.unwrap().path());
    let newest = found.filter(|path| is_it(path)).max_by_key(|path| fs::metadata(path).unwrap().modified().unwrap());
    fs::read_to_string(newest.expect("an assembly file")).unwrap()
}

/// The instructions of all functions whose mangled names contain `part`.
fn functions<'a>(assembly: &'a str, part: &str) -> Vec<Vec<&'a str>> {
    let mut found = Vec::new();
    let mut lines = assembly.lines();
    while let Some(line) = lines.next() {
        if line.starts_with('_') && line.ends_with(':') && line.contains(part) {
            found.push(lines.by_ref().map(str::trim).take_while(|line| *line != ".cfi_endproc").collect());
        }
    }
    found
}

/// How many bytes an instruction stores outside of the stack; 0 for any other instruction.
fn stored(instruction: &str) -> usize {
    let Some((verb, operands)) = instruction.split_once(char::is_whitespace) else { return 0 };
    // The target comes last, and is in parentheses if it is memory.
    let to_memory = operands.trim_end().ends_with(')');
    let source = operands.split(',').next().unwrap_or_default().trim();
    let on_stack = operands.contains("%rsp)") || operands.contains("%rbp)") || operands.contains("(%rsp,");
    if !to_memory || on_stack || !verb.contains("mov") || source.starts_with('(') {
        return 0;
    }
    match source {
        _ if source.contains("zmm") => 64,
        _ if source.contains("ymm") => 32,
        _ if source.contains("xmm") => 16,
        // Words of the pool are addressed by an index.
        _ if operands.trim_end().ends_with(",8)") => 8,
        _ => 4,
    }
}

/// The memory location that a load reads.
fn loaded(instruction: &str) -> Option<&str> {
    let (source, _) = instruction.strip_prefix("movq\t")?.rsplit_once(", %")?;
    source.ends_with(')').then_some(source)
}

/// The first place where two stores follow each other without an order point, or where a store is too wide.
fn disorder<'a>(function: &[&'a str]) -> Result<usize, &'a str> {
    let mut stores = 0;
    let mut unordered = false;
    // Locations read since the last order point. A word that is read and written back is the shadow's; words of the
    // pool are replaced without being read.
    let mut read = Vec::new();
    for &line in function {
        if line.contains("order") || line.starts_with("call") {
            read.clear();
        }
        read.extend(loaded(line));
        if line.contains("order") || line.starts_with("call") || line.starts_with("sfence") {
            unordered = false;
        } else if line.starts_with("jmp") || line.starts_with("ret") || line.starts_with("ud2") {
            // Instructions that follow in the text do not follow in time.
            unordered = false;
        } else if line.starts_with("rep") {
            return Err(line);
        } else {
            match stored(line) {
                8 if read.iter().any(|place| line.ends_with(place)) => {}
                8 if unordered => return Err(line),
                8 => {
                    unordered = true;
                    stores += 1;
                }
                0..8 => {}
                _ => return Err(line),
            }
        }
    }
    Ok(stores)
}

#[test]
#[ignore = "compiles the crate once more: scripts/check assembly"]
fn every_store_of_a_shift_stays_in_its_place() {
    let assembly = assembly("sessions");
    // OneLine leaves, the circular nodes of a persistent index over them, and leaves of byte strings.
    let verbs = [
        ("inserts into a leaf", "OneLine$LT$_$GT$$u20$as$u20$bristlecone..node..layout..Layout$GT$6insert", 2),
        ("inserts of byte strings", "ByteLeaf$LT$_$GT$$u20$as$u20$bristlecone..node..layout..Layout$GT$6insert", 2),
        ("shifting inserts", "SortedOps$LT$N$GT$$u20$as$u20$bristlecone..node..layout..Layout$GT$6insert", 6),
        ("shifting removals", "5shift9close_gap", 4),
    ];
    for (what, part, least) in verbs {
        let functions = functions(&assembly, part);
        let mut stores = 0;
        for function in functions.iter().filter(|function| function.iter().any(|line| line.contains("order"))) {
            match disorder(function) {
                Ok(n) => stores += n,
                Err(line) => panic!("{what}: a store is wide, or follows another unordered: {line}\n{function:#?}"),
            }
        }
        assert!(stores >= least, "{what}: only {stores} stores were found; has the function another name now?");
    }
}

#[test]
fn disorder_is_found() {
    let ordered = ["movq\t%rax, (%rdi,%rcx,8)", "# order", "movq\t%rbx, 8(%rdi,%rcx,8)", "ret"];
    assert_eq!(disorder(&ordered), Ok(2));
    let elsewhere = ["movq\t%rax, (%r8,%rdi,8)", "movups\t%xmm0, 16(%rsp)", "movq\t(%rsi), %rbx", "movl\t%eax, (%rdi)"];
    assert_eq!(disorder(&elsewhere), Ok(1));
    assert!(disorder(&["movq\t%rax, (%r8,%rdi,8)", "movq\t%rbx, (%r8,%rsi,8)"]).is_err());
    assert!(disorder(&["movups\t%xmm0, (%rdi,%rcx)"]).is_err());
    assert!(disorder(&["rep movsq"]).is_err());
    let shadow = ["movq\t%rax, (%r8,%rdi,8)", "movq\t24(%rdx,%rax,8), %r9", "movq\t%r9, 24(%rdx,%rax,8)"];
    assert_eq!(disorder(&shadow), Ok(1));
    assert!(disorder(&["movq\t%rax, (%r8,%rdi,8)", "movq\t%r9, 24(%rdx,%rax,8)"]).is_err());
    assert!(disorder(&["movq\t24(%rdx,%rax,8), %r9", "movups\t%xmm0, 24(%rdx,%rax,8)"]).is_err());
}
