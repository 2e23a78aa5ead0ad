//! `Confined`: what may live inside an object of one interpreter.
//!
//! Such a value is moved between, and dropped on, whichever threads attach to that interpreter. A `Send` value may always do
//! that. An `Owned` may too, though it is not `Send`: attached threads of its own interpreter are just where it belongs.

use core::marker::PhantomData;
use std::collections::VecDeque;

use crate::Owned;

/// Values that may be used and dropped by any thread attached to the interpreter they belong to.
///
/// Get it for a struct of yours with [`confined!`](crate::confined), which checks each field.
///
/// # Safety
/// Each part is `Send`, or is bound to being attached and to nothing else (references to objects are; `Rc` and thread-local
/// handles are not).
pub unsafe trait Confined {}

// SAFETY: references are what the trait is about.
unsafe impl Confined for Owned {}
// SAFETY: no content.
unsafe impl Confined for () {}
// SAFETY: owns its content and nothing else.
unsafe impl<T: Confined> Confined for Option<T> {}
// SAFETY: owns its content and nothing else.
unsafe impl<T: Confined> Confined for Box<T> {}
// SAFETY: owns its content and nothing else.
unsafe impl<T: Confined> Confined for Vec<T> {}
// SAFETY: owns its content and nothing else.
unsafe impl<T: Confined> Confined for VecDeque<T> {}
// SAFETY: owns its content and nothing else.
unsafe impl<T: Confined, const N: usize> Confined for [T; N] {}
// SAFETY: owns its content and nothing else.
unsafe impl<A: Confined, B: Confined> Confined for (A, B) {}

/// Finds by method lookup whether a field is `Send` (found first) or `Confined`. Used by [`confined!`](crate::confined).
#[doc(hidden)]
pub struct Probe<T: ?Sized>(PhantomData<T>);

#[doc(hidden)]
impl<T: ?Sized> Probe<T> {
    pub fn of(_: &T) -> Probe<T> {
        Probe(PhantomData)
    }
}

#[doc(hidden)]
impl<T: ?Sized + Send> Probe<T> {
    pub fn may_live_in_an_object(self) {}
}

#[doc(hidden)]
pub trait ProbeConfined {
    fn may_live_in_an_object(self);
}

#[doc(hidden)]
impl<T: ?Sized + Confined> ProbeConfined for Probe<T> {
    fn may_live_in_an_object(self) {}
}

/// Implements [`Confined`] for a struct, after checking that each field is `Send` or `Confined`. All fields must be named.
///
/// ```
/// struct Job { callback: pyrt::Owned, deadline: std::time::Instant }
/// pyrt::confined!(Job { callback, deadline });
/// ```
///
/// ```compile_fail
/// struct Job { shared: std::rc::Rc<u8> }
/// pyrt::confined!(Job { shared });
/// ```
#[macro_export]
macro_rules! confined {
    ($name:ident { $($field:ident),* $(,)? }) => {
        const _: fn(&$name) = |value| {
            #[allow(unused_imports)]
            use $crate::confined::ProbeConfined as _;
            let $name { $($field),* } = value;
            $($crate::confined::Probe::of($field).may_live_in_an_object();)*
        };
        // SAFETY: the closure above names every field and compiles only if each is `Send` or `Confined`.
        unsafe impl $crate::Confined for $name {}
    };
}
