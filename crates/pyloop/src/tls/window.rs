//! `Window`: memory that Python objects read and write through the buffer protocol, without a memoryview made per use; and
//! `Shared`: the windows that all TLS connections of a loop have in common.
//!
//! One for what comes over the wire and one for what it decrypts to: each is used up before the next connection has its turn,
//! so a thousand idle connections have no buffer at all.

use std::ffi::CStr;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use pyrt::{
    Attached, Borrowed, Class, Confined, Guarded, Instance, ObjCell, Owned, PyResult, Traverse, Type,
    TypeSlot, Typed, Visit, Visited, confined,
};

use super::aim::Aim;
use super::line::{Line, Loan};
use super::protocol::SslProtocol;
use crate::transport::PAGE;

/// What the stdlib's protocol reads at most at a time.
pub(super) const SIZE: usize = 256 * 1024;

/// The most memory for what goes out that is kept for the next one.
const SPARE: usize = 2 * SIZE;

/// What comes of holding [`Shared::wire`] while its content is worked on: no protocol has this address.
const AT_WORK: usize = 1;

/// A block of bytes that never moves, with its own start somewhere in its first page.
struct Memory {
    block: NonNull<[u8]>,
    start: usize,
}

// SAFETY: plain memory of its own; who may touch it when is up to `Window`.
unsafe impl Send for Memory {}
// SAFETY: shared, it gives nothing but its address.
unsafe impl Sync for Memory {}
// SAFETY: no references to objects.
unsafe impl Confined for Memory {}

impl Memory {
    fn new(size: usize) -> Self {
        let block = NonNull::from(Box::leak(vec![0_u8; size + PAGE].into_boxed_slice()));
        let start = block.cast::<u8>().as_ptr().align_offset(PAGE).min(PAGE);
        Self { block, start }
    }

    fn size(&self) -> usize {
        self.block.len() - PAGE
    }

    /// Where the first of its bytes is.
    #[inline]
    fn start(&self) -> *mut u8 {
        // SAFETY: within the block, which is a page longer than its size.
        unsafe { self.block.cast::<u8>().as_ptr().add(self.start) }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: leaked by `new` and freed once.
        drop(unsafe { Box::from_raw(self.block.as_ptr()) });
    }
}

/// Memory with a part of it on show.
pub(crate) struct Window {
    memory: Memory,
    start: AtomicUsize,
    size: AtomicUsize,
}

confined!(Window { memory, start, size });

impl Traverse for Window {}

impl Window {
    pub(super) fn new(size: usize) -> Self {
        Self { memory: Memory::new(size), start: AtomicUsize::new(0), size: AtomicUsize::new(size) }
    }

    pub(super) fn capacity(&self) -> usize {
        self.memory.size()
    }

    /// Who asks for the buffer from now on gets this part of it.
    #[inline]
    pub(super) fn show(&self, start: usize, size: usize) {
        let start = start.min(self.capacity());
        self.start.store(start, Relaxed);
        self.size.store(size.min(self.capacity() - start), Relaxed);
    }

    /// The part on show.
    #[inline]
    fn shown(&self) -> (*mut u8, usize) {
        // `show` keeps both within the memory, but other threads may mix up two calls of it.
        let offset = self.start.load(Relaxed).min(self.capacity());
        let size = self.size.load(Relaxed).min(self.capacity() - offset);
        // SAFETY: within the memory.
        (unsafe { self.memory.start().add(offset) }, size)
    }

    /// Where the first of its bytes is.
    #[inline]
    pub(super) fn start(&self) -> *mut u8 {
        self.memory.start()
    }

    /// Has all of it filled from its start on.
    #[inline]
    pub(crate) fn fill<R>(&self, _py: Attached<'_>, f: impl FnOnce(&mut [u8]) -> R) -> R {
        // SAFETY: the memory, initialised. As in `with`, no other call that reads or writes it is under way.
        f(unsafe { std::slice::from_raw_parts_mut(self.memory.start(), self.capacity()) })
    }

    /// Looks at the first `size` bytes.
    #[inline]
    pub(super) fn with<R>(&self, _py: Attached<'_>, size: usize, f: impl FnOnce(&[u8]) -> R) -> R {
        // SAFETY: within the memory. It is written to by calls that the loop's thread makes, and none is under way.
        f(unsafe { std::slice::from_raw_parts(self.memory.start(), size.min(self.capacity())) })
    }
}

impl Class for Window {
    const NAME: &'static CStr = c"erlang._native.Window";
    const DOC: &'static CStr = c"A buffer that is used again and again.";
    const GC: bool = false;
    const CHAINS: bool = false;
    const SLOTS: &'static [TypeSlot<Self>] = &[
        // SAFETY: the memory lives and stays put as long as the instance; Rust looks at it in `with` only, between the calls
        // that fill it.
        unsafe { TypeSlot::<Self>::buffer_mut(|_py, this| Ok(this.shown())) },
    ];
}

/// Memory for what goes out.
#[derive(Default)]
struct Spare {
    memory: Vec<u8>,
}

confined!(Spare { memory });

/// What the TLS connections of one loop share.
#[derive(Default)]
pub(crate) struct Shared {
    /// Windows, and a memoryview of the whole of the first.
    wire: ObjCell,
    wire_view: ObjCell,
    plain: ObjCell,
    aim: ObjCell,
    spare: Guarded<Spare>,
    /// The address of the protocol that has been handed `wire` and has not told how much is in it; 0 for none, [`AT_WORK`] while
    /// that is decrypted where it is.
    lent: AtomicUsize,
}

