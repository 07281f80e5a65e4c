//! Maps whose keys are byte strings, compared with `BTreeMap`.

use crate::medium::{Any, holding, words_of, zeroed};
use bristlecone::codec::KeyView;
use bristlecone::{ByteLeaf, Map, Options, Pool, Result};
use std::collections::BTreeMap;

const POOL: u64 = 16 << 20;

fn options() -> Options {
    Pool::options().segment_size(16 << 10)
}

type Of = Map<Vec<u8>, Vec<u8>, ByteLeaf<8>, Any>;
type Model = BTreeMap<Vec<u8>, Vec<u8>>;

fn open(pool: &Pool<Any>) -> Of {
    pool.map_with("t", bristlecone::IndexKind::Volatile).unwrap()
}

/// A reproducible sequence.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        (self.0 >> 33) % end
    }
}

/// How the keys of a test look.
const SHAPES: [fn(u64) -> Vec<u8>; 9] = [
    |n| n.to_be_bytes()[4..].to_vec(),
    |n| format!("user{n:019}").into_bytes(),
    |n| (0..n % 40).map(|i| if i + 1 == n % 40 { (n / 40) as u8 } else { 0 }).collect(),
    |n| [vec![0xff; (n % 20) as usize], vec![(n / 20) as u8]].concat(),
    |n| [vec![b'x'; 300], n.to_string().into_bytes()].concat(),
    |n| [vec![b'x'; 7 + (n % 3) as usize], (n / 3).to_le_bytes().to_vec()].concat(),
    |n| n.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes()[..(n % 8 + 1) as usize].to_vec(),
    |n| [vec![b'a'; 16], vec![b'b'; (n % 50) as usize], n.to_be_bytes()[6..].to_vec()].concat(),
    |n| vec![b'k'; n as usize % 600],
];

fn sound(map: &Of, model: &Model) {
    assert!(map.fault().is_none(), "{}", map.fault().unwrap());
    let report = map.check();
    assert!(report.is_clean(), "{:?}", report.violations);
    assert_eq!((map.len(), report.entries), (model.len() as u64, model.len() as u64));
    let entries: Vec<_> = map.iter().collect::<Result<_>>().unwrap();
    assert!(entries.iter().map(|(k, v)| (k, v)).eq(model), "forwards");
    let entries: Vec<_> = map.iter().rev().collect::<Result<_>>().unwrap();
    assert!(entries.iter().map(|(k, v)| (k, v)).eq(model.iter().rev()), "backwards");
    assert!(map.keys(..).eq(model.keys().cloned()));
    // Views from both ends, until they meet.
    let (mut views, mut entries) = (map.iter(), model.iter());
    for i in 0..=entries.len() {
        let entry = if i % 3 == 0 { entries.next_back() } else { entries.next() };
        let is_this = |(key, value): (&Vec<u8>, &Vec<u8>), view: KeyView<'_, Vec<u8>>, bytes: &[u8]| {
            view.as_bytes() == key && view.decode() == *key && bytes == value
        };
        let same = |view: KeyView<'_, _>, bytes: &[u8]| entry.is_some_and(|entry| is_this(entry, view, bytes));
        let seen = if i % 3 == 0 { views.next_back_with(same) } else { views.next_with(same) };
        assert_eq!(seen.map(|seen| seen.unwrap()), entry.map(|_| true), "entry {i}");
    }
}

fn history(shape: fn(u64) -> Vec<u8>, seed: u64) {
    let mut numbers = Numbers(seed);
    let mut medium = zeroed(POOL);
    let mut pool = options().create_on(Any::clone(&medium)).unwrap();
    let mut map = open(&pool);
    let mut model = Model::new();
    // Each thousand grows, shrinks and ends in a crash.
    for step in 0..if crate::long() { 3000 } else { 1000 } {
        let range = if step % 1000 < 500 { 400 } else { 40 };
        let key = shape(numbers.below(range));
        let value = vec![step as u8; numbers.below(if step % 50 == 0 { 3000 } else { 60 }) as usize];
        match numbers.below(8) {
            0..4 => {
                assert_eq!(map.insert(&key, &value).unwrap(), model.insert(key, value).is_some());
            }
            4 => {
                let there = model.get_mut(&key).map(|old| *old = value.clone()).is_some();
                assert_eq!(map.update(&key, &value).unwrap(), there);
            }
            5 => assert_eq!(map.remove(&key).unwrap(), model.remove(&key).is_some()),
            6 => {
                assert_eq!(map.get(&key).unwrap().as_ref(), model.get(&key));
                assert_eq!(map.contains_key(&key), model.contains_key(&key));
                let others: Vec<Vec<u8>> = (0..20).map(|i| shape((step + 7 * i) % range)).collect();
                let keys: Vec<&[u8]> = others.iter().map(|key| &key[..]).collect();
                let found = map.multi_get(&keys).unwrap();
                assert!(found.iter().zip(&others).all(|(value, key)| value.as_ref() == model.get(key)));
            }
            _ => {
                let other = shape(numbers.below(range));
                let (from, to) = if key < other { (key, other) } else { (other, key) };
                let found: Vec<_> = map.range(&from[..]..&to[..]).collect::<Result<_>>().unwrap();
                assert!(found.iter().map(|(k, v)| (k, v)).eq(model.range(from.clone()..to.clone())));
                let found: Vec<_> = map.range(&from[..]..=&to[..]).rev().collect::<Result<_>>().unwrap();
                assert!(found.iter().map(|(k, v)| (k, v)).eq(model.range(from..=to).rev()));
            }
        }
        if step % 500 == 499 {
            sound(&map, &model);
            // Once after a crash, once after a close.
            let crashed = words_of(&medium);
            drop((map, pool));
            let image = if step % 1000 == 999 { crashed } else { words_of(&medium) };
            medium = holding(image);
            pool = options().open_on(Any::clone(&medium)).unwrap();
            map = open(&pool);
            sound(&map, &model);
        }
    }
    for key in model.keys() {
        assert!(map.remove(key).unwrap());
    }
    sound(&map, &Model::new());
}

#[test]
fn maps_of_byte_strings_do_what_maps_do() {
    for (i, shape) in SHAPES.into_iter().enumerate() {
        history(shape, i as u64);
    }
}
