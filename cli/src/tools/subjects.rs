//! The trees that the checkers `crash` and `lin` run on.

use bristlecone::crash::{self, Checkable, Control, History, KeyShape, Two};
#[cfg(feature = "papers")]
use bristlecone::papers::{
    Aggressive, Append, AsPrinted, CircularPrinted, CowSip, Fingerprint, Fingerprinted, FingerprintedLeaves, Fixed,
    Logged, Scanned, Sentinel, SentinelLeaves, Versioned, VersionedInner, crab,
};
use bristlecone::papers::{Circular, Linear};
use bristlecone::{ByteLeaf, IndexKind, OneLine, lin};
use clap::ValueEnum;
use std::marker::PhantomData;

/// The campaigns of both checkers on trees of one layout.
pub(crate) trait Campaigns: Sync {
    fn exhaustive(&self, campaign: &crash::Campaign, progress: Progress<'_>) -> crash::Outcome;
    fn random(&self, campaign: &crash::Campaign, histories: (usize, usize), progress: Progress<'_>) -> crash::Outcome;
    fn history(&self, campaign: &crash::Campaign, history: &History) -> crash::Outcome;
    fn controls(&self, campaign: &crash::Campaign, histories: &[History], progress: Progress<'_>) -> Vec<Control>;
    fn rounds(&self, campaign: &lin::Campaign, progress: Found<'_>) -> lin::Outcome;
    fn durable(&self, campaign: &lin::Campaign, progress: Found<'_>) -> lin::Outcome;
    fn durable_control(&self, campaign: &lin::Campaign, progress: Found<'_>) -> lin::Outcome;
    #[cfg(target_os = "linux")]
    fn journaled(&self, campaign: &lin::Campaign, progress: Found<'_>) -> lin::Outcome;
    #[cfg(bristlecone_delays)]
    fn control(&self, campaign: &lin::Campaign, control: lin::Control, progress: Found<'_>) -> lin::Outcome;
}

/// How many histories are done, and how many there are.
type Progress<'p> = &'p (dyn Fn(usize, usize) + Sync);
/// Called with what was found so far.
type Found<'p> = &'p (dyn Fn(&lin::Outcome) + Sync);

struct Of<N>(PhantomData<fn() -> N>);

impl<N: Checkable> Campaigns for Of<N> {
    fn exhaustive(&self, campaign: &crash::Campaign, progress: Progress<'_>) -> crash::Outcome {
        campaign.exhaustive::<N>(progress)
    }

    fn random(
        &self,
        campaign: &crash::Campaign,
        (count, len): (usize, usize),
        progress: Progress<'_>,
    ) -> crash::Outcome {
        campaign.random::<N>(count, len, progress)
    }

    fn history(&self, campaign: &crash::Campaign, history: &History) -> crash::Outcome {
        campaign.history::<N>(history)
    }

    fn controls(&self, campaign: &crash::Campaign, histories: &[History], progress: Progress<'_>) -> Vec<Control> {
        campaign.controls::<N>(histories, progress)
    }

    fn rounds(&self, campaign: &lin::Campaign, progress: Found<'_>) -> lin::Outcome {
        campaign.run::<N>(progress)
    }

    fn durable(&self, campaign: &lin::Campaign, progress: Found<'_>) -> lin::Outcome {
        campaign.durable::<N>(progress)
    }

    #[cfg(target_os = "linux")]
    fn journaled(&self, campaign: &lin::Campaign, progress: Found<'_>) -> lin::Outcome {
        campaign.journaled::<N>(progress)
    }

    fn durable_control(&self, campaign: &lin::Campaign, progress: Found<'_>) -> lin::Outcome {
        campaign.durable_control::<N>(progress)
    }

    #[cfg(bristlecone_delays)]
    fn control(&self, campaign: &lin::Campaign, control: lin::Control, progress: Found<'_>) -> lin::Outcome {
        campaign.control::<N>(control, progress)
    }
}

/// A tree that can be checked.
pub(crate) struct Subject {
    pub(crate) layout: &'static str,
    pub(crate) slots: u32,
    pub(crate) index: IndexKind,
    pub(crate) campaigns: &'static dyn Campaigns,
}

impl Subject {
    /// Whether it is two trees, which have transactions.
    pub(crate) fn is_two(&self) -> bool {
        [<Two<OneLine<7>> as Checkable>::NAME, <Two<ByteLeaf<4>> as Checkable>::NAME].contains(&self.layout)
    }

    /// Whether its keys are byte strings.
    pub(crate) fn has_byte_strings(&self) -> bool {
        [<ByteLeaf as Checkable>::NAME, <Two<ByteLeaf<4>> as Checkable>::NAME].contains(&self.layout)
    }
}

/// What the keys of trees of byte strings are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum KeysName {
    /// Eight bytes each
    Bytes,
    /// Sixty bytes that are equal, and eight more
    Long,
    /// Zeros only: each is a prefix of the next one
    Zeros,
}

impl KeysName {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Bytes => "bytes",
            Self::Long => "long",
            Self::Zeros => "zeros",
        }
    }

    pub(crate) fn shape(self) -> KeyShape {
        match self {
            Self::Bytes => KeyShape::Bytes,
            Self::Long => KeyShape::Long,
            Self::Zeros => KeyShape::Zeros,
        }
    }
}

/// A table of subjects: the indexes of each layout. Each layout costs seconds of compile time.
macro_rules! subjects {
    (@@ [$($index:ident)*] $layout:ty) => {
        &[$(Subject {
            layout: <$layout as Checkable>::NAME,
            slots: <$layout as Checkable>::SLOTS as u32,
            index: IndexKind::$index,
            campaigns: &Of::<$layout>(PhantomData),
        }),*]
    };
    (@ $indexes:tt $($layout:ty)*) => { &[$(subjects!(@@ $indexes $layout),)*] };
    ($([$($index:ident)*]: $($layout:ty)*;)*) => { &[$(subjects!(@ [$($index)*] $($layout)*),)*] };
}

const SUBJECTS: &[&[&[Subject]]] = subjects! {
    [Volatile Persistent]: OneLine<7> Linear<4> Circular<4>;
    [Flat FlatFixed]: OneLine<7>;
    [Volatile]: ByteLeaf<4>;
    [Volatile]: Two<OneLine<7>> Two<ByteLeaf<4>>;
};

/// Also larger nodes, and NV-Tree's leaves with the index of their paper.
#[cfg(feature = "papers")]
const OF_PAPERS: &[&[&[Subject]]] = subjects! {
    [Volatile Persistent]:
        OneLine Linear<5> Linear<8> Circular<8>
        Scanned<Linear<4>> Scanned<Circular<4>> Sentinel<Linear<8>> Sentinel<Circular<8>>
        Fingerprinted<Linear<4>> Fingerprinted<Circular<4>>
        SentinelLeaves<Circular<8>> FingerprintedLeaves<Circular<4>>
        CircularPrinted<4> CircularPrinted<8>
        CowSip<4> CowSip<4, { crab::OPT }> CowSip<4, { crab::COPY_ONLY }> CowSip<4, { crab::SHIFT_ONLY }>
        CowSip<8> CowSip<8, { crab::OPT }> CowSip<8, { crab::PRINTED }>
        Fingerprint<4> Fingerprint<4, true> Logged<4> Logged<4, true> Versioned<4> Versioned<4, VersionedInner<4>> Append<3, Fixed, Logged<4>>;
    [Volatile Persistent Flat FlatFixed]: Append<3> Append<3, Fixed> Append<3, Aggressive> Append<3, AsPrinted>;
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
