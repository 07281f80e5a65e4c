//! The trees that the checkers are run on: `crash` and `lin`.

use crate::{crash, lin};
#[cfg(feature = "papers")]
use bristlecone::papers::{
    Aggressive, Append, CowSip, Fingerprint, Fingerprinted, Fixed, Logged, Scanned, Sentinel, Versioned, crab,
};
use bristlecone::papers::{Circular, Linear};
use bristlecone::{IndexKind, Node, OneLine};

/// A tree that can be checked.
pub(crate) struct Subject {
    pub(crate) layout: &'static str,
    pub(crate) slots: u32,
    pub(crate) index: IndexKind,
    pub(crate) crash: fn(&crash::Args) -> crate::out::Outcome,
    pub(crate) lin: lin::Check,
}

/// A table of subjects: of each layout the indexes. Each costs seconds of compile time.
macro_rules! subjects {
    (@@ [$($index:ident)*] $layout:ty) => {
        &[$(Subject {
            layout: <$layout as Node>::NAME,
            slots: <$layout as Node>::SLOTS as u32,
            index: IndexKind::$index,
            crash: crash::checked::<$layout>,
            lin: lin::checked::<$layout>,
        }),*]
    };
    (@ $indexes:tt $($layout:ty)*) => { &[$(subjects!(@@ $indexes $layout),)*] };
    ($([$($index:ident)*]: $($layout:ty)*;)*) => { &[$(subjects!(@ [$($index)*] $($layout)*),)*] };
}

const SUBJECTS: &[&[&[Subject]]] = subjects! {
    [Volatile Persistent]: OneLine<7> Linear<4> Circular<4>;
    [Flat FlatFixed]: OneLine<7>;
};

/// And larger nodes. NV-Tree's leaves with the index of their paper, too.
#[cfg(feature = "papers")]
const OF_PAPERS: &[&[&[Subject]]] = subjects! {
    [Volatile Persistent]:
        OneLine Linear<5> Linear<8> Circular<8>
        Scanned<Linear<4>> Scanned<Circular<4>> Sentinel<Linear<8>> Sentinel<Circular<8>>
        Fingerprinted<Linear<4>> Fingerprinted<Circular<4>>
        CowSip<4> CowSip<4, { crab::OPT }> CowSip<4, { crab::COPY_ONLY }> CowSip<4, { crab::SHIFT_ONLY }>
        CowSip<8> CowSip<8, { crab::OPT }>
        Fingerprint<4> Logged<4> Versioned<4>;
    [Volatile Persistent Flat FlatFixed]: Append<3> Append<3, Fixed> Append<3, Aggressive>;
};

#[cfg(not(feature = "papers"))]
const OF_PAPERS: &[&[&[Subject]]] = &[];

pub(crate) fn subjects() -> impl Iterator<Item = &'static Subject> {
    SUBJECTS.iter().chain(OF_PAPERS).copied().flatten().copied().flatten()
}

/// The names of all layouts, each once.
pub(crate) fn layouts() -> Vec<&'static str> {
    let mut names = Vec::new();
    for subject in subjects() {
        if !names.contains(&subject.layout) {
            names.push(subject.layout);
        }
    }
    names
}
