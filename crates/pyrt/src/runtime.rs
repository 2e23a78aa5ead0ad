//! Odds and ends of the runtime: stepping generators, weak references, imports, warnings, signals, auditing. Attached threads only.

use core::ffi::CStr;

use crate::{AsObj, Attached, Kind, Obj, Owned, PyResult, Raised, Traverse, Visit, Visited, ffi};

/// What stepping a generator or coroutine came to.
#[derive(Debug)]
pub enum Step {
    /// It yielded, and waits.
    Yielded(Owned),
    /// It returned.
    Returned(Owned),
}

impl Owned {
    /// `weakref.ref(object)`, with a callback if there is one.
    pub fn weakref(py: Attached<'_>, object: &impl AsObj, callback: Option<&Obj>) -> PyResult<Self> {
        let callback = callback.map_or(core::ptr::null_mut(), Obj::as_ptr);
        // SAFETY: attached, alive; NULL stands for no callback. A new reference or NULL with an exception.
        unsafe { Self::from_ptr(py, ffi::PyWeakref_NewRef(object.as_obj().as_ptr(), callback)) }
    }
}

impl Obj {
    /// What a `weakref.ref` refers to, if it is still there.
    pub fn upgrade(&self, py: Attached<'_>) -> PyResult<Option<Owned>> {
        let mut found = core::ptr::null_mut();
        // SAFETY: attached, alive; the runtime refuses what is no weak reference. `found` receives a new reference or NULL.
        Raised::check(py, unsafe { ffi::PyWeakref_GetRef(self.as_ptr(), &mut found) })?;
        // SAFETY: as above.
        Ok(unsafe { Owned::from_ptr_or_none(py, found) })
    }

    /// Sends a value into a coroutine, generator or iterator, without an exception for its return.
    #[inline]
    pub fn send(&self, py: Attached<'_>, value: &impl AsObj) -> PyResult<Step> {
        let mut result = core::ptr::null_mut();
        // SAFETY: attached, both alive; `result` receives a new reference, or NULL with an exception.
        unsafe {
            let step = ffi::PyIter_Send(self.as_ptr(), value.as_obj().as_ptr(), &mut result);
            let result = Owned::from_ptr(py, result)?;
            Ok(match step {
                ffi::PySendResult::PYGEN_NEXT => Step::Yielded(result),
                _ => Step::Returned(result),
            })
        }
    }

    /// What `await self` steps: a coroutine itself, otherwise what its `__await__` gives. `None` if it cannot be awaited.
    #[inline]
    pub fn awaited(&self, py: Attached<'_>) -> PyResult<Option<Owned>> {
        // SAFETY: attached, alive; reads the tables of its type, which keep what they name. `am_await` gives a new reference or
        // NULL with an exception.
        unsafe {
            let slots = (*ffi::Py_TYPE(self.as_ptr())).tp_as_async;
            let Some(am_await) = slots.as_ref().and_then(|slots| slots.am_await) else { return Ok(None) };
            if ffi::PyCoro_CheckExact(self.as_ptr()) != 0 {
                return Ok(Some(self.clone_ref(py)));
            }
            Owned::from_ptr(py, am_await(self.as_ptr())).map(Some)
        }
    }

    /// `next(self)` of an iterator; `None` at its end.
    #[inline]
    pub fn next(&self, py: Attached<'_>) -> PyResult<Option<Owned>> {
        // SAFETY: attached, alive; refuses what is no iterator.
        let item = unsafe {
            if ffi::PyIter_Check(self.as_ptr()) == 0 {
                return Err(self.wrong_type(py, "an iterator"));
            }
            Owned::from_ptr_or_none(py, ffi::PyIter_Next(self.as_ptr()))
        };
        if item.is_none() {
            Raised::check_occurred(py)?;
        }
        Ok(item)
    }
}

impl Traverse for Step {
    fn traverse(&self, visit: &mut Visit<'_>) -> Visited {
        match self {
            Self::Yielded(object) | Self::Returned(object) => visit.object(object),
        }
    }
}

/// `import name`, giving the module named last.
pub fn import(py: Attached<'_>, name: &CStr) -> PyResult<Owned> {
    // SAFETY: attached; NUL-terminated. A new reference or NULL with an exception.
    unsafe { Owned::from_ptr(py, ffi::PyImport_ImportModule(name.as_ptr())) }
}

/// `from module import name`.
pub fn import_from(py: Attached<'_>, module: &CStr, name: &CStr) -> PyResult<Owned> {
    import(py, module)?.getattr_str(py, name)
}

/// `warnings.warn(text, category, stacklevel)`; an error if the filters say so.
pub fn warn(py: Attached<'_>, category: Kind, text: &CStr, level: isize) -> PyResult<()> {
    // SAFETY: attached; a warning class, or the runtime refuses it; NUL-terminated.
    Raised::check(py, unsafe { ffi::PyErr_WarnEx(category.class(py).as_ptr(), text.as_ptr(), level) })
}

/// A `ResourceWarning` about an object that was not closed.
pub fn warn_resource(py: Attached<'_>, source: &impl AsObj, text: &str) -> PyResult<()> {
    let text = Owned::str(py, text)?;
    let source = source.as_obj().as_ptr();
    // SAFETY: attached; the format takes one str.
    Raised::check(py, unsafe { ffi::PyErr_ResourceWarning(source, 1, c"%U".as_ptr(), text.as_ptr()) })
}

/// Runs pending signal handlers; an error if one raised. Does something on the main thread of the main interpreter only.
#[inline]
pub fn check_signals(py: Attached<'_>) -> PyResult<()> {
    // SAFETY: attached.
    Raised::check(py, unsafe { ffi::PyErr_CheckSignals() })
}

/// `sys.audit(event, *args)`; `args` is a tuple.
pub fn audit(py: Attached<'_>, event: &CStr, args: &impl AsObj) -> PyResult<()> {
    if !args.as_obj().is_tuple() {
        return Err(args.as_obj().wrong_type(py, "tuple"));
    }
    // SAFETY: attached; with format "O" a tuple becomes the event's arguments.
    Raised::check(py, unsafe { ffi::PySys_Audit(event.as_ptr(), c"O".as_ptr(), args.as_obj().as_ptr()) })
}

/// Whether the main interpreter is shutting down. Any thread may ask.
#[inline]
pub fn is_finalizing() -> bool {
    // SAFETY: may be called by any thread.
    unsafe { ffi::Py_IsFinalizing() != 0 }
}

/// Bounds the depth of recursion in native code: a `RecursionError` when the stack gets too deep.
pub fn recurse<R>(py: Attached<'_>, place: &CStr, f: impl FnOnce() -> PyResult<R>) -> PyResult<R> {
    struct Leave;
    impl Drop for Leave {
        fn drop(&mut self) {
            // SAFETY: attached; entered before.
            unsafe { ffi::Py_LeaveRecursiveCall() }
        }
    }
    // SAFETY: attached; NUL-terminated text for the message.
    if unsafe { ffi::Py_EnterRecursiveCall(place.as_ptr()) } != 0 {
        return Err(Raised::set(py));
    }
    let _leave = Leave;
    f()
}
