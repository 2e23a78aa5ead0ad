//! `Fault`: what can go wrong in Rust, and the one table that says which Python exception it becomes.
//!
//! A fault is plain data and may be made on any thread; raising it needs an attached one.
//!
//! | fault                       | exception            |
//! |-----------------------------|----------------------|
//! | `Type`                      | `TypeError`          |
//! | `Value`, text not UTF-8, NUL | `ValueError`        |
//! | `Runtime`, `Busy`, `Gone`   | `RuntimeError`       |
//! | `Overflow`, integer too big | `OverflowError`      |
//! | `Buffer`                    | `BufferError`        |
//! | `Memory`                    | `MemoryError`        |
//! | `NotImplemented`            | `NotImplementedError`|
//! | `Os(errno)`                 | the `OSError` subclass of that errno (`FileNotFoundError`, `BlockingIOError` …) |
//! | `io::Error` without errno   | by kind: `EOFError`, `TimeoutError`, `ConnectionError` … else `OSError` |
//! | `System`, `Panic`           | `SystemError`        |

use core::fmt::Display;
use std::borrow::Cow;
use std::io;

use crate::{AsObj, Attached, Borrowed, Kind, Obj, Owned, PyResult, Raised, ffi};

type Text = Cow<'static, str>;

/// An error on the Rust side, on its way to becoming a Python exception.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    /// A value of the wrong type.
    #[error("{0}")]
    Type(Text),
    /// A value of the right type that cannot be used.
    #[error("{0}")]
    Value(Text),
    /// Something that does not fit the state of the object.
    #[error("{0}")]
    Runtime(Text),
    /// A number out of range.
    #[error("{0}")]
    Overflow(Text),
    /// A buffer that cannot be had, or cannot be changed now.
    #[error("{0}")]
    Buffer(Text),
    /// No memory.
    #[error("out of memory")]
    Memory,
    /// Not supported here.
    #[error("{0}")]
    NotImplemented(Text),
    /// An error of the operating system, by number.
    #[error("{}", io::Error::from_raw_os_error(*.0))]
    Os(i32),
    /// An error of the standard library's I/O that has no number.
    #[error("{1}")]
    Io(io::ErrorKind, Text),
    /// A value that is in use further up the stack of this thread.
    #[error("{0} is in use by a caller of this call")]
    Busy(Text),
    /// An inconsistency of our own.
    #[error("{0}")]
    System(Text),
    /// A panic that was contained.
    #[error("panic in native code: {0}")]
    Panic(Text),
}

impl Fault {
    /// A `TypeError`.
    pub fn type_error(text: impl Into<Text>) -> Self {
        Self::Type(text.into())
    }

    /// A `ValueError`.
    pub fn value_error(text: impl Into<Text>) -> Self {
        Self::Value(text.into())
    }

    /// A `RuntimeError`.
    pub fn runtime(text: impl Into<Text>) -> Self {
        Self::Runtime(text.into())
    }

    /// A `SystemError`.
    pub fn system(text: impl Into<Text>) -> Self {
        Self::System(text.into())
    }

    /// The table: which exception this fault becomes. For `Os` the runtime refines it by errno.
    pub fn kind(&self) -> Kind {
        match self {
            Self::Type(_) => Kind::TypeError,
            Self::Value(_) => Kind::ValueError,
            Self::Runtime(_) | Self::Busy(_) => Kind::RuntimeError,
            Self::Overflow(_) => Kind::OverflowError,
            Self::Buffer(_) => Kind::BufferError,
            Self::Memory => Kind::MemoryError,
            Self::NotImplemented(_) => Kind::NotImplementedError,
            Self::Os(_) => Kind::OSError,
            Self::Io(kind, _) => match kind {
                io::ErrorKind::UnexpectedEof => Kind::EOFError,
                io::ErrorKind::TimedOut => Kind::TimeoutError,
                io::ErrorKind::WouldBlock => Kind::BlockingIOError,
                io::ErrorKind::Interrupted => Kind::InterruptedError,
                io::ErrorKind::BrokenPipe | io::ErrorKind::WriteZero => Kind::BrokenPipeError,
                io::ErrorKind::ConnectionReset => Kind::ConnectionResetError,
                io::ErrorKind::ConnectionAborted => Kind::ConnectionAbortedError,
                io::ErrorKind::ConnectionRefused => Kind::ConnectionRefusedError,
                io::ErrorKind::NotConnected => Kind::ConnectionError,
                io::ErrorKind::NotFound => Kind::FileNotFoundError,
                io::ErrorKind::AlreadyExists => Kind::FileExistsError,
                io::ErrorKind::PermissionDenied => Kind::PermissionError,
                io::ErrorKind::InvalidInput | io::ErrorKind::InvalidData => Kind::ValueError,
                io::ErrorKind::OutOfMemory => Kind::MemoryError,
                _ => Kind::OSError,
            },
            Self::System(_) | Self::Panic(_) => Kind::SystemError,
        }
    }

