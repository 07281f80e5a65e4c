//! The rules of the journal that the checks leave out, one at a time, to see that they find it.

/// A rule that can be left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(dead_code, reason = "only tests leave rules out")]
pub(super) enum Rule {
    /// J4: a cell is filled only when the log has what was there.
    Room,
    /// J6: a frame has the right checksum.
    Checksum,
    /// J6: a frame has the right epoch.
    Epoch,
    /// J7: an open begins a new epoch.
    NewEpoch,
    /// J8: a sync does not pass a cell that does not count.
    Holes,
    /// J9: a frame's place is not used again before the log's start has passed it.
    Reuse,
    /// J10: a checkpoint syncs the pool file.
    PoolSync,
    /// J10: after a sync that failed, the log's start stays.
    FailedPoolSync,
    /// J11: what seems to be there already is stored again.
    StoreEqual,
    /// A checkpoint does not store again what the open has stored.
    ApplyOnce,
    /// A log is as long as its header says.
    GrownSync,
    /// J13: a write that fails when the log grows closes the journal, unless there is no room.
    GrownWrite,
    /// J13: a leader does not wait for what a failure may have dropped.
    LeaderLooks,
    /// A thread that waits for room is woken when there is some.
    Wake,
    /// What is said to be on the disk is there already.
    SyncedLast,
    /// An error is noted before anybody else asks the system.
    NotedAlone,
    /// J12: the log is synced before it is applied.
    LogBeforePool,
    /// J13: after a failure nothing is synced.
    Closed,
    /// An open writes frames again.
    WriteAgain,
    /// An open writes the header again that it has read.
    HeaderAgain,
    /// An open begins a new epoch durably.
    NewEpochSync,
    /// J17: space is given back only when nothing could fill it again.
    PunchLate,
    /// J33: once a pool is being closed, nothing takes the place of its ring.
    NoneAfterClose,
    /// J33: no larger ring is made before one that takes the place of another has its name.
    OneReplacement,
    /// J22: a thread claims a cell before it fills it.
    Claim,
    /// J22: what a cell holds is held against its check.
    CellCheck,
    /// J20: the ring says whose it is before the header names it.
    RingBeforeHeader,
    /// J20: the ring says so before the marker asks for it.
    RingBeforeMarker,
    /// J23: cells behind a gap count only in the pages to which the last process has stored.
    Witness,
    /// J23: in the same boot, a gap may be what a disk lacks that was taken out.
    Gap,
    /// J23: after a loss of power, cells count up to the first one that lacks.
    Prefix,
    /// An open asks for the ring that the header names.
    RingLost,
    /// J24: the ring says what is on the disk.
    RingSynced,
    /// J24: the ring says so after the sync.
    NotedLast,
    /// J25: frames say what is on the disk.
    FrameSynced,
    /// J26: what is known to have been on the disk is missed.
    Synced,
    /// J26: a whole frame behind the end shows nothing by itself.
    AnyFrame,
    /// J32: another ring gets its name when the log has what the one before had.
    SyncedBeforeName,
    /// J32: nobody fills a cell of the ring that is replaced when the log has what it has.
    Shut,
    /// J32: a leader with a position of its own makes no other ring.
    ReplacesAlone,
    /// J16: an open takes back what the marker says of a pool that was closed.
    Unsettled,
    /// J36: a page stays that the log names, if that is not in the file, on the disk.
    NamedInLog,
    /// J36: a page stays that the ring names.
    NamedInRing,
    /// J36: after a failure no page goes.
    EvictedAfterFailure,
    /// An image counts only when the log has what was stored before it ends.
    ImageAfterLog,
    /// An image does not count if the log ends before it.
    ImageEnd,
    /// J42: the place of what was named since an image was begun is not used again.
    ImageKept,
    /// J42: an image does not count whose place the log has used while it was made.
    ImageHeld,
    /// What a close notes in the log names the header that the log has then.
    NamedHeader,
}

#[cfg(test)]
thread_local! {
    static LEFT_OUT: std::cell::Cell<Option<Rule>> = const { std::cell::Cell::new(None) };
}

#[cfg(test)]
thread_local! {
    static ALONE: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
}

/// Says that this thread is the only one, so that it need not wait for others.
#[cfg(test)]
pub(super) fn alone() {
    ALONE.set(true);
}

/// Leaves a rule out, on this thread.
#[cfg(test)]
pub(super) fn leave_out(rule: Option<Rule>) {
    LEFT_OUT.set(rule);
}

/// Whether a leader stops waiting for a cell: in tests with one thread nobody will fill it.
#[inline]
pub(super) fn gives_up(_spins: u32) -> bool {
    #[cfg(test)]
    return _spins > 3 && ALONE.get();
    #[cfg(not(test))]
    false
}

/// Whether a rule holds.
#[inline]
pub(super) fn holds(rule: Rule) -> bool {
    #[cfg(test)]
    return LEFT_OUT.get() != Some(rule);
    #[cfg(not(test))]
    {
        let _ = rule;
        true
    }
}
