//! Media on which words were changed.

use super::{TINY, entries};
use crate::numbers::Random;
use crate::nv_store::leaves::FIRST;
use crate::nv_store::{NvStore, Options};
use bristlecone::medium::{Dram, LINE, Medium};

#[test]
fn a_damaged_word_is_an_error_or_harms_nothing_else() {
    let store = NvStore::open(Dram::zeroed(1 << 15), TINY).unwrap();
    for i in 0..40_u8 {
        store.put(&[&[b'k'; 9], [i].as_slice()].concat(), &[i; 3]).unwrap();
        store.remove(&[&[b'k'; 9], [i / 3].as_slice()].concat()).unwrap();
    }
    let words = store.medium().words();
    let used: Vec<usize> = (0..words.len()).filter(|&i| words[i] != 0).collect();
    let mut random = Random::new(9);
    let mut errors = 0;
    for &i in &used {
        let old = words[i];
        let bit = 1 << random.below(64);
        for new in [0, 1, u64::MAX, old ^ bit, old.wrapping_add(64), old.wrapping_sub(64), random.word(), words[1]] {
            let medium = Dram::from_words(words.iter().copied());
            medium.store(i as u64 * 8, new);
            match NvStore::open(medium, TINY) {
                Err(_) => errors += 1,
                // What it says it holds can be read, and changed.
                Ok(store) => entries(&store).keys().for_each(|key| {
                    assert!(store.get(key, |_| ()).is_some());
                    store.remove(key).unwrap();
                }),
            }
        }
    }
    assert!(errors > used.len(), "{errors} of {}", used.len());
}

#[test]
fn what_is_not_a_store_is_not_opened() {
    let other = |words: [u64; 3]| Dram::from_words(words.into_iter().chain([0; 1000]));
    assert!(NvStore::open(other([7, 64, 64]), TINY).is_err());
    assert!(NvStore::open(Dram::zeroed(1024), Options::default()).is_err());
}

/// The next change would have a time that no stamp can hold, and the next open would find what it appended out of
/// order.
#[test]
fn a_time_that_leaves_no_room_for_others_is_damage() {
    let store = NvStore::open(Dram::zeroed(1 << 15), TINY).unwrap();
    store.put(b"k", b"v").unwrap();
    let words = store.medium().words();
    let (slot, stamp) = (store.slot_at(1), store.leaves.get(FIRST).view().at + LINE + 16);
    for (at, word) in [(slot, u64::MAX >> 8), (slot, (u64::MAX >> 8) - 1), (stamp, u64::MAX << 8)] {
        let medium = Dram::from_words(words.iter().copied());
        medium.store(at, word);
        assert!(NvStore::open(medium, TINY).is_err(), "{at} {word:x}");
    }
}
