//! The module `erlang._bridge`: what Python calls of the BEAM, and what conversion knows per interpreter. Attached threads only.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::{Arc, OnceLock, RwLock, Weak};

use pyrt::{
    Args, Attached, Borrowed, Confined, Fault, Fixed, Function, Guarded, Imported, Instance, Interpreter,
    Module, ModuleDef, Obj, Owned, PyResult, RawObject, Traverse, Type, Visit, Visited, confined,
};
use rustler::sys::ErlNifTerm;
use rustler::{Env, Term};

use crate::bell::{self, Bell};
use crate::convert::text_of;
use crate::job::Job;
use crate::marker::Marker;
use crate::pool::{APART, POOL, Pool};
use crate::realm::Realm;
use crate::terms::{Atom, Opaque, Pid, Ref, Saved};
use crate::{atoms, callback, event_loop, marker, output, processes, promise, replies, slice, threads};

/// The names of the Erlang functions that Python may call.
pub(crate) static FUNCTIONS: RwLock<Option<HashSet<String>>> = RwLock::new(None);

/// Atoms as interned strings, by their word: atoms are never freed, so a word means the same for ever.
struct Cache(HashMap<ErlNifTerm, Owned, BuildHasherDefault<Spread>>);

/// Spreads words that differ in few bits. Nobody chooses them to collide: the VM numbers atoms in turn, and their number is limited.
#[derive(Default)]
struct Spread(u64);

impl Hasher for Spread {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64(u64::from(*byte)));
    }

    fn write_u64(&mut self, word: u64) {
        // Knuth's multiplicative hashing; the table looks at both ends of the word.
        self.0 = (self.0 ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(32);
    }

    fn write_usize(&mut self, word: usize) {
        self.write_u64(word as u64);
    }
}

// SAFETY: words and references to strings.
unsafe impl Confined for Cache {}

/// The state of the module.
pub(crate) struct Bridge {
    /// The interpreter it is in.
    pub(crate) home: Interpreter,
    /// The same with all that we put there; none in an interpreter that is not ours.
    realm: OnceLock<Weak<Realm>>,
    pub(crate) atom: Type<Atom>,
    pub(crate) pid: Type<Pid>,
    reference: Type<Ref>,
    opaque: Type<Opaque>,
    marker: Type<Marker>,
    bell: Type<Bell>,
    cache: Guarded<Cache>,
    /// The classes whose instances have `isoformat`.
    moments: Fixed,
    pub(crate) interrupted: Imported,
    pub(crate) erlang_error: Imported,
    pub(crate) describe: Imported,
    /// Generators: their steps, all at once, their end, and a thread that waits for one.
    pub(crate) steps: Imported,
    pub(crate) collect: Imported,
    pub(crate) close: Imported,
    pub(crate) wake: Imported,
    pub(crate) drain: Imported,
    pub(crate) job: Type<Job>,
    pub(crate) cancelled_error: Imported,
    /// The names of `__main__`, for threads that have none of their own.
    pub(crate) main: Imported,
    /// The loops of Erlang: one made, one run to its end, one run while something is ready.
    pub(crate) new_loop: Imported,
    pub(crate) serve_loop: Imported,
    pub(crate) turns: Imported,
    pub(crate) run_awaitable: Imported,
    /// A loop left and entered again, around nested code.
    pub(crate) aside: Imported,
    pub(crate) rejoin: Imported,
    /// The loop that runs on a thread.
    pub(crate) running: Imported,
    /// Ends the threads of an interpreter.
    pub(crate) end_threads: Imported,
}

confined!(Bridge {
    home,
    realm,
    atom,
    pid,
    reference,
    opaque,
    marker,
    bell,
    cache,
    moments,
    interrupted,
    erlang_error,
    describe,
    steps,
    collect,
    close,
    wake,
    drain,
    job,
    cancelled_error,
    main,
    new_loop,
    serve_loop,
    turns,
    run_awaitable,
    aside,
    rejoin,
    running,
    end_threads
});

