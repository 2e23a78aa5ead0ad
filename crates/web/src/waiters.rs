//! `Waiters`: the futures of those who wait for news of an exchange. The loop's thread only.

use pyrt::{Attached, Guarded, Owned, PyResult, Traverse, Visit, Visited, confined};

use crate::site::Site;

#[derive(Default)]
pub(crate) struct Waiters {
    futures: Guarded<Vec<Owned>>,
}

confined!(Waiters { futures });

impl Traverse for Waiters {
    fn traverse(&self, visit: &mut Visit<'_>) -> Visited {
        self.futures.traverse(visit)
    }

    fn clear(&self, py: Attached<'_>) {
        self.futures.clear(py);
    }
}

impl Waiters {
    /// A future that the next news complete.
    pub(crate) fn join(&self, py: Attached<'_>, site: &Site) -> PyResult<Owned> {
        let future = site.owner.call_method0(py, &site.web.names.create_future)?;
        self.futures.with(py, |futures| futures.push(future.clone_ref(py)))?;
        Ok(future)
    }

    /// There is news.
    pub(crate) fn wake(&self, py: Attached<'_>, site: &Site) -> PyResult<()> {
        let names = &site.web.names;
        for future in self.futures.with(py, std::mem::take)? {
            if !future.call_method0(py, &names.done)?.is_true(py)? {
                future.call_method1(py, &names.set_result, &Owned::none(py))?;
            }
        }
        Ok(())
    }
}
