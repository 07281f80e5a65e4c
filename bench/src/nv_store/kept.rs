//! Which versions a renewal keeps.

use super::element::Element;

/// A version with its key, in a leaf that is renewed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Version {
    pub(super) key: Vec<u8>,
    pub(super) element: Element,
}

/// What is kept, in the order of keys and times, and what is dropped.
#[derive(Debug, Default)]
pub(super) struct Sorted {
    pub(super) kept: Vec<Version>,
    pub(super) dropped: Vec<Element>,
}

/// Sorts the versions of a leaf, which are in the order in which they were appended: kept is the last one of each key,
/// and what a snapshot of one of these times shows. The times ascend.
pub(super) fn sort(mut versions: Vec<Version>, live: &[u64]) -> Sorted {
    versions.sort_by(|a, b| a.key.cmp(&b.key));
    let mut sorted = Sorted::default();
    for of_key in versions.chunk_by(|a, b| a.key == b.key) {
        let flags = needed(of_key, live);
        // A removal names the record of the version before it, of those that stay.
        let mut owner = 0;
        for (version, is_kept) in of_key.iter().zip(flags) {
            let mut version = version.clone();
            match (is_kept, version.element.stamp.removed) {
                (false, _) => sorted.dropped.push(version.element),
                (true, true) => {
                    version.element.record = owner;
                    sorted.kept.push(version);
                }
                (true, false) => {
                    owner = version.element.record;
                    sorted.kept.push(version);
                }
            }
        }
    }
    sorted
}

/// Which versions of one key are needed.
fn needed(versions: &[Version], live: &[u64]) -> Vec<bool> {
    let time = |i: usize| versions[i].element.stamp.time;
    let removed = |i: usize| versions[i].element.stamp.removed;
    let last = versions.len() - 1;
    let is_shown = |i: usize| live.iter().any(|&live| time(i) <= live && live < time(i + 1));
    let mut needed: Vec<bool> = (0..=last).map(|i| i == last || is_shown(i)).collect();
    // Nothing older is shown, so a removal need not be.
    while let Some(first) = needed.iter().position(|&needed| needed).filter(|&first| removed(first)) {
        if first == last && live.first().is_some_and(|&oldest| oldest < time(last)) {
            // An older transaction must find that the key was written; and the removal needs a record.
            let owner = (0..last).rev().find(|&i| !removed(i));
            needed[owner.expect("a removal comes after a version")] = true;
        } else {
            needed[first] = false;
        }
    }
    needed
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A version at each time; negative: a removal. Records are numbered by times.
    fn versions(key: &[u8], times: &[i64]) -> Vec<Version> {
        let mut record = 0;
        let version = |&time: &i64| {
            let at = time.unsigned_abs();
            record = if time > 0 { at } else { record };
            let element = Element::new(key, record, 1).at_time(at, 0);
            Version { key: key.to_vec(), element: if time > 0 { element } else { element.removal() } }
        };
        times.iter().map(version).collect()
    }

    /// Times and records of what is kept.
    fn kept(times: &[i64], live: &[u64]) -> Vec<(u64, u64)> {
        let sorted = sort(versions(b"k", times), live);
        assert_eq!(sorted.kept.len() + sorted.dropped.len(), times.len());
        sorted.kept.iter().map(|Version { element, .. }| (element.stamp.time, element.record)).collect()
    }

    #[test]
    fn kept_is_what_is_last_or_shown() {
        assert_eq!(kept(&[1, 3, 5], &[]), [(5, 5)]);
        assert_eq!(kept(&[1, 3, 5], &[2]), [(1, 1), (5, 5)]);
        assert_eq!(kept(&[1, 3, 5], &[3, 4, 9]), [(3, 3), (5, 5)]);
        assert_eq!(kept(&[2, 3, 5], &[1]), [(5, 5)]);
    }

    #[test]
    fn a_removal_goes_with_what_it_removed() {
        assert_eq!(kept(&[1, -3], &[]), []);
        assert_eq!(kept(&[1, -3], &[3, 7]), []);
        assert_eq!(kept(&[1, -3], &[2]), [(1, 1), (3, 1)]);
        assert_eq!(kept(&[1, 2, -3, 5], &[1, 4]), [(1, 1), (3, 1), (5, 5)]);
        assert_eq!(kept(&[1, -3, 5], &[4]), [(5, 5)]);
    }

    #[test]
    fn an_older_transaction_finds_a_removal() {
        assert_eq!(kept(&[3, -4], &[2]), [(3, 3), (4, 3)]);
        assert_eq!(kept(&[1, -2, 3, -4], &[2]), [(3, 3), (4, 3)]);
        assert_eq!(kept(&[1, -2, 3, -4], &[1, 2]), [(1, 1), (2, 1), (4, 1)]);
    }

    #[test]
    fn keys_are_sorted() {
        let all = [versions(b"b", &[2, 3]), versions(b"a", &[1])].concat();
        let keys: Vec<Vec<u8>> = sort(all, &[2]).kept.into_iter().map(|version| version.key).collect();
        assert_eq!(keys, [b"a", b"b", b"b"]);
    }
}