impl Traverse for Bridge {
    fn traverse(&self, visit: &mut Visit<'_>) -> Visited {
        self.atom.traverse(visit)?;
        self.pid.traverse(visit)?;
        self.reference.traverse(visit)?;
        self.opaque.traverse(visit)?;
        self.marker.traverse(visit)?;
        self.bell.traverse(visit)?;
        self.moments.traverse(visit)?;
        self.interrupted.traverse(visit)?;
        self.erlang_error.traverse(visit)?;
        self.describe.traverse(visit)?;
        self.steps.traverse(visit)?;
        self.collect.traverse(visit)?;
        self.close.traverse(visit)?;
        self.wake.traverse(visit)?;
        self.drain.traverse(visit)?;
        self.job.traverse(visit)?;
        self.cancelled_error.traverse(visit)?;
        self.main.traverse(visit)?;
        self.new_loop.traverse(visit)?;
        self.serve_loop.traverse(visit)?;
        self.turns.traverse(visit)?;
        self.run_awaitable.traverse(visit)?;
        self.aside.traverse(visit)?;
        self.rejoin.traverse(visit)?;
        self.running.traverse(visit)?;
        self.end_threads.traverse(visit)
    }
}

impl Module for Bridge {
    const NAME: &'static core::ffi::CStr = c"erlang._bridge";
    const DOC: &'static core::ffi::CStr = c"What Python calls of the Erlang VM it runs in.";
    const FUNCTIONS: &'static [Function<Self>] = &[
        Function::fast(c"call", call, c"call(name, /, *args)\n--\n\nCalls a registered Erlang function."),
        Function::fast(
            c"async_call",
            promise::async_call,
            c"async_call(loop, future, name, /, *args)\n--\n\nCalls it; the answer completes the future.",
        ),
        Function::fast(c"bell", bell::bell, c"bell()\n--\n\nSomething to wait for, until it rings."),
        Function::fast(
            c"reply_register",
            replies::reply_register,
            c"reply_register(name, deliver, seconds, /)\n--\n\nA waiter: its number, or why there is none.",
        ),
        Function::fast(
            c"reply_end",
            replies::reply_end,
            c"reply_end(name, number, state, value, /)\n--\n\nEnds a waiter. Whether this call did.",
        ),
        Function::fast(
            c"reply_counters",
            replies::reply_counters,
            c"reply_counters()\n--\n\nWhat has happened to waiters so far.",
        ),
        Function::fast(c"event_loop", event_loop::any, c"event_loop()\n--\n\nOne of the loops that Erlang owns."),
        Function::fast(c"sleep", callback::sleep, c"sleep(seconds, /)\n--\n\nSleeps, until interrupted."),
        Function::fast(c"send", processes::send, c"send(to, message, /)\n--\n\nSends a message to a process."),
        Function::fast(c"whereis", processes::whereis, c"whereis(name, /)\n--\n\nThe process registered under a name."),
        Function::fast(c"atom", processes::atom, c"atom(name, /)\n--\n\nThe atom with this name."),
        Function::fast(
            c"has_function",
            processes::has_function,
            c"has_function(name, /)\n--\n\nWhether call() finds it.",
        ),
        Function::fast(c"write", output::write, c"write(stream, text, /)\n--\n\nPrints where the caller prints."),
        Function::fast(c"flush", output::flush_all, c"flush()\n--\n\nPrints lines that are only begun."),
        Function::fast(c"log", output::log, c"log(level, text, metadata, /)\n--\n\nAn event for logger."),
        Function::fast(
            c"schedule",
            marker::schedule,
            c"schedule(name, /, *args)\n--\n\nReturned, it has an Erlang function go on.",
        ),
        Function::fast(
            c"schedule_py",
            marker::schedule_py,
            c"schedule_py(module, func, args=None, kwargs=None)\n--\n\nReturned, it has a function go on, after others.",
        ),
        Function::fast(
            c"schedule_inline",
            marker::schedule_inline,
            c"schedule_inline(module, func, args=None, kwargs=None)\n--\n\nReturned, it has a function go on, at once.",
        ),
        Function::fast(
            c"start_thread",
            threads::start_thread,
            c"start_thread(start, begun, function, args, *kwargs)\n--\n\nStarts a thread, uninterrupted.",
        ),
        Function::fast(c"hold", threads::hold, c"hold(acquire, /)\n--\n\nAcquires a lock, uninterrupted."),
        Function::fast(c"let_go", threads::let_go, c"let_go(release, /)\n--\n\nReleases it, and may be interrupted."),
        Function::fast(c"interrupt", threads::interrupt, c"interrupt(thread, /)\n--\n\nInterrupts a thread."),
        Function::fast(
            c"consume_time_slice",
            slice::consume,
            c"consume_time_slice(percent, /)\n--\n\nCounts work. True when it is time to return a marker.",
        ),
        #[cfg(feature = "fuzzing")]
        Function::fast(c"fuzz_one", crate::fuzz::one, c"fuzz_one(data, /)\n--\n\nLooks at one input."),
        #[cfg(feature = "fuzzing")]
        Function::fast(c"fuzz", crate::fuzz::run, c"fuzz(*args)\n--\n\nHas libFuzzer find inputs."),
        Function::END,
    ];

    fn exec(py: Attached<'_>, module: Borrowed<'_>) -> PyResult<Self> {
        let datetime = pyrt::import(py, c"datetime")?;
        let moments =
            Owned::tuple(py, [datetime.getattr_str(py, c"date")?, datetime.getattr_str(py, c"time")?])?;
        Ok(Self {
            home: Interpreter::current(py)?,
            realm: OnceLock::new(),
            atom: Type::add_to(py, &module, None)?,
            pid: Type::add_to(py, &module, None)?,
            reference: Type::add_to(py, &module, None)?,
            opaque: Type::add_to(py, &module, None)?,
            marker: Type::add_to(py, &module, None)?,
            bell: Type::add_to(py, &module, None)?,
            cache: Guarded::new(Cache(HashMap::default())),
            moments: moments.into(),
            interrupted: Imported::new(c"erlang._beam", c"Interrupted"),
            erlang_error: Imported::new(c"erlang._beam", c"ErlangError"),
            describe: Imported::new(c"erlang._beam", c"describe"),
            steps: Imported::new(c"erlang._streams", c"steps"),
            collect: Imported::new(c"erlang._streams", c"collect"),
            close: Imported::new(c"erlang._streams", c"close"),
            wake: Imported::new(c"erlang._loops", c"wake"),
            drain: Imported::new(c"erlang._streams", c"drain"),
            job: Type::add_to(py, &module, None)?,
            cancelled_error: Imported::new(c"asyncio.exceptions", c"CancelledError"),
            main: Imported::new(c"__main__", c"__dict__"),
            new_loop: Imported::new(c"erlang._loops", c"new"),
            serve_loop: Imported::new(c"erlang._loops", c"serve"),
            turns: Imported::new(c"erlang._loops", c"turns"),
            run_awaitable: Imported::new(c"erlang._loops", c"run"),
            aside: Imported::new(c"erlang._aside", c"aside"),
            rejoin: Imported::new(c"erlang._aside", c"rejoin"),
            running: Imported::new(c"asyncio.events", c"_get_running_loop"),
            end_threads: Imported::new(c"erlang._threads", c"end"),
        })
    }
}

