//! The table from Rust errors to Python exceptions, row by row; exceptions as values; panics.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "helpers of tests count as tests"
)]

mod common;

use std::io;

use common::{attached, eval, raised, run};
use pyrt::*;

#[test]
fn each_fault_becomes_its_exception() {
    let io = |kind| Fault::from(io::Error::new(kind, "text"));
    let rows: Vec<(Fault, &str)> = vec![
        (Fault::type_error("text"), "TypeError: text"),
        (Fault::value_error("text"), "ValueError: text"),
        (Fault::runtime("text"), "RuntimeError: text"),
        (Fault::Overflow("text".into()), "OverflowError: text"),
        (Fault::Buffer("text".into()), "BufferError: text"),
        (Fault::Memory, "MemoryError: "),
        (Fault::NotImplemented("text".into()), "NotImplementedError: text"),
        (Fault::Busy("T".into()), "RuntimeError: T is in use by a caller of this call"),
        (Fault::system("text"), "SystemError: text"),
        (Fault::Panic("text".into()), "SystemError: panic in native code: text"),
        (Fault::Os(libc_enoent()), "FileNotFoundError: [Errno 2] No such file or directory"),
        (Fault::Os(11), "BlockingIOError: [Errno 11] Resource temporarily unavailable"),
        (Fault::Os(104), "ConnectionResetError: [Errno 104] Connection reset by peer"),
        (Fault::Os(22), "OSError: [Errno 22] Invalid argument"),
        (io::Error::from_raw_os_error(32).into(), "BrokenPipeError: [Errno 32] Broken pipe"),
        (io(io::ErrorKind::UnexpectedEof), "EOFError: text"),
        (io(io::ErrorKind::TimedOut), "TimeoutError: text"),
        (io(io::ErrorKind::WouldBlock), "BlockingIOError: text"),
        (io(io::ErrorKind::Interrupted), "InterruptedError: text"),
        (io(io::ErrorKind::BrokenPipe), "BrokenPipeError: text"),
        (io(io::ErrorKind::WriteZero), "BrokenPipeError: text"),
        (io(io::ErrorKind::ConnectionReset), "ConnectionResetError: text"),
        (io(io::ErrorKind::ConnectionAborted), "ConnectionAbortedError: text"),
        (io(io::ErrorKind::ConnectionRefused), "ConnectionRefusedError: text"),
        (io(io::ErrorKind::NotConnected), "ConnectionError: text"),
        (io(io::ErrorKind::NotFound), "FileNotFoundError: text"),
        (io(io::ErrorKind::AlreadyExists), "FileExistsError: text"),
        (io(io::ErrorKind::PermissionDenied), "PermissionError: text"),
        (io(io::ErrorKind::InvalidInput), "ValueError: text"),
        (io(io::ErrorKind::InvalidData), "ValueError: text"),
        (io(io::ErrorKind::OutOfMemory), "MemoryError: text"),
        (io(io::ErrorKind::Other), "OSError: text"),
        (
            i8::try_from(1000i32).unwrap_err().into(),
            "OverflowError: out of range integral type conversion attempted",
        ),
        (std::ffi::CString::new("a\0b").unwrap_err().into(), "ValueError: embedded null byte"),
        (invalid_utf8().into(), "ValueError: invalid utf-8 sequence of 1 bytes from index 0"),
        (Vec::<u8>::new().try_reserve(usize::MAX).unwrap_err().into(), "MemoryError: "),
        (Gone.into(), "RuntimeError: the interpreter has ended"),
    ];
    attached(|py| {
        for (fault, expected) in rows {
            let name = expected.split(':').next().unwrap();
            let kind = fault.kind();
            let got = raised::<()>(py, Err(fault.raise(py)));
            assert_eq!(got, expected);
            if kind != Kind::OSError {
                assert_eq!(kind.name(), name);
            }
        }
    });
}

fn libc_enoent() -> i32 {
    2
}

fn invalid_utf8() -> std::str::Utf8Error {
    let bytes = vec![0xffu8];
    std::str::from_utf8(&bytes).unwrap_err()
}

