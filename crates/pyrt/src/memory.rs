//! Memory per interpreter: what one with a GIL of its own has, and a limit to it. Any thread.
//!
//! Such an interpreter has an object allocator of its own, which takes arenas from one function of the process, and larger blocks from
//! another, as all interpreters do. Both are replaced, once, by functions that pass on to those there were, and charge what the current
//! thread is attached to, if that has a limit. Nothing is written beside a block: what is given back is measured again, and credited
//! to whoever gives it back, which is whoever had it, for objects do not leave their interpreter.
//!
//! What exceeds the limit is refused, which Python turns into a `MemoryError`. Small blocks may exceed it by [`RESERVE`], so that there
//! is room to deal with that.

#![cfg_attr(
    not(all(Py_3_12, not(Py_GIL_DISABLED))),
    allow(dead_code, reason = "there is one allocator for all interpreters")
)]

use core::ptr;
use core::sync::atomic::{AtomicIsize, AtomicPtr, AtomicUsize, Ordering};

use crate::{Interpreter, ffi, thread};

/// By how much small blocks may exceed a limit.
const RESERVE: isize = 2 << 20;
/// What counts as small.
const SMALL: usize = 32 << 10;
/// So many interpreters may have a limit at once.
const MOST: usize = 1024;

/// One interpreter's account; nobody's if there is none.
struct Account {
    interpreter: AtomicPtr<ffi::PyInterpreterState>,
    used: AtomicIsize,
    limit: AtomicIsize,
}

static ACCOUNTS: [Account; MOST] = [const {
    Account {
        interpreter: AtomicPtr::new(ptr::null_mut()),
        used: AtomicIsize::new(0),
        limit: AtomicIsize::new(isize::MAX),
    }
}; MOST];
/// How many of them were ever used: the others need not be looked at.
static HIGHEST: AtomicUsize = AtomicUsize::new(0);

/// No block is larger than `isize::MAX`.
fn bytes(size: usize) -> isize {
    isize::try_from(size).unwrap_or(isize::MAX)
}

impl Account {
    fn open(interpreter: *mut ffi::PyInterpreterState, limit: isize) -> bool {
        for (place, account) in ACCOUNTS.iter().enumerate() {
            // Taken before anybody looks for it: its own threads run no Python yet.
            let taken = account.interpreter.compare_exchange(
                ptr::null_mut(),
                interpreter,
                Ordering::AcqRel,
                Ordering::Relaxed,
            );
            if taken.is_ok() {
                account.used.store(0, Ordering::Relaxed);
                account.limit.store(limit, Ordering::Relaxed);
                HIGHEST.fetch_max(place + 1, Ordering::AcqRel);
                return true;
            }
        }
        false
    }

    fn find(interpreter: *mut ffi::PyInterpreterState) -> Option<&'static Self> {
        let used = ACCOUNTS.get(..HIGHEST.load(Ordering::Acquire))?;
        used.iter().find(|account| account.interpreter.load(Ordering::Acquire) == interpreter)
    }

    /// That of the interpreter this thread is attached to.
    #[inline]
    fn current() -> Option<&'static Self> {
        if HIGHEST.load(Ordering::Relaxed) == 0 {
            return None;
        }
        let interpreter = thread::current_interpreter();
        if interpreter.is_null() { None } else { Self::find(interpreter) }
    }

    /// Whether there is room for so much more.
    fn admits(&self, size: usize) -> bool {
        let reserve = if size <= SMALL { RESERVE } else { 0 };
        let size = bytes(size);
        let limit = self.limit.load(Ordering::Relaxed).saturating_add(reserve);
        self.used.load(Ordering::Relaxed).saturating_add(size) <= limit
    }

    fn charge(&self, size: usize) {
        self.used.fetch_add(bytes(size), Ordering::Relaxed);
    }

    fn credit(&self, size: usize) {
        self.used.fetch_sub(bytes(size), Ordering::Relaxed);
    }
}

impl Interpreter {
    /// Limits what this interpreter has from now on to so many bytes. False if that cannot be done: it is the main one, which all
    /// share, or Python has no allocator per interpreter.
    pub fn limit_memory(&self, limit: usize) -> bool {
        hooks::ARE_THERE && self.id() != 0 && Account::open(self.0.raw(), bytes(limit))
    }

    /// The limit, if there is one.
    pub fn memory_limit(&self) -> Option<isize> {
        Account::find(self.0.raw()).map(|account| account.limit.load(Ordering::Relaxed))
    }

    /// How many bytes it has more than when it got its limit.
    pub fn memory(&self) -> Option<isize> {
        Account::find(self.0.raw()).map(|account| account.used.load(Ordering::Relaxed))
    }

    /// It ends: what that takes is not limited, and another one may come to lie where it does.
    pub(crate) fn forget_memory(&self) {
        if let Some(account) = Account::find(self.0.raw()) {
            account.interpreter.store(ptr::null_mut(), Ordering::Release);
        }
    }
}

pub(crate) use hooks::install;

#[cfg(all(Py_3_12, not(Py_GIL_DISABLED)))]
mod hooks {
    use core::cell::UnsafeCell;
    use core::ffi::c_void;
    use core::mem::MaybeUninit;
    use core::ptr;

    use super::{Account, ffi};

    pub(super) const ARE_THERE: bool = true;

