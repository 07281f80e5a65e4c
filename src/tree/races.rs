//! What threads may do to each other, one race at a time: the other thread's half is done by hand, or held where it is.

use super::{Core, PTree};
use crate::chain::View;
use crate::medium::Dram;
use crate::node::{Append, Circular, Node, OneLine};
use crate::pool::{Options, Pool};
use crate::{Index, Persistent, Volatile};

const POOL: u64 = 4 << 20;

fn options() -> Options {
    Pool::options().segment_size(4096).max_capacity(POOL)
}

/// A tree of the keys 0, 10, 20, ...
fn filled<N: Node, I: Index>(keys: u64) -> PTree<N, I, Dram> {
    let pool = options().create_on(Dram::zeroed(POOL)).unwrap();
    let tree: PTree<N, I, Dram> = pool.tree("t").unwrap();
    (0..keys).for_each(|i| assert!(tree.insert(i * 10, i).is_ok()));
    tree
}

/// What readers know of all leaves.
fn views<N: Node>(core: &Core<N, Dram>) -> Vec<View<'_, N::Aid>> {
    let listed = core.find_leaves(core.head()).unwrap().listed;
    listed.iter().map(|&(_, at)| core.leaves.view(at).unwrap().unwrap()).collect()
}

/// A reader begins again only if what it read has changed.
#[test]
fn writers_that_change_nothing_disturb_no_reader() {
    fn with<N: Node, I: Index>() {
        let tree = filled::<N, I>(200);
        let core = &tree.core;
        let known = views(core);
        let undisturbed = |what: &str| assert!(known.iter().all(View::is_still), "{what} changed a version");
        assert_eq!(tree.compare_exchange(50, Some(9), Some(1)).unwrap(), Some(5));
        assert_eq!(tree.compare_exchange(51, Some(9), Some(1)).unwrap(), None);
        assert_eq!(tree.compare_exchange(50, None, Some(1)).unwrap(), Some(5));
        undisturbed("a refused exchange");
        assert_eq!(tree.update(77, 1).unwrap(), None);
        undisturbed("an update of a missing key");
        assert_eq!(tree.remove(77).unwrap(), None);
        undisturbed("a removal of a missing key");
        assert!(tree.check().is_clean() && tree.len() == 200);
        undisturbed("a check");
        core.close_record();
        undisturbed("a close record");
        let last = known.last().unwrap();
        core.directory.reset().unwrap();
        assert_eq!(tree.update(last.span.low(), 7).unwrap().unwrap() * 10, last.span.low());
        let (last, passed) = known.split_last().unwrap();
        assert!(passed.len() > 3 && passed.iter().all(View::is_still), "a writer that walked past changed a version");
        assert!(!last.is_still(), "an update that is not noticed");
    }
    with::<OneLine<7>, Volatile>();
    with::<Circular<4>, Persistent>();
    with::<Append<3>, Volatile>();
}
