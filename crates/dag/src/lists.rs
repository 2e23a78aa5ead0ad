//! `Lists`: many lists of nodes in one array, and the one way to look up an index that the plan has made.

/// Lists of nodes, one after the other.
#[derive(Default)]
pub(crate) struct Lists {
    ends: Vec<u32>,
    items: Vec<u32>,
}

impl Lists {
    /// Where each list ends, and all of their items.
    pub(crate) fn new(ends: Vec<u32>, items: Vec<u32>) -> Lists {
        Lists { ends, items }
    }

    /// One more list.
    pub(crate) fn push(&mut self, items: impl Iterator<Item = u32>) {
        self.items.extend(items);
        self.ends.push(self.items.len() as u32);
    }

    #[inline]
    pub(crate) fn range(&self, list: u32) -> (u32, u32) {
        let begin = if list == 0 { 0 } else { *at(&self.ends, list - 1) };
        (begin, *at(&self.ends, list))
    }

    #[inline]
    pub(crate) fn slice(&self, (begin, end): (u32, u32)) -> &[u32] {
        self.items.get(begin as usize..end as usize).unwrap_or_default()
    }

    #[inline]
    pub(crate) fn of(&self, list: u32) -> &[u32] {
        self.slice(self.range(list))
    }

    fn len(&self) -> usize {
        self.ends.len()
    }

    /// The lists of those who have each item in theirs, for `of` items.
    pub(crate) fn inverse(&self, of: usize) -> Lists {
        let mut ends = vec![0u32; of];
        for item in &self.items {
            if let Some(end) = ends.get_mut(*item as usize) {
                *end += 1;
            }
        }
        let mut sum = 0;
        for end in &mut ends {
            // The begin for now: filling the list moves it to the end.
            sum += std::mem::replace(end, sum);
        }
        let mut items = vec![0u32; self.items.len()];
        for list in 0..self.len() as u32 {
            for item in self.of(list) {
                if let Some(end) = ends.get_mut(*item as usize) {
                    if let Some(place) = items.get_mut(*end as usize) {
                        *place = list;
                    }
                    *end += 1;
                }
            }
        }
        Lists { ends, items }
    }
}

/// A list's element whose index the plan has made.
#[inline]
pub(crate) fn at<T>(list: &[T], index: u32) -> &T {
    match list.get(index as usize) {
        Some(item) => item,
        None => foreign_index(),
    }
}

/// Indices are made by `Plan::compile` and never leave the crate: this is not reached, and if it were, nothing could be
/// trusted any more.
#[cold]
fn foreign_index() -> ! {
    std::process::abort()
}