#[test]
fn exception_taken_and_raised_again_keeps_its_traceback_and_cause() {
    attached(|py| {
        let code = "
def inner():
    1 / 0
try:
    inner()
except ZeroDivisionError as error:
    raise KeyError('k') from error
";
        let exception = run(py, code).unwrap_err().take(py);
        assert!(exception.matches(py, &Kind::LookupError.class(py)));
        assert!(!exception.matches(py, &Kind::OSError.class(py)));
        assert!(exception.traceback(py).is_some());
        assert_eq!(exception.describe(py), "KeyError: 'k'");
        let again = exception.raise(py);
        assert!(again.matches(py, &Kind::KeyError.class(py)));
        let again = again.take(py);
        assert!(again.traceback(py).is_some());
        let cause = again.value().getattr_str(py, c"__cause__").unwrap();
        assert_eq!(cause.class_name(py), "ZeroDivisionError");
        again.clear_traceback(py);
        assert!(again.traceback(py).is_none());
    });
}

#[test]
fn chaining_sets_cause_and_context() {
    attached(|py| {
        let make = |text: &str| Fault::value_error(text.to_owned()).raise(py).take(py);
        let outer = make("outer");
        outer.set_cause(py, make("cause"));
        outer.set_context(py, make("context"));
        let text =
            |name| outer.value().getattr_str(py, name).unwrap().str(py).unwrap().to_string_lossy(py).unwrap();
        assert_eq!(text(c"__cause__"), "cause");
        assert_eq!(text(c"__context__"), "context");
    });
}

#[test]
fn any_class_can_be_raised() {
    attached(|py| {
        let class = eval(py, "type('Mine', (Exception,), {})");
        let one = Owned::int(py, 1).unwrap();
        assert_eq!(raised::<()>(py, Err(raise_class(py, &class, [one.borrow()]))), "Mine: 1");
        let not_one = eval(py, "int");
        let text = raised::<()>(py, Err(raise_class(py, &not_one, [])));
        assert_eq!(text, "TypeError: exceptions must derive from BaseException");
    });
}

#[test]
fn exception_text_may_hold_lone_surrogates() {
    attached(|py| {
        let exception = run(py, r"raise ValueError('a\ud800b')").unwrap_err().take(py);
        assert_eq!(exception.describe(py), "ValueError: a?b");
    });
}

#[test]
fn panic_becomes_a_system_error_with_context() {
    attached(|py| {
        let panic = std::panic::catch_unwind(|| panic!("number {}", 5)).unwrap_err();
        assert_eq!(
            raised::<()>(py, Err(raise_panic(py, panic))),
            "SystemError: panic in native code: number 5"
        );
        let panic = std::panic::catch_unwind(|| std::panic::panic_any(5)).unwrap_err();
        let pending = Fault::value_error("pending").raise(py);
        let exception = raise_panic(py, panic).take(py);
        drop(pending);
        assert_eq!(exception.describe(py), "SystemError: panic in native code: no message");
        let context = exception.value().getattr_str(py, c"__context__").unwrap();
        assert_eq!(context.class_name(py), "ValueError");
    });
}

#[test]
fn guard_speaks_the_conventions_of_c() {
    attached(|_| {
        // SAFETY: attached.
        unsafe {
            assert!(guard::<RawObject>(|py| Err(Fault::runtime("x").raise(py))).is_null());
            let py = Attached::assume();
            assert_eq!(raised::<()>(py, Err(Raised::set(py))), "RuntimeError: x");
            assert_eq!(guard::<i32>(|_| Ok(1)), 1);
            assert_eq!(guard::<isize>(|_| panic!("x")), -1);
            assert_eq!(raised::<()>(py, Err(Raised::set(py))), "SystemError: panic in native code: x");
        }
    });
}

#[test]
fn stop_iteration_carries_any_value() {
    attached(|py| {
        for value in ["3", "(1, 2)", "None", "ValueError('x')"] {
            let value = eval(py, value);
            let exception = stop_iteration(py, &value).take(py);
            assert!(exception.value().getattr_str(py, c"value").unwrap().is(&value));
        }
    });
}
