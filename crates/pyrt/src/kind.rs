//! `Kind`: the built-in exception classes by name.
//!
//! Those classes are static in the runtime and shared by all interpreters, so naming them needs no module state. A kind is plain
//! data; asking for its class needs an attached thread.

use crate::{Attached, Borrowed, ffi};

macro_rules! kinds {
    ($($name:ident => $symbol:ident),* $(,)?) => {
        /// A built-in exception class.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum Kind {
            $(#[doc = concat!("`", stringify!($name), "`.")] $name,)*
        }

        impl Kind {
            /// The class object.
            #[inline]
            pub fn class<'py>(self, py: Attached<'py>) -> Borrowed<'py> {
                // SAFETY: the statics are set before any code of ours runs, and their classes live as long as the runtime.
                unsafe {
                    Borrowed::from_ptr_unchecked(py, match self { $(Self::$name => ffi::$symbol,)* })
                }
            }

            /// Its name in Python.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$name => stringify!($name),)* }
            }
        }
    };
}

kinds! {
    BaseException => PyExc_BaseException,
    Exception => PyExc_Exception,
    ArithmeticError => PyExc_ArithmeticError,
    AssertionError => PyExc_AssertionError,
    AttributeError => PyExc_AttributeError,
    BlockingIOError => PyExc_BlockingIOError,
    BrokenPipeError => PyExc_BrokenPipeError,
    BufferError => PyExc_BufferError,
    ConnectionAbortedError => PyExc_ConnectionAbortedError,
    ConnectionError => PyExc_ConnectionError,
    ConnectionRefusedError => PyExc_ConnectionRefusedError,
    ConnectionResetError => PyExc_ConnectionResetError,
    DeprecationWarning => PyExc_DeprecationWarning,
    EOFError => PyExc_EOFError,
    FileExistsError => PyExc_FileExistsError,
    FileNotFoundError => PyExc_FileNotFoundError,
    GeneratorExit => PyExc_GeneratorExit,
    ImportError => PyExc_ImportError,
    IndexError => PyExc_IndexError,
    InterruptedError => PyExc_InterruptedError,
    KeyError => PyExc_KeyError,
    KeyboardInterrupt => PyExc_KeyboardInterrupt,
    LookupError => PyExc_LookupError,
    MemoryError => PyExc_MemoryError,
    NotImplementedError => PyExc_NotImplementedError,
    OSError => PyExc_OSError,
    OverflowError => PyExc_OverflowError,
    PermissionError => PyExc_PermissionError,
    ProcessLookupError => PyExc_ProcessLookupError,
    RecursionError => PyExc_RecursionError,
    ResourceWarning => PyExc_ResourceWarning,
    RuntimeError => PyExc_RuntimeError,
    RuntimeWarning => PyExc_RuntimeWarning,
    StopAsyncIteration => PyExc_StopAsyncIteration,
    StopIteration => PyExc_StopIteration,
    SystemError => PyExc_SystemError,
    SystemExit => PyExc_SystemExit,
    TimeoutError => PyExc_TimeoutError,
    TypeError => PyExc_TypeError,
    UnicodeDecodeError => PyExc_UnicodeDecodeError,
    UnicodeEncodeError => PyExc_UnicodeEncodeError,
    ValueError => PyExc_ValueError,
}
