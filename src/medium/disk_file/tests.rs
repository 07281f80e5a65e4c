//! Files whose disk fails, and then works.

use super::*;
use std::path::Path;

/// Stands for a disk that cannot write.
pub(in crate::medium) mod failing {
    use std::cell::Cell;

    thread_local! {
        static SYNCS: Cell<u32> = const { Cell::new(0) };
    }

    /// The next so many syncs of this thread fail.
    pub(in crate::medium) fn next(syncs: u32) {
        SYNCS.set(syncs);
    }

    pub(in crate::medium) fn this() -> bool {
        let left = SYNCS.get();
        SYNCS.set(left.saturating_sub(1));
        left > 0
    }
}

fn file_at(path: &Path) -> DiskFile {
    let file = File::options().read(true).write(true).create(true).truncate(false).open(path).unwrap();
    DiskFile::new(file, Role::Pool)
}

/// Whoever asks while a failure is being noted is told of it.
#[test]
fn a_failure_is_noted_before_anybody_is_told() {
    use std::sync::mpsc::channel;
    let scratch = tempfile::tempdir().unwrap();
    let file = file_at(&scratch.path().join("a"));
    let ((noting, is_noting), (go_on, waits)) = (channel(), channel());
    let waits = std::sync::Mutex::new(waits);
    file.when_failed(move |failed| {
        noting.send(failed.doing).unwrap();
        waits.lock().unwrap().recv().unwrap();
    });
    std::thread::scope(|scope| {
        let first = scope.spawn(|| {
            failing::next(1);
            file.sync()
        });
        assert_eq!(is_noting.recv(), Ok("sync the pool"));
        let second = scope.spawn(|| file.sync());
        std::thread::sleep(std::time::Duration::from_millis(30));
        assert!(!first.is_finished() && !second.is_finished());
        go_on.send(()).unwrap();
        assert!(first.join().unwrap().is_err() && second.join().unwrap().is_err());
    });
    // Room that is missing is no failure, but for what was written already.
    let [full, broken] = [io::ErrorKind::StorageFull, io::ErrorKind::Other].map(io::Error::from);
    let fails = |call: Call| [&full, &broken].map(|error| call.fails_by(error));
    assert_eq!([Call::Write, Call::Sync, Call::Punch].map(fails), [[false, true], [true, true], [false, true]]);
    // Who comes later learns of it, too.
    let (told, is_told) = channel();
    file.when_failed(move |failed| told.send(failed.doing).unwrap());
    assert_eq!(is_told.recv(), Ok("sync the pool"));
}