    /// The functions there were.
    struct Before<T>(UnsafeCell<MaybeUninit<T>>);

    // SAFETY: written once, by `install`, before Python is started, and only read by the functions that are called after that.
    unsafe impl<T> Sync for Before<T> {}

    impl<T> Before<T> {
        const fn new() -> Self {
            Self(UnsafeCell::new(MaybeUninit::zeroed()))
        }

        /// # Safety
        /// After `install`.
        unsafe fn get(&self) -> &T {
            // SAFETY: by contract it was written, and nobody writes any more.
            unsafe { (*self.0.get()).assume_init_ref() }
        }
    }

    static RAW: Before<ffi::PyMemAllocatorEx> = Before::new();
    static ARENAS: Before<ffi::PyObjectArenaAllocator> = Before::new();

    /// Replaces the functions.
    ///
    /// # Safety
    /// Once, before Python is started.
    pub(crate) unsafe fn install() {
        // SAFETY: by contract nobody else uses the allocators or what is kept of them; ours do all that those before them do.
        unsafe {
            ffi::PyMem_GetAllocator(ffi::PyMemAllocatorDomain::PYMEM_DOMAIN_RAW, (*RAW.0.get()).as_mut_ptr());
            ffi::PyObject_GetArenaAllocator((*ARENAS.0.get()).as_mut_ptr());
            let mut raw = ffi::PyMemAllocatorEx {
                ctx: ptr::null_mut(),
                malloc: Some(malloc),
                calloc: Some(calloc),
                realloc: Some(realloc),
                free: Some(free),
            };
            ffi::PyMem_SetAllocator(ffi::PyMemAllocatorDomain::PYMEM_DOMAIN_RAW, &mut raw);
            let mut arenas = ffi::PyObjectArenaAllocator {
                ctx: ptr::null_mut(),
                alloc: Some(new_arena),
                free: Some(free_arena),
            };
            ffi::PyObject_SetArenaAllocator(&mut arenas);
        }
    }

    /// How large a block is, which is at least what was asked for.
    fn size_of(block: *mut c_void) -> usize {
        // SAFETY: a block of the allocator that there was, which is malloc's, or NULL.
        unsafe { libc::malloc_usable_size(block) }
    }

    /// Makes a block of `size` bytes, if there is room for it.
    fn charged(size: usize, make: impl FnOnce() -> *mut c_void) -> *mut c_void {
        let Some(account) = Account::current() else { return make() };
        if !account.admits(size) {
            return ptr::null_mut();
        }
        let block = make();
        account.charge(size_of(block));
        block
    }

    extern "C" fn malloc(_: *mut c_void, size: usize) -> *mut c_void {
        // SAFETY: installed; the arguments are the caller's.
        charged(size, || unsafe {
            let before = RAW.get();
            before.malloc.map_or(ptr::null_mut(), |malloc| malloc(before.ctx, size))
        })
    }

    extern "C" fn calloc(_: *mut c_void, count: usize, size: usize) -> *mut c_void {
        // SAFETY: as above.
        charged(count.saturating_mul(size), || unsafe {
            let before = RAW.get();
            before.calloc.map_or(ptr::null_mut(), |calloc| calloc(before.ctx, count, size))
        })
    }

    extern "C" fn realloc(_: *mut c_void, block: *mut c_void, size: usize) -> *mut c_void {
        let account = Account::current();
        let had = account.map_or(0, |_| size_of(block));
        if account.is_some_and(|account| size > had && !account.admits(size - had)) {
            return ptr::null_mut();
        }
        // SAFETY: as above.
        let moved = unsafe {
            let before = RAW.get();
            before.realloc.map_or(ptr::null_mut(), |realloc| realloc(before.ctx, block, size))
        };
        if let Some(account) = account.filter(|_| !moved.is_null()) {
            account.credit(had);
            account.charge(size_of(moved));
        }
        moved
    }

    extern "C" fn free(_: *mut c_void, block: *mut c_void) {
        if let Some(account) = Account::current() {
            account.credit(size_of(block));
        }
        // SAFETY: as above.
        unsafe {
            let before = RAW.get();
            if let Some(free) = before.free {
                free(before.ctx, block);
            }
        }
    }

    extern "C" fn new_arena(_: *mut c_void, size: usize) -> *mut c_void {
        let account = Account::current();
        if account.is_some_and(|account| !account.admits(size)) {
            return ptr::null_mut();
        }
        // SAFETY: as above.
        let arena = unsafe {
            let before = ARENAS.get();
            before.alloc.map_or(ptr::null_mut(), |alloc| alloc(before.ctx, size))
        };
        if let Some(account) = account.filter(|_| !arena.is_null()) {
            account.charge(size);
        }
        arena
    }

    extern "C" fn free_arena(_: *mut c_void, arena: *mut c_void, size: usize) {
        if let Some(account) = Account::current() {
            account.credit(size);
        }
        // SAFETY: as above.
        unsafe {
            let before = ARENAS.get();
            if let Some(free) = before.free {
                free(before.ctx, arena, size);
            }
        }
    }
}

/// Up to Python 3.11 all interpreters have one allocator, and so have those without a GIL.
#[cfg(not(all(Py_3_12, not(Py_GIL_DISABLED))))]
mod hooks {
    pub(super) const ARE_THERE: bool = false;

    /// # Safety
    /// None.
    pub(crate) unsafe fn install() {}
}
