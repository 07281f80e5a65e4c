//! The crash checker: every state that a crash may leave, opened, compared with a model, used, and crashed again.
//!
//! For each [`History`] the last operation is cut at every fence and at its return. Between two fences the set of
//! states that a crash may leave only grows, so these points cover all others. At each point every combination of line
//! contents that the [`Model`](crate::medium::Model) allows is tried, except for lines that recovery does not read.
//!
//! Every state is opened, which recovers it. Its entries must be those of the model before or after the operation
//! (after it, once it has returned); all invariants must hold; more inserts and removals must work; and the pool must
//! close and open again. Recovery itself is cut in the same way, to the requested depth. A crash point that leaves the
//! same as another one is skipped. A state that occurred before is opened, but neither used nor cut again.
//!
//! # Examples
//!
//! ```
//! use bristlecone::crash::Campaign;
//! use bristlecone::medium::Model;
//! use bristlecone::papers::Circular;
//!
//! let campaign = Campaign::new(Model::Weak);
//! let outcome = campaign.history::<Circular<4>>(&"i2=1 i4=2 i3=7".parse().unwrap());
//! assert!(outcome.violations.is_empty());
//! assert!(outcome.states > 10);
//! ```

pub(crate) mod any_tree;
mod campaign;
#[cfg(all(test, not(bristlecone_loom)))]
mod cases;
mod controls;
pub(crate) mod explore;
pub(crate) mod history;
mod key_shape;
mod omission;
mod outcome;
mod part;
pub(crate) mod pending;
pub(crate) mod record;
mod row;
mod run;
pub(crate) mod tree_type;
mod two_trees;
pub(crate) mod verify;

pub use campaign::Campaign;
pub use controls::Control;
pub use history::{History, NoOp, Op, compacting, compacting_inner};
pub use key_shape::KeyShape;
pub use omission::ControlKind;
pub use outcome::{Outcome, Violation};
pub use part::{NoPart, Part};
pub use tree_type::{Checkable, Two, Values};
