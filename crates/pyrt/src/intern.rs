//! Names interned once per interpreter, and imports made once when first needed. Both live in module state.

use core::ffi::CStr;

use crate::{Attached, Confined, ObjCell, Owned, PyResult, Traverse, Visit, Visited};

/// Declares a struct of interned names, to be kept in module state.
///
/// ```
/// pyrt::interned! {
///     /// The names this module asks for.
///     pub struct Names { call_soon, fileno, exception_handler = "_exception_handler" }
/// }
/// ```
///
/// `Names::new(py)` makes them; each field is a [`Fixed`](crate::Fixed) reference to a `str`.
#[macro_export]
macro_rules! interned {
    ($(#[$meta:meta])* $vis:vis struct $name:ident { $($field:ident $(= $text:literal)?),* $(,)? }) => {
        $(#[$meta])*
        $vis struct $name {
            $(#[doc = concat!("`", stringify!($field), "`")] $vis $field: $crate::Fixed,)*
        }

        impl $name {
            /// Interns the names for the interpreter this thread is attached to.
            $vis fn new(py: $crate::Attached<'_>) -> $crate::PyResult<Self> {
                Ok(Self { $($field: $crate::Owned::interned(py, $crate::interned!(@text $field $(= $text)?))?.into(),)* })
            }
        }

        $crate::confined!($name { $($field),* });
    };
    (@text $field:ident) => { $crate::interned!(@cstr stringify!($field)) };
    (@text $field:ident = $text:literal) => { $crate::interned!(@cstr $text) };
    (@cstr $text:expr) => {
        const {
            match core::ffi::CStr::from_bytes_with_nul(concat!($text, "\0").as_bytes()) {
                Ok(text) => text,
                Err(_) => c"",
            }
        }
    };
}

/// `from module import name`, done when first asked for.
pub struct Imported {
    module: &'static CStr,
    name: &'static CStr,
    cell: ObjCell,
}

impl Imported {
    /// Not imported yet.
    pub const fn new(module: &'static CStr, name: &'static CStr) -> Self {
        Self { module, name, cell: ObjCell::empty() }
    }

    /// The object. Importing runs Python code; two threads may both do it, which the import system allows for.
    #[inline]
    pub fn get(&self, py: Attached<'_>) -> PyResult<Owned> {
        match self.cell.get(py) {
            Some(found) => Ok(found),
            None => self.import(py),
        }
    }

    #[cold]
    fn import(&self, py: Attached<'_>) -> PyResult<Owned> {
        let found = crate::import_from(py, self.module, self.name)?;
        self.cell.set(py, found.clone_ref(py));
        Ok(found)
    }
}

// SAFETY: a reference in a cell, and static text.
unsafe impl Confined for Imported {}

impl Traverse for Imported {
    fn traverse(&self, visit: &mut Visit<'_>) -> Visited {
        self.cell.traverse(visit)
    }

    fn clear(&self, py: Attached<'_>) {
        self.cell.clear(py);
    }
}
