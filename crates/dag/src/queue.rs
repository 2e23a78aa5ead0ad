//! `Queue`: first in, first out, and whoever put something in can take it out again wherever it stands. A key is a
//! slot and a generation, so one that is out of date finds nothing.

use slotmap::{SlotMap, new_key_type};

new_key_type! {
    /// The place of something in a queue.
    pub(crate) struct Key;
}

struct Entry<T> {
    item: T,
    before: Option<Key>,
    after: Option<Key>,
}

pub(crate) struct Queue<T> {
    entries: SlotMap<Key, Entry<T>>,
    first: Option<Key>,
    last: Option<Key>,
}

impl<T> Default for Queue<T> {
    fn default() -> Self {
        Self { entries: SlotMap::with_key(), first: None, last: None }
    }
}

impl<T> Queue<T> {
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(crate) fn push(&mut self, item: T) -> Key {
        let before = self.last;
        let key = self.entries.insert(Entry { item, before, after: None });
        match before.and_then(|before| self.entries.get_mut(before)) {
            Some(before) => before.after = Some(key),
            None => self.first = Some(key),
        }
        self.last = Some(key);
        key
    }

    pub(crate) fn pop(&mut self) -> Option<T> {
        self.first.and_then(|first| self.remove(first))
    }

    pub(crate) fn remove(&mut self, key: Key) -> Option<T> {
        let Entry { item, before, after } = self.entries.remove(key)?;
        match before.and_then(|before| self.entries.get_mut(before)) {
            Some(entry) => entry.after = after,
            None => self.first = after,
        }
        match after.and_then(|after| self.entries.get_mut(after)) {
            Some(entry) => entry.before = before,
            None => self.last = before,
        }
        Some(item)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_queue_gives_what_a_plain_list_gives(history in prop::collection::vec((0u8..3, any::<u16>()), 0..200)) {
            let (mut queue, mut plain, mut keys) = (Queue::default(), Vec::new(), Vec::new());
            for (step, (what, which)) in history.into_iter().enumerate() {
                match what {
                    0 => { keys.push((queue.push(step), step)); plain.push(step); }
                    1 => prop_assert_eq!(queue.pop(), (!plain.is_empty()).then(|| plain.remove(0))),
                    _ if keys.is_empty() => {}
                    _ => {
                        let (key, item) = keys[usize::from(which) % keys.len()];
                        let place = plain.iter().position(|other| *other == item);
                        prop_assert_eq!(queue.remove(key), place.map(|place| plain.remove(place)));
                    }
                }
                prop_assert_eq!(queue.len(), plain.len());
            }
        }
    }
}
