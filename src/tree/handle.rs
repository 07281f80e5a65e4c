//! Handles of an open tree.

use super::{TreeNode, TreeState};
use crate::medium::{Domain, Medium};
use crate::pool::images::Seat;
use parking_lot::Mutex;
use std::ops::Deref;
use std::sync::Arc;

/// A handle of an open tree. While there are any, images are made of the tree: the last one takes it away from those
/// that make them, and only then lets go of it. So nobody looks at a tree that is being dropped.
pub(crate) struct TreeHandle<N: TreeNode, M: Medium>(Arc<TreeState<N, M>>);

/// What a tree knows of its handles.
#[derive(Default)]
pub(super) struct Handles(Mutex<(u64, Option<Arc<Seat>>)>);

impl<N: TreeNode, M: Medium> TreeHandle<N, M> {
    pub(crate) fn new(state: Arc<TreeState<N, M>>) -> Self {
        // In a forked child, a thread that is not there may have locked anything, and no images are made.
        if state.makes_images() {
            let mut handles = state.handles.0.lock();
            let (count, seat) = &mut *handles;
            *count += 1;
            if *count == 1 {
                // SAFETY: it lies in the `Arc` of this handle, and the last handle leaves the seat before it lets go of
                // that.
                *seat = Some(unsafe { state.pool.seats.take(state.root.slot, &*state) });
            }
        }
        Self(state)
    }
}

impl<N: TreeNode, M: Medium> TreeState<N, M> {
    fn makes_images(&self) -> bool {
        self.medium().facts().domain == Domain::Journal && !self.medium().forked() && !self.pool.is_looked_at()
    }
}

impl<N: TreeNode, M: Medium> Deref for TreeHandle<N, M> {
    type Target = Arc<TreeState<N, M>>;

    #[inline(always)]
    fn deref(&self) -> &Arc<TreeState<N, M>> {
        &self.0
    }
}

impl<N: TreeNode, M: Medium> Clone for TreeHandle<N, M> {
    fn clone(&self) -> Self {
        Self::new(Arc::clone(&self.0))
    }
}

impl<N: TreeNode, M: Medium> Drop for TreeHandle<N, M> {
    fn drop(&mut self) {
        if self.0.makes_images() {
            let mut handles = self.0.handles.0.lock();
            let (count, seat) = &mut *handles;
            *count -= 1;
            if *count == 0 {
                seat.take().into_iter().for_each(|seat| seat.leave());
            }
        }
    }
}
