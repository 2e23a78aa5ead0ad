//! `Table`: which transport has an fd, by number: asyncio's `_transports`. Weak references, so a transport nobody holds is not here.
//! Attached threads only.

use pyrt::{Args, Attached, Borrowed, Instance, Kind, Owned, PyResult, confined};

use crate::event_loop::Loop;

/// The weak references, by fd number. Those of transports that are gone stay until the number is used again.
#[derive(Default)]
pub(crate) struct Table {
    by_fd: Vec<Option<Owned>>,
}

confined!(Table { by_fd });

impl Loop {
    /// The transport that has an fd.
    #[inline]
    pub(crate) fn transport(&self, py: Attached<'_>, fd: i32) -> PyResult<Option<Owned>> {
        let found = self.transports.with(py, |Table { by_fd }| {
            let slot = usize::try_from(fd).ok()?;
            by_fd.get(slot)?.as_ref().map(|transport| transport.clone_ref(py))
        })?;
        match found {
            Some(weak) => weak.upgrade(py),
            None => Ok(None),
        }
    }

    /// Says which transport has an fd, if any.
    pub(crate) fn set_transport(
        &self,
        py: Attached<'_>,
        fd: i32,
        transport: Option<Borrowed<'_>>,
    ) -> PyResult<()> {
        let weak = transport.map(|transport| Owned::weakref(py, &transport, None)).transpose()?;
        let Ok(slot) = usize::try_from(fd) else {
            return Err(Kind::ValueError.raise(py, &format!("Invalid file descriptor: {fd}")));
        };
        let before = self.transports.with(py, |Table { by_fd }| {
            if by_fd.len() <= slot && weak.is_some() {
                by_fd.resize_with(slot + 1, || None);
            }
            by_fd.get_mut(slot).and_then(|place| std::mem::replace(place, weak))
        })?;
        drop(before);
        Ok(())
    }

    /// A `RuntimeError` if a transport has the fd.
    #[inline]
    pub(crate) fn ensure_free(&self, py: Attached<'_>, this: Instance<'_, Self>, fd: i32) -> PyResult<()> {
        if self.transport(py, fd)?.is_none() {
            return Ok(());
        }
        // Unless it is closing; asyncio's own check, and so its own words.
        let fd = Owned::int(py, i64::from(fd))?;
        this.object().call_method1(py, &self.native().names.ensure_no_transport, &fd).map(drop)
    }

    pub(crate) fn transport_of(
        py: Attached<'_>,
        this: Instance<'_, Self>,
        fd: Borrowed<'_>,
    ) -> PyResult<Option<Owned>> {
        this.transport(py, fd.to_i32(py)?)
    }

    pub(crate) fn keep_transport(py: Attached<'_>, this: Instance<'_, Self>, args: Args<'_>) -> PyResult<()> {
        let [fd, transport] = args.positional() else {
            return Err(Kind::TypeError.raise(py, "_keep_transport() takes an fd and a transport"));
        };
        this.set_transport(py, fd.to_i32(py)?, Some(*transport).filter(|transport| !transport.is_none()))
    }

    pub(crate) fn all_transports(py: Attached<'_>, this: Instance<'_, Self>) -> PyResult<Owned> {
        let found = this.transports.with(py, |Table { by_fd }| {
            let kept = by_fd.iter().enumerate();
            kept.filter_map(|(fd, weak)| Some((fd, weak.as_ref()?.clone_ref(py)))).collect::<Vec<_>>()
        })?;
        let all = Owned::dict(py)?;
        for (fd, weak) in found {
            if let Some(transport) = weak.upgrade(py)? {
                all.dict_set(py, &Owned::uint(py, fd as u64)?, &transport)?;
            }
        }
        Ok(all)
    }
}
