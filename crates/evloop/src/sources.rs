//! Sources: the fds a loop listens to, each with a payload that says whose it is.
//!
//! The epoll data word of a registration is its key, (generation, slot). An event whose key is not known is for a
//! registration that is gone, and is dropped: a new owner of the same fd number has another key. An fd given to the
//! registry stays open until the poller has forgotten it; an fd that is only lent should be taken back before it is
//! closed, and if it is not, the next registration of that number retires the old one.
//!
//! Touched only by whoever owns the loop.

use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::Arc;

use slotmap::{Key, KeyData, SlotMap, new_key_type};

use crate::error::{Error, Result};
use crate::os::{Event, Interest, Poller};

new_key_type! {
    /// A registration's slot and generation.
    pub struct SourceKey;
}

/// The fd of a registration: kept open by it, or lent to it.
#[derive(Debug)]
pub enum Fd {
    /// The registration owns the fd and gives it back when it ends.
    Owned(OwnedFd),
    /// Somebody else owns the fd, and ends the registration before closing it.
    Lent(RawFd),
}

impl Fd {
    fn raw(&self) -> RawFd {
        match self {
            Fd::Owned(fd) => fd.as_raw_fd(),
            Fd::Lent(fd) => *fd,
        }
    }
}

#[derive(Debug)]
struct Source<S> {
    fd: Fd,
    interest: Interest,
    payload: S,
}

/// All registrations of one loop.
#[derive(Debug)]
pub(crate) struct Sources<S> {
    poller: Arc<Poller>,
    slots: SlotMap<SourceKey, Source<S>>,
    /// Which registration has an fd number, by number.
    by_fd: Vec<Option<SourceKey>>,
}

impl<S> Sources<S> {
    pub(crate) fn new(poller: Arc<Poller>) -> Self {
        Self { poller, slots: SlotMap::with_key(), by_fd: Vec::new() }
    }

    pub(crate) fn len(&self) -> usize {
        self.slots.len()
    }

    /// Registers an fd. On failure the fd comes back (and is closed if it was owned).
    pub(crate) fn insert(&mut self, fd: Fd, interest: Interest, payload: S) -> Result<SourceKey> {
        let raw = fd.raw();
        let slot = usize::try_from(raw).map_err(|_| Error::BadFd { fd: raw })?;
        let key = self.slots.insert(Source { fd, interest: Interest::NONE, payload });
        if let Err(error) = self.set_interest(key, interest) {
            self.slots.remove(key);
            return Err(error);
        }
        if self.by_fd.len() <= slot {
            self.by_fd.resize(slot + 1, None);
        }
        if let Some(entry) = self.by_fd.get_mut(slot) {
            // The kernel took the fd as new, so an earlier registration of the number is of a file that was closed
            // without a word. Its owner's token is stale from here on.
            if let Some(forgotten) = entry.replace(key) {
                self.slots.remove(forgotten);
            }
        }
        Ok(key)
    }

    pub(crate) fn set_interest(&mut self, key: SourceKey, interest: Interest) -> Result<()> {
        let source = self.slots.get_mut(key).ok_or(Error::StaleToken)?;
        let (fd, data) = (source.fd.raw(), key.data().as_ffi());
        match (source.interest, interest) {
            (before, after) if before == after => return Ok(()),
            // epoll reports errors and hang-ups of whatever is in its set, asked or not. A source with no interest is
            // therefore not in it: nobody would deal with the report, and the loop would spin on it.
            (Interest::NONE, after) => self.poller.add(fd, data, after)?,
            (_, Interest::NONE) => self.poller.delete(fd)?,
            (_, after) => self.poller.modify(fd, data, after)?,
        }
        source.interest = interest;
        Ok(())
    }

    /// The same, without relying on what the kernel was told before.
    pub(crate) fn renew_interest(&mut self, key: SourceKey, interest: Interest) -> Result<()> {
        let source = self.slots.get_mut(key).ok_or(Error::StaleToken)?;
        if source.interest != interest || interest == Interest::NONE {
            return self.set_interest(key, interest);
        }
        self.poller.modify(source.fd.raw(), key.data().as_ffi(), interest)
    }

    /// Ends a registration. By the time the fd comes back the poller has forgotten it.
    pub(crate) fn remove(&mut self, key: SourceKey) -> Result<(Fd, S)> {
        let source = self.slots.remove(key).ok_or(Error::StaleToken)?;
        let raw = source.fd.raw();
        if let Some(entry) = usize::try_from(raw).ok().and_then(|slot| self.by_fd.get_mut(slot)) {
            if *entry == Some(key) {
                *entry = None;
            }
        }
        if source.interest != Interest::NONE {
            self.poller.delete(raw)?;
        }
        Ok((source.fd, source.payload))
    }

    /// The payload an event is for.
    #[inline]
    pub(crate) fn payload(&mut self, key: SourceKey) -> Option<&mut S> {
        self.slots.get_mut(key).map(|source| &mut source.payload)
    }

    pub(crate) fn payloads(&self) -> impl Iterator<Item = &S> {
        self.slots.values().map(|source| &source.payload)
    }

    #[inline]
    pub(crate) fn contains(&self, key: SourceKey) -> bool {
        self.slots.contains_key(key)
    }

    /// Whether a fresh event is for nobody. The kernel and the registry agree outside of a turn, so the event comes from
    /// a file that lives on as a duplicate of an fd that was closed while registered.
    pub(crate) fn is_ghost(&self, event: Event) -> bool {
        !self.contains(key_of(event))
    }

    /// Starts over with an empty epoll instance: the only way to be rid of a ghost, which would end every wait at once.
    pub(crate) fn rebuild(&mut self) -> Result<()> {
        self.poller.rebuild()?;
        for (key, source) in &self.slots {
            if source.interest == Interest::NONE {
                continue;
            }
            match self.poller.add(source.fd.raw(), key.data().as_ffi(), source.interest) {
                // Closed behind our back as well: its owner finds out when it uses the token.
                Ok(())
                | Err(Error::BadFd { .. } | Error::NotPollable { .. } | Error::AlreadyRegistered { .. }) => {}
                Err(other) => return Err(other),
            }
        }
        Ok(())
    }

    /// Ends all registrations.
    pub(crate) fn take_all(&mut self) -> Vec<(Fd, S)> {
        let keys: Vec<SourceKey> = self.slots.keys().collect();
        keys.into_iter().filter_map(|key| self.remove(key).ok()).collect()
    }
}

/// The key in an event's data word.
#[inline]
pub(crate) fn key_of(event: Event) -> SourceKey {
    SourceKey::from(KeyData::from_ffi(event.key))
}

impl From<OwnedFd> for Fd {
    fn from(fd: OwnedFd) -> Self {
        Fd::Owned(fd)
    }
}

impl From<RawFd> for Fd {
    fn from(fd: RawFd) -> Self {
        Fd::Lent(fd)
    }
}
