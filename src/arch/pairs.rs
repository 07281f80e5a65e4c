//! Turns a CPU's table of methods for moving pairs into functions.

/// The environment variable that forces a method by its name: for tests, and to measure a paper's instruction.
pub(super) const VARIABLE: &str = "BRISTLECONE_PAIR";

/// Turns a table into the functions that an architecture's file exports: `load_pair`, `store_pair`, `cas_pair` and
/// `pair_method`.
///
/// A row is a method: its name, what the CPU must have, and the functions that load, store, and compare and swap. The
/// first method that the CPU has is chosen on first use, unless the environment names another one that it has. The last
/// row has no requirement.
macro_rules! pairs {
    ($($method:ident $name:literal if $available:expr => $load:expr, $store:expr, $swap:expr;)*
        _ $last:literal => $last_load:expr, $last_store:expr, $last_swap:expr;) => {
        #[derive(Clone, Copy, PartialEq, Eq)]
        enum Method {
            $($method,)*
            Last,
        }

        /// The chosen method, plus one.
        static METHOD: CpuFact = CpuFact::new();

        #[inline]
        fn is(method: Method) -> bool {
            METHOD.get(chosen) == method as usize + 1
        }

        fn chosen() -> usize {
            let forced = std::env::var(super::pairs::VARIABLE).ok();
            let table = [$((Method::$method, $name, $available),)* (Method::Last, $last, true)];
            let available = || table.iter().filter(|(_, _, available)| *available);
            let method = available().find(|(_, name, _)| Some(*name) == forced.as_deref()).or_else(|| available().next());
            method.map_or(Method::Last, |&(method, _, _)| method) as usize + 1
        }

        pub(super) fn pair_method() -> &'static str {
            $(if is(Method::$method) {
                return $name;
            })*
            $last
        }

        /// # Safety
        ///
        /// That of [`super::load_pair`].
        #[inline]
        pub(super) unsafe fn load_pair(at: *const [u64; 2]) -> PairWords {
            $(if is(Method::$method) {
                // SAFETY: `at` is as the caller promises, and `is` says that the CPU has the method's instructions.
                return unsafe { ($load)(at) };
            })*
            // SAFETY: `at` is as the caller promises, and every CPU has the instructions of the last method.
            unsafe { ($last_load)(at) }
        }

        /// # Safety
        ///
        /// That of [`super::store_pair`].
        #[inline]
        pub(super) unsafe fn store_pair(at: *mut [u64; 2], pair: PairWords) {
            $(if is(Method::$method) {
                // SAFETY: `at` is as the caller promises, and `is` says that the CPU has the method's instructions.
                return unsafe { ($store)(at, pair) };
            })*
            // SAFETY: `at` is as the caller promises, and every CPU has the instructions of the last method.
            unsafe { ($last_store)(at, pair) }
        }

        /// Returns the old value.
        ///
        /// # Safety
        ///
        /// That of [`super::cas_pair`].
        #[inline]
        pub(super) unsafe fn cas_pair(at: *mut [u64; 2], current: PairWords, new: PairWords) -> PairWords {
            $(if is(Method::$method) {
                // SAFETY: `at` is as the caller promises, and `is` says that the CPU has the method's instructions.
                return unsafe { ($swap)(at, current, new) };
            })*
            // SAFETY: `at` is as the caller promises, and every CPU has the instructions of the last method.
            unsafe { ($last_swap)(at, current, new) }
        }
    };
}
pub(super) use pairs;
