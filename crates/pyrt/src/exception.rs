//! `Exception`: an exception as a value, normalised, out of the error indicator. Attached threads only.

use crate::{AsObj, Attached, Borrowed, Owned, PyResult, Raised, ffi};

/// An exception instance with its traceback.
#[derive(Debug)]
pub struct Exception(Owned);

impl Exception {
    /// Takes what is in the error indicator; a `SystemError` if it is empty.
    #[cfg(Py_3_12)]
    pub(crate) fn fetch(py: Attached<'_>) -> Self {
        // SAFETY: attached; a new reference or NULL.
        match unsafe { Owned::from_ptr_or_none(py, ffi::PyErr_GetRaisedException()) } {
            Some(value) => Self(value),
            None => Self::nothing_set(py),
        }
    }

    /// Takes what is in the error indicator; a `SystemError` if it is empty.
    #[cfg(not(Py_3_12))]
    pub(crate) fn fetch(py: Attached<'_>) -> Self {
        let (mut class, mut value, mut traceback) =
            (core::ptr::null_mut(), core::ptr::null_mut(), core::ptr::null_mut());
        // SAFETY: attached; the three receive new references or NULL, and normalising replaces them in place.
        let (value, traceback) = unsafe {
            ffi::PyErr_Fetch(&mut class, &mut value, &mut traceback);
            if !class.is_null() {
                ffi::PyErr_NormalizeException(&mut class, &mut value, &mut traceback);
            }
            drop(Owned::from_ptr_or_none(py, class));
            (Owned::from_ptr_or_none(py, value), Owned::from_ptr_or_none(py, traceback))
        };
        let Some(value) = value else { return Self::nothing_set(py) };
        if let Some(traceback) = traceback {
            // SAFETY: attached; a normalised exception and its traceback.
            unsafe { ffi::PyException_SetTraceback(value.as_ptr(), traceback.as_ptr()) };
        }
        Self(value)
    }

    #[cold]
    fn nothing_set(py: Attached<'_>) -> Self {
        // The runtime itself answers a NULL without exception with a SystemError.
        Self::fetch_after(py, crate::Fault::system("error return without exception set").raise(py))
    }

    fn fetch_after(py: Attached<'_>, _raised: Raised) -> Self {
        Self::fetch(py)
    }

    /// Wraps an object, if it is an exception instance.
    pub fn from_object(object: Owned) -> Result<Self, Owned> {
        // SAFETY: alive; a test of type flags.
        if unsafe { ffi::PyExceptionInstance_Check(object.as_ptr()) } != 0 {
            Ok(Self(object))
        } else {
            Err(object)
        }
    }

    /// The exception instance.
    #[inline]
    pub fn value(&self) -> Borrowed<'_> {
        self.0.borrow()
    }

    /// The exception instance, for good.
    #[inline]
    pub fn into_value(self) -> Owned {
        self.0
    }

    /// Another reference to the same exception.
    pub fn clone_ref(&self, py: Attached<'_>) -> Self {
        Self(self.0.clone_ref(py))
    }

    /// Puts it into the error indicator.
    #[cfg(Py_3_12)]
    pub fn raise(self, py: Attached<'_>) -> Raised {
        // SAFETY: attached; the reference is given away.
        unsafe { ffi::PyErr_SetRaisedException(self.0.into_ptr()) };
        Raised::set(py)
    }

    /// Puts it into the error indicator.
    #[cfg(not(Py_3_12))]
    pub fn raise(self, py: Attached<'_>) -> Raised {
        // SAFETY: attached; class, value and traceback are strong references given away.
        unsafe {
            let class = self.0.class(py).clone_ref(py).into_ptr();
            let traceback = ffi::PyException_GetTraceback(self.0.as_ptr());
            ffi::PyErr_Restore(class, self.0.into_ptr(), traceback);
        }
        Raised::set(py)
    }

    /// Whether it is an instance of `class`, which may be a tuple of classes.
    pub fn matches(&self, _py: Attached<'_>, class: &impl AsObj) -> bool {
        // SAFETY: attached, both alive.
        unsafe { ffi::PyErr_GivenExceptionMatches(self.0.as_ptr(), class.as_obj().as_ptr()) != 0 }
    }

    /// Sets `__cause__`, as `raise … from cause` does.
    pub fn set_cause(&self, _py: Attached<'_>, cause: Exception) {
        // SAFETY: attached; the reference to the cause is given away.
        unsafe { ffi::PyException_SetCause(self.0.as_ptr(), cause.0.into_ptr()) }
    }

    /// Sets `__context__`, as raising while handling another exception does.
    pub fn set_context(&self, _py: Attached<'_>, context: Exception) {
        // SAFETY: attached; the reference to the context is given away.
        unsafe { ffi::PyException_SetContext(self.0.as_ptr(), context.0.into_ptr()) }
    }

    /// Its `__traceback__`.
    pub fn traceback(&self, py: Attached<'_>) -> Option<Owned> {
        // SAFETY: attached, an exception; a new reference or NULL.
        let traceback =
            unsafe { Owned::from_ptr_or_none(py, ffi::PyException_GetTraceback(self.0.as_ptr())) };
        // 3.11 keeps the None it was cleared with.
        traceback.filter(|traceback| !traceback.is_none())
    }

    /// Drops `__traceback__`, and with it the frames it keeps alive.
    pub fn clear_traceback(&self, py: Attached<'_>) {
        // SAFETY: attached, an exception; `None` is what the attribute takes for "no traceback".
        unsafe { ffi::PyException_SetTraceback(self.0.as_ptr(), Borrowed::none(py).as_ptr()) };
    }

    /// `TypeName: text`, for logs. Lone surrogates are replaced.
    pub fn describe(&self, py: Attached<'_>) -> String {
        let text: PyResult<String> = self.0.str(py).and_then(|text| text.to_string_lossy(py));
        let text = text.unwrap_or_else(|raised| {
            raised.clear(py);
            String::from("<no text>")
        });
        format!("{}: {text}", self.0.class_name(py))
    }

    /// An instance of `class` made by calling it with `args`, not raised yet.
    pub fn new<const N: usize>(
        py: Attached<'_>,
        class: &impl AsObj,
        args: [Borrowed<'_>; N],
    ) -> PyResult<Self> {
        Self::from_object(class.as_obj().call(py, args)?)
            .map_err(|_| crate::Fault::type_error("exceptions must derive from BaseException").raise(py))
    }
}

/// Raises `StopIteration(value)`, the way an iterator returns a value.
pub fn stop_iteration(py: Attached<'_>, value: &impl AsObj) -> Raised {
    let class = crate::Kind::StopIteration.class(py);
    match Exception::new(py, &class, [value.as_obj().borrow()]) {
        Ok(exception) => exception.raise(py),
        Err(raised) => raised,
    }
}