confined!(Shared { wire, wire_view, plain, aim, spare, lent });

impl Traverse for Shared {
    fn traverse(&self, visit: &mut Visit<'_>) -> Visited {
        self.wire.traverse(visit)?;
        self.wire_view.traverse(visit)?;
        self.plain.traverse(visit)?;
        self.aim.traverse(visit)
    }

    fn clear(&self, py: Attached<'_>) {
        self.wire_view.clear(py);
    }
}

/// Ends the time in which nobody else gets the wire's buffer.
pub(super) struct Working<'a> {
    shared: &'a Shared,
    // Dropped before the window is.
    _loan: Loan<'a>,
    _window: Typed<Window>,
}

impl Drop for Working<'_> {
    #[inline]
    fn drop(&mut self) {
        self.shared.lent.store(0, Relaxed);
    }
}

impl Shared {
    /// Hands the wire's buffer to a protocol, unless another one has it.
    pub(super) fn lend(
        &self,
        py: Attached<'_>,
        class: &Type<Window>,
        whom: Borrowed<'_>,
    ) -> PyResult<Option<Owned>> {
        if !self.is_free_for(whom) {
            return Ok(None);
        }
        let view = match self.wire_view.get(py) {
            Some(view) => view,
            None => {
                let window = window(py, &self.wire, class)?;
                window.show(0, SIZE);
                let view = Owned::memoryview(py, &window)?;
                self.wire_view.set(py, view.clone_ref(py));
                view
            }
        };
        self.lent.store(whom.as_ptr() as usize, Relaxed);
        Ok(Some(view))
    }

    /// [`lend`](Self::lend) for those who can do with memory instead of an object.
    #[inline]
    pub(crate) fn lend_window(
        &self,
        py: Attached<'_>,
        whom: Instance<'_, SslProtocol>,
    ) -> PyResult<Option<Typed<Window>>> {
        if !self.is_free_for(whom.object()) {
            return Ok(None);
        }
        let window = window(py, &self.wire, &whom.payload().part().window)?;
        self.lent.store(whom.object().as_ptr() as usize, Relaxed);
        Ok(Some(window))
    }

    #[inline]
    fn is_free_for(&self, whom: Borrowed<'_>) -> bool {
        let holder = self.lent.load(Relaxed);
        holder == 0 || holder == whom.as_ptr() as usize
    }

    /// Takes the wire's buffer back from a protocol. The window, if it was this one who had it.
    pub(super) fn returned(
        &self,
        py: Attached<'_>,
        class: &Type<Window>,
        whom: Borrowed<'_>,
    ) -> PyResult<Option<Typed<Window>>> {
        if !self.forgets(whom) {
            return Ok(None);
        }
        window(py, &self.wire, class).map(Some)
    }

    /// [`returned`](Self::returned) with nothing in it. Whether it was lent to this one.
    pub(super) fn forgets(&self, whom: Borrowed<'_>) -> bool {
        self.lent.compare_exchange(whom.as_ptr() as usize, 0, Relaxed, Relaxed).is_ok()
    }

    /// Lends the first bytes of the wire's buffer, which was [`returned`](Self::returned), to a line; nobody else is handed that
    /// buffer until the result is dropped.
    #[inline]
    pub(super) fn work<'a>(&'a self, window: Typed<Window>, size: usize, line: &'a Line) -> Working<'a> {
        self.lent.store(AT_WORK, Relaxed);
        // SAFETY: within the window, which is kept longer than the loan, and which is written to by none but who was handed it.
        let loan = unsafe { line.lend(window.start(), size.min(window.capacity())) };
        Working { shared: self, _loan: loan, _window: window }
    }

    /// Has what goes out collected in memory that others have used before.
    #[inline]
    pub(super) fn spare_for(&self, py: Attached<'_>, line: &Line) -> PyResult<()> {
        self.spare.with(py, |spare| line.collect_in(|| std::mem::take(&mut spare.memory)))
    }

    /// Keeps memory for the next one.
    #[inline]
    pub(super) fn give_back(&self, py: Attached<'_>, mut memory: Vec<u8>) -> PyResult<()> {
        memory.clear();
        self.spare.with(py, |spare| {
            if memory.capacity() <= SPARE && memory.capacity() > spare.memory.capacity() {
                spare.memory = memory;
            }
        })
    }

    /// A buffer that is wherever it is wanted.
    #[inline]
    pub(super) fn aim(&self, py: Attached<'_>, class: &Type<Aim>) -> PyResult<Typed<Aim>> {
        if let Some(Ok(aim)) = self.aim.get(py).map(|aim| class.downcast_owned(aim)) {
            return Ok(aim);
        }
        let aim = class.create(py, Aim::default())?;
        self.aim.set(py, aim.object().clone_ref(py));
        Ok(aim)
    }

    /// The buffer to decrypt into.
    pub(super) fn plain(&self, py: Attached<'_>, class: &Type<Window>) -> PyResult<Typed<Window>> {
        window(py, &self.plain, class)
    }
}

/// The window in a cell, made when first asked for.
#[inline]
fn window(py: Attached<'_>, cell: &ObjCell, class: &Type<Window>) -> PyResult<Typed<Window>> {
    if let Some(Ok(window)) = cell.get(py).map(|window| class.downcast_owned(window)) {
        return Ok(window);
    }
    let window = class.create(py, Window::new(SIZE))?;
    cell.set(py, window.object().clone_ref(py));
    Ok(window)
}
