//! The store as a subject of measurements.

use crate::entry::{Bytes, Entry, KeyBuffer, Text};
use crate::nv_store::{NvMap, Options};
use crate::ordered_map::OrderedMap;
use bristlecone::medium::Dram;

#[test]
fn it_does_what_is_measured() {
    let map = NvMap::open(Dram::zeroed(1 << 22), Options::default()).unwrap();
    let bytes = Bytes { text: Text::User, value: 100 };
    let (mut key, mut value) = (KeyBuffer::default(), Vec::new());
    for i in 0..1000 {
        map.insert(bytes.key(i << 40, &mut key), bytes.value(i, &mut value));
    }
    for i in 0..1000 {
        let key = bytes.key(i << 40, &mut key);
        assert_eq!(map.get(key), Some(i));
        map.update(key, bytes.value(i + 1, &mut value));
        assert_eq!(map.get(key), Some(i + 1));
        assert_eq!(map.scan100(key), 100.min(1000 - i));
    }
    map.insert_durably(&[(Bytes::least(), bytes.value(7, &mut value))]);
    assert_eq!(map.get(Bytes::least()), Some(7));
    map.remove(Bytes::least());
    assert_eq!(map.get(Bytes::least()), None);
    assert!(map.rebuilds().unwrap().0 < 10 && NvMap::<Dram>::NAME == "nv_store");
    Box::new(map).close().unwrap();
}
