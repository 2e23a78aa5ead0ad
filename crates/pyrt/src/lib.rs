//! The only home of raw CPython calls: references, attach/detach, errors, heap types, module state.
//!
//! ```text
//!            Attached<'py>   proof that this thread is attached; everything below asks for it
//!            ─────────────
//!  values    Owned (strong, 8 bytes)   Borrowed<'a> (Copy)   ── both deref to Obj: getattr, call, to_i64, …
//!            Typed<T>                  Instance<'a, T>       ── the same, known to be ours; deref to the payload T
//!            Remote (16 bytes, Send)                         ── may travel; dropped elsewhere it is queued to its Interpreter
//!
//!  errors    PyResult<T> = Result<T, Raised>   Exception (as a value)   Fault → Kind: the table from Rust to Python
//!
//!  classes   Class for T: constants ── Method, Property, TypeSlot, Signature ──▶ Type<T>, made per interpreter
//!            inside T: atomics, Fixed and ObjCell (one reference), Guarded<S> (state); Traverse shows them to the collector
//!            Pool (memory of instances, used again)   Snapshot (the context that something waits to run in), Stay (in one without variables)
//!
//!  modules   ModuleDef<S> (static) ──▶ S: Module, the state: types, interned! names, Imported
//! ```
//!
//! It works alike in the main interpreter, in own-GIL sub-interpreters (3.12+) and without a GIL (3.14t): no static holds an object
//! or a type, definitions are constants, everything made of objects is in module state.
//!
//! The rules that Rust enforces here: no object is touched without a token; nothing that refers to an object enters a
//! detached closure or another thread, except a [`Remote`]; payloads are `Sync`; no panic leaves a function called by Python.
//!
//! # Example
//!
//! A module `example` with one class:
//!
//! ```no_run
//! use core::sync::atomic::{AtomicI64, Ordering::Relaxed};
//! use pyrt::*;
//!
//! /// Counts, and tells a listener.
//! struct Counter {
//!     value: AtomicI64,
//!     listener: ObjCell,
//! }
//!
//! confined!(Counter { value, listener });
//!
//! impl Traverse for Counter {
//!     fn traverse(&self, visit: &mut Visit<'_>) -> Visited {
//!         self.listener.traverse(visit)
//!     }
//!     fn clear(&self, py: Attached<'_>) {
//!         self.listener.clear(py);
//!     }
//! }
//!
//! const NEW: Signature<1> = Signature::function("Counter", ["start"]).required(0);
//!
//! impl Class for Counter {
//!     const NAME: &'static core::ffi::CStr = c"example.Counter";
//!     const METHODS: &'static [Method<Self>] = &[
//!         Method::noargs(c"increment", Counter::increment, c"increment($self)\n--\n\nAdds one."),
//!         Method::one(c"listen", Counter::listen, c"listen($self, listener, /)\n--\n\nCalled with each value."),
//!         Method::END,
//!     ];
//!     const SLOTS: &'static [TypeSlot<Self>] = &[TypeSlot::new(Counter::new)];
//! }
//!
//! impl Counter {
//!     fn new(py: Attached<'_>, _class: Borrowed<'_>, args: Args<'_>) -> PyResult<Self> {
//!         let [start] = NEW.parse(py, &args)?;
//!         let start = start.map_or(Ok(0), |start| start.to_i64(py))?;
//!         Ok(Self { value: AtomicI64::new(start), listener: ObjCell::empty() })
//!     }
//!
//!     fn increment(py: Attached<'_>, this: Instance<'_, Self>) -> PyResult<i64> {
//!         let value = this.value.fetch_add(1, Relaxed) + 1;
//!         if let Some(listener) = this.listener.get(py) {
//!             listener.call1(py, &Owned::int(py, value)?)?;
//!         }
//!         Ok(value)
//!     }
//!
//!     fn listen(py: Attached<'_>, this: Instance<'_, Self>, listener: Borrowed<'_>) -> PyResult<()> {
//!         this.listener.set(py, listener.clone_ref(py));
//!         Ok(())
//!     }
//! }
//!
//! /// The state of the module, one per interpreter.
//! struct Example {
//!     counter: Type<Counter>,
//! }
//!
//! confined!(Example { counter });
//!
//! impl Traverse for Example {
//!     fn traverse(&self, visit: &mut Visit<'_>) -> Visited {
//!         self.counter.traverse(visit)
//!     }
//! }
//!
//! impl Module for Example {
//!     const NAME: &'static core::ffi::CStr = c"example";
//!     fn exec(py: Attached<'_>, module: Borrowed<'_>) -> PyResult<Self> {
//!         Ok(Self { counter: Type::add_to(py, &module, None)? })
//!     }
//! }
//!
//! static MODULE: ModuleDef<Example> = ModuleDef::new();
//!
//! #[unsafe(no_mangle)]
//! pub extern "C" fn PyInit_example() -> RawObject {
//!     MODULE.init()
//! }
//! # fn main() {}
//! ```

mod args;
mod attached;
mod attr;
mod buffer;
mod bytes;
mod call;
mod cell;
mod class;
mod collect;
#[doc(hidden)]
pub mod confined;
mod context;
mod current;
mod embed;
mod exception;
mod fault;
mod ffi;
mod gc;
mod guard;
mod guarded;
mod intern;
mod interp;
mod kind;
mod layout;
mod lifecycle;
mod memory;
mod method;
mod module;
mod number;
mod object;
#[cfg(Py_3_14)]
mod passing;
mod pool;
mod raised;
mod remote;
mod runtime;
mod signature;
mod slots;
mod snapshot;
mod stay;
mod subinterp;
mod text;
mod thread;
mod typed;

pub use args::Args;
pub use attached::{Attached, HAS_GIL};
pub use buffer::Buffer;
pub use bytes::Room;
pub use cell::{Fixed, ObjCell};
pub use class::Class;
pub use confined::Confined;
pub use context::{Context, run_in};
pub use embed::{
    Builtin, Refusals, Source, Start, compile, frame_globals, frame_locals, import_name, imported,
    raise_in_thread, refuse, set_switch_interval, start, thread_ident,
};
pub use exception::{Exception, stop_iteration};
pub use fault::{Fault, OrRaise, raise_class, raise_errno};
pub use gc::{Stop, Traverse, Visit, Visited};
pub use guard::{Failed, Return, guard, raise_panic};
pub use guarded::Guarded;
pub use intern::Imported;
pub use interp::{Gone, Interpreter};
pub use kind::Kind;
pub use layout::{CallSlot, DictSlot, Offset, WeakSlot};
pub use method::{Function, Method, Property};
pub use module::{Module, ModuleDef, StateRef, add};
pub use object::{AsObj, Borrowed, Obj, Owned};
#[cfg(Py_3_14)]
pub use passing::{InPassing, Place, in_passing, place};
pub use pool::{Pool, PoolRef};
pub use raised::{PyResult, Raised};
pub use remote::Remote;
pub use runtime::{
    Step, audit, check_signals, import, import_from, is_finalizing, recurse, warn, warn_resource,
};
pub use signature::{Params, Signature, Values};
pub use slots::{Compare, TypeSlot};
pub use snapshot::Snapshot;
pub use stay::Stay;
pub use typed::{Instance, Type, Typed};

/// A raw object pointer, as `PyInit_…` returns.
pub type RawObject = *mut ffi::PyObject;