pub(crate) static MODULE: ModuleDef<Bridge> = ModuleDef::new();

/// `PyInit` of `erlang._bridge`.
pub(crate) extern "C" fn init() -> RawObject {
    MODULE.init()
}

pub(crate) fn no_memory(py: Attached<'_>) -> pyrt::Raised {
    Fault::Memory.raise(py)
}

impl Bridge {
    /// Says where it is.
    pub(crate) fn settle(&self, realm: &Arc<Realm>) {
        self.realm.get_or_init(|| Arc::downgrade(realm));
    }

    /// Where it is; `None` in an interpreter that is not ours, or is about to end.
    pub(crate) fn realm(&self) -> Option<Arc<Realm>> {
        self.realm.get()?.upgrade()
    }

    /// The contexts of its kind of interpreter.
    pub(crate) fn pool(&self) -> &'static Pool {
        if self.home.id() == 0 { &POOL } else { &APART }
    }

    /// The object of an atom: `True`, `False`, `None`, or its text.
    pub(crate) fn atom(&self, py: Attached<'_>, term: Term<'_>) -> PyResult<Owned> {
        let word = term.as_c_arg();
        if word == rustler::types::atom::true_().as_c_arg() {
            return Ok(Owned::bool(py, true));
        }
        if word == rustler::types::atom::false_().as_c_arg() {
            return Ok(Owned::bool(py, false));
        }
        if [atoms::none(), atoms::nil(), atoms::undefined()].iter().any(|none| none.as_c_arg() == word) {
            return Ok(Owned::none(py));
        }
        self.name(py, term)
    }

    /// The text of an atom, interned.
    pub(crate) fn name(&self, py: Attached<'_>, atom: Term<'_>) -> PyResult<Owned> {
        let word = atom.as_c_arg();
        if let Some(found) = self.cache.with(py, |cache| cache.0.get(&word).map(|text| text.clone_ref(py)))? {
            return Ok(found);
        }
        let text = text_of(atom).ok_or_else(|| Fault::value_error("an atom without a text").raise(py))?;
        let text = match std::ffi::CString::new(text.as_str()) {
            Ok(text) => Owned::interned(py, &text)?,
            Err(_) => Owned::str(py, &text)?,
        };
        let _known = self.cache.with(py, |cache| cache.0.insert(word, text.clone_ref(py)))?;
        Ok(text)
    }

    pub(crate) fn pid(&self, py: Attached<'_>, term: Term<'_>) -> PyResult<Owned> {
        let saved = Saved::new(term).ok_or_else(|| no_memory(py))?;
        Ok(self.pid.create(py, Pid { saved })?.into_object())
    }

    pub(crate) fn reference(&self, py: Attached<'_>, term: Term<'_>) -> PyResult<Owned> {
        let saved = Saved::new(term).ok_or_else(|| no_memory(py))?;
        Ok(self.reference.create(py, Ref { saved })?.into_object())
    }

    pub(crate) fn opaque(&self, py: Attached<'_>, term: Term<'_>) -> PyResult<Owned> {
        let saved = Saved::new(term).ok_or_else(|| no_memory(py))?;
        Ok(self.opaque.create(py, Opaque { saved })?.into_object())
    }

    /// What `schedule` and kin return.
    pub(crate) fn marker(&self, py: Attached<'_>, marker: Marker) -> PyResult<Owned> {
        Ok(self.marker.create(py, marker)?.into_object())
    }

    pub(crate) fn bell(&self, py: Attached<'_>, bell: Bell) -> PyResult<Owned> {
        Ok(self.bell.create(py, bell)?.into_object())
    }

    pub(crate) fn as_marker<'a>(&self, object: Borrowed<'a>) -> Option<Instance<'a, Marker>> {
        self.marker.downcast(object)
    }

    /// A name given by Python, as a `str`.
    pub(crate) fn name_object(&self, py: Attached<'_>, name: Borrowed<'_>) -> PyResult<Owned> {
        if self.atom.downcast(name).is_some() {
            return name.str(py);
        }
        if !name.is_str() {
            return Err(name.wrong_type(py, "a name"));
        }
        Ok(name.clone_ref(py))
    }

    /// The term an object stands for, if it is one of ours.
    pub(crate) fn term_of<'a>(&self, env: Env<'a>, object: Borrowed<'_>) -> Option<Term<'a>> {
        if let Some(atom) = self.atom.downcast(object) {
            return Some(atom.saved.term(env));
        }
        if let Some(pid) = self.pid.downcast(object) {
            return Some(pid.saved.term(env));
        }
        if let Some(reference) = self.reference.downcast(object) {
            return Some(reference.saved.term(env));
        }
        self.opaque.downcast(object).map(|opaque| opaque.saved.term(env))
    }

    /// Whether it is a date, a time, or both.
    pub(crate) fn is_moment(&self, py: Attached<'_>, object: &Obj) -> PyResult<bool> {
        object.is_instance(py, &self.moments)
    }
}

/// The arguments of a function that takes none by name: they would be lost without a word.
pub(crate) fn positional<'py>(
    py: Attached<'_>,
    function: &str,
    args: Args<'py>,
) -> PyResult<&'py [Borrowed<'py>]> {
    if args.named() > 0 {
        return Err(Fault::type_error(format!("{function}() takes no keyword arguments")).raise(py));
    }
    Ok(args.positional())
}

fn call(py: Attached<'_>, bridge: &Bridge, args: Args<'_>) -> PyResult<Owned> {
    let Some((name, args)) = positional(py, "call", args)?.split_first() else {
        return Err(Fault::type_error("call() needs the name of a function").raise(py));
    };
    callback::call(py, bridge, *name, args)
}
