//! `Files`: by which objects, where not by number, callbacks were registered. A socket that was closed has no number any
//! more; it is still known by its object, as the stdlib's selectors know it. Part of the loop's state.

use evloop::Interest;
use pyrt::{Borrowed, Owned, Traverse, Visit, Visited, confined};

/// Two places an fd, one a direction.
#[derive(Default)]
pub(crate) struct Files {
    places: Vec<Option<Owned>>,
}

confined!(Files { places });

impl Traverse for Files {
    fn traverse(&self, visit: &mut Visit<'_>) -> Visited {
        self.places.traverse(visit)
    }
}

impl Files {
    /// Keeps the object, or none. The one before comes back, to be dropped where Python code may run.
    #[inline]
    pub(crate) fn set(&mut self, fd: i32, direction: Interest, file: Option<Owned>) -> Option<Owned> {
        let place = usize::try_from(fd).ok()? * 2 + usize::from(direction == Interest::WRITE);
        if place >= self.places.len() {
            file.as_ref()?;
            self.places.resize_with(place + 1, || None);
        }
        std::mem::replace(self.places.get_mut(place)?, file)
    }

    /// The fd that was registered by this very object.
    #[cold]
    pub(crate) fn find(&self, file: Borrowed<'_>) -> Option<i32> {
        let known = |kept: &Option<Owned>| kept.as_ref().is_some_and(|kept| kept.is(&file));
        let place = self.places.iter().position(known)?;
        i32::try_from(place / 2).ok()
    }
}
