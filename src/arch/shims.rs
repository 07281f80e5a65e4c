//! The instructions of this CPU from an assembler file, `shims/*.S`, for the feature `asm-shims`: for toolchains and
//! audits that want them there. Each is a call, where the inline assembler is part of its caller.

use super::PairWords;

/// Declares functions of the assembler file of this CPU, each under its name there.
macro_rules! shims {
    ($abi:literal: $($symbol:literal $name:ident($($argument:ident: $type:ty),*) $(-> $result:ty)?;)*) => {
        unsafe extern $abi {
            $(
                /// # Safety
                ///
                /// That of the function of the same name in the file of this CPU, `x86_64.rs` or `aarch64.rs`.
                #[link_name = $symbol]
                pub(super) fn $name($($argument: $type),*) $(-> $result)?;
            )*
        }
    };
}

#[cfg(target_arch = "x86_64")]
shims! { "sysv64":
    "bristlecone_cas128" cas128(at: *mut [u64; 2], current: PairWords, new: PairWords) -> PairWords;
    "bristlecone_load_avx" load_avx(at: *const [u64; 2]) -> PairWords;
    "bristlecone_store_avx" store_avx(at: *mut [u64; 2], pair: PairWords);
    "bristlecone_clwb" clwb(line: *const u8);
    "bristlecone_clflushopt" clflushopt(line: *const u8);
    "bristlecone_clflush" clflush(line: *const u8);
    "bristlecone_fence" wait();
}

#[cfg(target_arch = "aarch64")]
shims! { "C":
    "bristlecone_cas128_lse" cas128_lse(at: *mut [u64; 2], current: PairWords, new: PairWords) -> PairWords;
    "bristlecone_cas128_llsc" cas128_llsc(at: *mut [u64; 2], current: PairWords, new: PairWords) -> PairWords;
    "bristlecone_load_lse2" load_lse2(at: *const [u64; 2]) -> PairWords;
    "bristlecone_store_lse2" store_lse2(at: *mut [u64; 2], pair: PairWords);
    "bristlecone_cvadp" cvadp(line: *const u8);
    "bristlecone_cvap" cvap(line: *const u8);
    "bristlecone_cvac" cvac(line: *const u8);
    "bristlecone_fence" wait();
}

#[cfg(test)]
pub(super) mod tests {
    /// Asserts that two functions consist of the same bytes, the last of which are `end`, their only return.
    pub(in crate::arch) fn are_the_same(here: *const (), shim: *const (), end: &[u8]) {
        let byte = |of: *const (), i: usize| {
            // SAFETY: the code of a function can be read up to its return, and the loop ends there.
            unsafe { of.cast::<u8>().add(i).read() }
        };
        for i in 0.. {
            assert_eq!(byte(here, i), byte(shim, i), "byte {i}");
            if i + 1 >= end.len() && (0..end.len()).all(|k| byte(shim, i + 1 + k - end.len()) == end[k]) {
                return;
            }
        }
    }
}