    /// Sets the exception.
    #[cold]
    pub fn raise(self, py: Attached<'_>) -> Raised {
        match self {
            Self::Memory => {
                // SAFETY: attached.
                unsafe { ffi::PyErr_NoMemory() };
                Raised::set(py)
            }
            Self::Os(errno) => raise_errno(py, errno, None),
            other => other.kind().raise(py, &other),
        }
    }
}

/// Sets the `OSError` of an errno: the right subclass, with `errno`, `strerror` and, if given, `filename`.
#[cold]
pub fn raise_errno(py: Attached<'_>, errno: i32, filename: Option<&Obj>) -> Raised {
    let filename = filename.map_or(core::ptr::null_mut(), Obj::as_ptr);
    // SAFETY: attached; the runtime reads the thread's errno, set just before, and takes NULL for "no file name".
    unsafe {
        *libc::__errno_location() = errno;
        ffi::PyErr_SetFromErrnoWithFilenameObject(Kind::OSError.class(py).as_ptr(), filename);
    }
    Raised::set(py)
}

/// Sets an instance of `class` made by calling it with `args`.
#[cold]
pub fn raise_class<const N: usize>(py: Attached<'_>, class: &impl AsObj, args: [Borrowed<'_>; N]) -> Raised {
    match crate::Exception::new(py, class, args) {
        Ok(exception) => exception.raise(py),
        Err(raised) => raised,
    }
}

impl Kind {
    /// Sets an exception of this class with a text.
    #[cold]
    pub fn raise(self, py: Attached<'_>, text: &(impl Display + ?Sized)) -> Raised {
        let made: PyResult<Owned> = Owned::str(py, &text.to_string());
        match made {
            Ok(text) => {
                // SAFETY: attached, both alive.
                unsafe { ffi::PyErr_SetObject(self.class(py).as_ptr(), text.as_ptr()) };
                Raised::set(py)
            }
            Err(raised) => raised,
        }
    }
}

impl From<io::Error> for Fault {
    fn from(error: io::Error) -> Self {
        match error.raw_os_error() {
            Some(errno) => Self::Os(errno),
            None => Self::Io(error.kind(), error.to_string().into()),
        }
    }
}

impl From<core::num::TryFromIntError> for Fault {
    fn from(error: core::num::TryFromIntError) -> Self {
        Self::Overflow(error.to_string().into())
    }
}

impl From<core::str::Utf8Error> for Fault {
    fn from(error: core::str::Utf8Error) -> Self {
        Self::Value(error.to_string().into())
    }
}

impl From<std::ffi::NulError> for Fault {
    fn from(_: std::ffi::NulError) -> Self {
        Self::Value("embedded null byte".into())
    }
}

impl From<std::collections::TryReserveError> for Fault {
    fn from(_: std::collections::TryReserveError) -> Self {
        Self::Memory
    }
}

impl From<crate::Gone> for Fault {
    fn from(gone: crate::Gone) -> Self {
        Self::Runtime(gone.to_string().into())
    }
}

/// `?` from a Rust error to a Python exception: `file.read(&mut buffer).or_raise(py)?`.
pub trait OrRaise<T> {
    /// Raises the error, if it is one.
    fn or_raise(self, py: Attached<'_>) -> PyResult<T>;
}

impl<T, E: Into<Fault>> OrRaise<T> for Result<T, E> {
    #[inline]
    fn or_raise(self, py: Attached<'_>) -> PyResult<T> {
        self.map_err(|error| error.into().raise(py))
    }
}
