//! A test module that uses every part of `pyrt` once: loaded by `pytests/pyrt`, built by `tools/probe_ext.sh`.
//!
//! Not shipped. Its methods are called by Python on attached threads.

use core::ffi::CStr;
use core::sync::atomic::{AtomicBool, AtomicI64, Ordering::Relaxed};

use pyrt::*;

// Counter: references, keyword arguments, properties, dict and weak references, subclassing

struct Counter {
    value: AtomicI64,
    listener: ObjCell,
    history: Guarded<Vec<Owned>>,
    state: StateRef<Probe>,
    dict: DictSlot,
    weak: WeakSlot,
}

confined!(Counter { value, listener, history, state, dict, weak });

impl Traverse for Counter {
    fn traverse(&self, visit: &mut Visit<'_>) -> Visited {
        self.listener.traverse(visit)?;
        self.history.traverse(visit)?;
        self.state.traverse(visit)
    }

    fn clear(&self, py: Attached<'_>) {
        self.listener.clear(py);
        self.history.clear(py);
    }
}

const COUNTER_NEW: Signature<2> = Signature::function("Counter.__new__", ["start", "listener"]).required(0);
const ADD: Signature<2> = Signature::method("Counter.add", ["amount", "times"]).required(1);

impl Class for Counter {
    const NAME: &'static CStr = c"probe.Counter";
    const DOC: &'static CStr = c"Counter(start=0, listener=None)\n--\n\nCounts, and tells a listener.";
    const SUBCLASSABLE: bool = true;
    const DICT: Option<Offset<Self, DictSlot>> = Some(offset!(Counter, dict));
    const WEAKREFS: Option<Offset<Self, WeakSlot>> = Some(offset!(Counter, weak));
    const METHODS: &'static [Method<Self>] = &[
        Method::<Self>::noargs(c"increment", Counter::increment, c"increment($self)\n--\n\nAdds one."),
        Method::<Self>::noargs(c"tell", Counter::tell, c"tell($self)\n--\n\nCalls the listener."),
        Method::<Self>::noargs(c"boom", Counter::boom, c"boom($self)\n--\n\nPanics."),
        Method::<Self>::noargs(
            c"reenter",
            Counter::reenter,
            c"reenter($self)\n--\n\nUses guarded state while it is in use.",
        ),
        Method::one(c"remember", Counter::remember, c"remember($self, item, /)\n--\n\nKeeps an object."),
        Method::fast(c"add", Counter::add, c"add($self, amount, times=1)\n--\n\nAdds."),
        Method::class(c"make", Counter::make, c"make($type)\n--\n\nThe class."),
        Method::END,
    ];
    const PROPERTIES: &'static [Property<Self>] = &[
        Property::DICT,
        Property::<Self>::read(c"value", |_, this| Ok(this.value.load(Relaxed)), c"The count.")
            .write(Counter::set_value),
        Property::<Self>::read(c"listener", |py, this| Ok(this.listener.get(py)), c"The listener."),
        Property::END,
    ];
    const SLOTS: &'static [TypeSlot<Self>] = &[
        TypeSlot::new(Counter::new),
        TypeSlot::<Self>::repr(|_, this| Ok(format!("<Counter {}>", this.value.load(Relaxed)))),
        TypeSlot::<Self>::len(|py, this| this.history.with(py, |history| history.len())),
        TypeSlot::<Self>::bool(|_, this| Ok(this.value.load(Relaxed) != 0)),
        TypeSlot::<Self>::hash(|_, this| Ok(this.value.load(Relaxed) as isize)),
        TypeSlot::compare(Counter::compare),
        TypeSlot::setattr(Counter::set_attribute),
    ];
}

impl Counter {
    fn new(py: Attached<'_>, class: Borrowed<'_>, args: Args<'_>) -> PyResult<Self> {
        let [start, listener] = COUNTER_NEW.parse(py, &args)?;
        let start = start.map_or(Ok(0), |start| start.to_i64(py))?;
        let listener = listener.filter(|listener| !listener.is_none()).map(|listener| listener.clone_ref(py));
        Ok(Self {
            value: AtomicI64::new(start),
            listener: listener.map_or_else(ObjCell::empty, ObjCell::new),
            history: Guarded::default(),
            state: MODULE.state_ref(py, &class)?,
            dict: DictSlot::new(),
            weak: WeakSlot::new(),
        })
    }

    /// One name is not to be had.
    fn set_attribute(
        py: Attached<'_>,
        this: Instance<'_, Self>,
        name: Borrowed<'_>,
        value: Option<Borrowed<'_>>,
    ) -> PyResult<()> {
        if name.equals(py, &Owned::str(py, "taken")?)? {
            let verb = if value.is_some() { "set" } else { "deleted" };
            return Err(Kind::AttributeError.raise(py, &format!("taken cannot be {verb}")));
        }
        this.object().setattr_plain(py, &name, value)
    }

    fn increment(_py: Attached<'_>, this: Instance<'_, Self>) -> PyResult<i64> {
        let value = this.value.load(Relaxed) + 1;
        this.value.store(value, Relaxed);
        Ok(value)
    }

    fn tell(py: Attached<'_>, this: Instance<'_, Self>) -> PyResult<Option<Owned>> {
        let Some(listener) = this.listener.get(py) else { return Ok(None) };
        listener.call1(py, &this.object()).map(Some)
    }

    #[allow(clippy::panic, reason = "what it is for")]
    fn boom(_py: Attached<'_>, this: Instance<'_, Self>) -> PyResult<()> {
        panic!("the counter stood at {}", this.value.load(Relaxed));
    }

    fn reenter(py: Attached<'_>, this: Instance<'_, Self>) -> PyResult<usize> {
        this.history.with(py, |_| this.history.with(py, |history| history.len()))?
    }

    fn remember(py: Attached<'_>, this: Instance<'_, Self>, item: Borrowed<'_>) -> PyResult<()> {
        let item = item.clone_ref(py);
        this.history.with(py, |history| history.push(item))
    }

    fn add(py: Attached<'_>, this: Instance<'_, Self>, args: Args<'_>) -> PyResult<i64> {
        let [amount, times] = this.state.add.parse(py, &args)?;
        let amount = amount.map_or(Ok(0), |amount| amount.to_i64(py))?;
        let times = times.map_or(Ok(1), |times| times.to_i64(py))?;
        let overflow = || Fault::Overflow("the count is too big".into()).raise(py);
        let amount = amount.checked_mul(times).ok_or_else(overflow)?;
        let value = this.value.load(Relaxed).checked_add(amount).ok_or_else(overflow)?;
        this.value.store(value, Relaxed);
        Ok(value)
    }

    fn make(py: Attached<'_>, class: Borrowed<'_>, _args: Args<'_>) -> PyResult<Owned> {
        class.call(py, [Owned::int(py, 7)?.borrow()])
    }

    fn set_value(py: Attached<'_>, this: Instance<'_, Self>, value: Option<Borrowed<'_>>) -> PyResult<()> {
        let Some(value) = value else {
            return Err(Kind::AttributeError.raise(py, "cannot delete value"));
        };
        this.value.store(value.to_i64(py)?, Relaxed);
        Ok(())
    }

    fn compare(
        py: Attached<'_>,
        this: Instance<'_, Self>,
        other: Borrowed<'_>,
        op: Compare,
    ) -> PyResult<Owned> {
        match this.state.counter.downcast(other) {
            Some(other) => {
                let ordering = this.value.load(Relaxed).cmp(&other.value.load(Relaxed));
                Ok(Owned::bool(py, op.holds(ordering)))
            }
            None => Ok(Owned::not_implemented(py)),
        }
    }
}

// Soon: an awaitable that yields once, then returns what it was made with

struct Soon {
    result: ObjCell,
    waited: AtomicBool,
}

confined!(Soon { result, waited });

impl Traverse for Soon {
    fn traverse(&self, visit: &mut Visit<'_>) -> Visited {
        self.result.traverse(visit)
    }

    fn clear(&self, py: Attached<'_>) {
        self.result.clear(py);
    }
}

const SOON_NEW: Signature<1> = Signature::function("Soon.__new__", ["result"]);

impl Class for Soon {
    const NAME: &'static CStr = c"probe.Soon";
    const SLOTS: &'static [TypeSlot<Self>] = &[
        TypeSlot::new(|py, _class, args| {
            let [result] = SOON_NEW.parse(py, &args)?;
            let result = result.map_or_else(ObjCell::empty, |result| ObjCell::new(result.clone_ref(py)));
            Ok(Soon { result, waited: AtomicBool::new(false) })
        }),
        TypeSlot::<Self>::am_await(|py, this| Ok(this.clone_ref(py))),
        TypeSlot::<Self>::iter(|py, this| Ok(this.clone_ref(py))),
        TypeSlot::<Self>::iternext(|py, this| match this.step(py) {
            Step::Yielded(object) => Ok(Some(object)),
            Step::Returned(object) => Err(stop_iteration(py, &object)),
        }),
        TypeSlot::<Self>::am_send(|py, this, _value| Ok(this.step(py))),
    ];
}

impl Soon {
    fn step(&self, py: Attached<'_>) -> Step {
        if self.waited.swap(true, Relaxed) {
            Step::Returned(self.result.get(py).unwrap_or_else(|| Owned::none(py)))
        } else {
            Step::Yielded(Owned::none(py))
        }
    }
}

// Adder: callable by vectorcall

struct Adder {
    call: CallSlot<Adder>,
    amount: i64,
}

confined!(Adder { call, amount });

impl Traverse for Adder {}

const ADDER_CALL: Signature<1> = Signature::method("Adder.__call__", ["number"]);

impl Class for Adder {
    const NAME: &'static CStr = c"probe.Adder";
    const GC: bool = false;
    const CHAINS: bool = false;
    const VECTORCALL: Option<Offset<Self, CallSlot<Self>>> = Some(offset!(Adder, call));
    const SLOTS: &'static [TypeSlot<Self>] = &[TypeSlot::new(|py, _class, args| {
        const NEW: Signature<1> = Signature::function("Adder.__new__", ["amount"]);
        let [amount] = NEW.parse(py, &args)?;
        let amount = amount.map_or(Ok(0), |amount| amount.to_i64(py))?;
        Ok(Adder { call: CallSlot::new(Adder::call), amount })
    })];
}

impl Adder {
    fn call(py: Attached<'_>, this: Instance<'_, Self>, args: Args<'_>) -> PyResult<i64> {
        let [number] = ADDER_CALL.parse(py, &args)?;
        Ok(this.amount + number.map_or(Ok(0), |number| number.to_i64(py))?)
    }
}

// Link: refers to the next one, for long chains

struct Link {
    next: ObjCell,
}

confined!(Link { next });

impl Traverse for Link {
    fn traverse(&self, visit: &mut Visit<'_>) -> Visited {
        self.next.traverse(visit)
    }

    fn clear(&self, py: Attached<'_>) {
        self.next.clear(py);
    }
}

impl Class for Link {
    const NAME: &'static CStr = c"probe.Link";
    const SUBCLASSABLE: bool = true;
    const SLOTS: &'static [TypeSlot<Self>] = &[TypeSlot::new(|py, _class, args| {
        const NEW: Signature<1> = Signature::function("Link.__new__", ["next"]);
        let [next] = NEW.parse(py, &args)?;
        Ok(Link { next: next.map_or_else(ObjCell::empty, |next| ObjCell::new(next.clone_ref(py))) })
    })];
}

// Channel: a subclass of asyncio.Transport, which has one slot

struct Channel {
    weak: WeakSlot,
    payload: AtomicI64,
}

confined!(Channel { weak, payload });

impl Traverse for Channel {}

impl Class for Channel {
    const NAME: &'static CStr = c"probe.Channel";
    const BASE_SLOTS: usize = 1;
    const WEAKREFS: Option<Offset<Self, WeakSlot>> = Some(offset!(Channel, weak));
    const SUBCLASSABLE: bool = true;
    const METHODS: &'static [Method<Self>] = &[
        Method::<Self>::noargs(
            c"number",
            |_, this| Ok(this.payload.load(Relaxed)),
            c"number($self)\n--\n\nForty-two.",
        ),
        Method::END,
    ];
    const SLOTS: &'static [TypeSlot<Self>] = &[TypeSlot::new(|_py, _class, _args| {
        Ok(Channel { weak: WeakSlot::new(), payload: AtomicI64::new(42) })
    })];
}

// Blob: a buffer, and a finaliser

struct Blob {
    data: Box<[u8]>,
    farewell: ObjCell,
}

confined!(Blob { data, farewell });

impl Traverse for Blob {
    fn traverse(&self, visit: &mut Visit<'_>) -> Visited {
        self.farewell.traverse(visit)
    }

    fn clear(&self, py: Attached<'_>) {
        self.farewell.clear(py);
    }
}

impl Class for Blob {
    const NAME: &'static CStr = c"probe.Blob";
    const SLOTS: &'static [TypeSlot<Self>] = &[
        TypeSlot::new(|py, _class, args| {
            const NEW: Signature<2> = Signature::function("Blob.__new__", ["data", "farewell"]);
            let [data, farewell] = NEW.parse(py, &args)?;
            let data = data.map_or(Ok(Box::default()), |data| {
                Buffer::read(py, &data).map(|data| data.as_slice().into())
            })?;
            let farewell = farewell.filter(|farewell| !farewell.is_none());
            let farewell =
                farewell.map_or_else(ObjCell::empty, |farewell| ObjCell::new(farewell.clone_ref(py)));
            Ok(Blob { data, farewell })
        }),
        TypeSlot::<Self>::finalize(|py, this| match this.farewell.take(py) {
            Some(farewell) => farewell.call1(py, &this.object()).map(drop),
            None => Ok(()),
        }),
        // SAFETY: the box never moves its content or changes it while the instance lives.
        unsafe { TypeSlot::<Self>::buffer(|_py, this| Ok(&this.payload().data)) },
    ];
}

// Hidden: cannot be made from Python

struct Hidden {
    number: i64,
}

confined!(Hidden { number });

impl Traverse for Hidden {}

impl Class for Hidden {
    const NAME: &'static CStr = c"probe.Hidden";
    const SUBCLASSABLE: bool = true;
    const CHAINS: bool = false;
    const PROPERTIES: &'static [Property<Self>] =
        &[Property::<Self>::read(c"number", |_, this| Ok(this.number), c"A number."), Property::END];
}

// the module

interned! {
    struct Names { value, increment }
}

struct Probe {
    names: Names,
    add: Params<2>,
    counter: Type<Counter>,
    hidden: Type<Hidden>,
    adder: Type<Adder>,
    fraction: Imported,
    keep: [Fixed; 4],
}

confined!(Probe { names, add, counter, hidden, adder, fraction, keep });

impl Traverse for Probe {
    fn traverse(&self, visit: &mut Visit<'_>) -> Visited {
        self.counter.traverse(visit)?;
        self.hidden.traverse(visit)?;
        self.adder.traverse(visit)?;
        self.fraction.traverse(visit)?;
        self.keep.iter().try_for_each(|object| object.traverse(visit))
    }

    fn clear(&self, py: Attached<'_>) {
        self.fraction.clear(py);
    }
}

/// A function that returns what its parameters got, in order; `...` for what was not given.
macro_rules! echo {
    ($signature:expr) => {
        |py, _state, args| {
            let (values, rest) = $signature.parse_rest(py, &args)?;
            let list = Owned::list(py)?;
            for value in values {
                match value {
                    Some(value) => list.append(py, &value)?,
                    None => list.append(py, &Borrowed::none(py))?,
                }
            }
            list.append(py, &Owned::tuple_of(py, rest)?)?;
            Ok(list)
        }
    };
}

const NONE: Signature<0> = Signature::function("none", []);
const TWO: Signature<2> = Signature::function("two", ["a", "b"]);
const THREE: Signature<3> = Signature::function("three", ["a", "b", "c"]);
const OPTIONAL: Signature<2> = Signature::function("optional", ["a", "b"]).required(1);
const KEYWORD: Signature<3> = Signature::function("keyword", ["a", "k", "l"]).keyword_only_after(1);
const ONLY: Signature<2> = Signature::function("only", ["a", "b"]).positional_only(1);
const COLLECT: Signature<2> = Signature::function("collect", ["a", "k"]).varargs(1).optional_keywords();

impl Module for Probe {
    const NAME: &'static CStr = c"probe";
    const DOC: &'static CStr = c"Every part of pyrt, used once.";
    const FUNCTIONS: &'static [Function<Self>] = &[
        Function::fast(c"none", echo!(NONE), c"none()\n--\n\n"),
        Function::fast(c"two", echo!(TWO), c"two(a, b)\n--\n\n"),
        Function::fast(c"three", echo!(THREE), c"three(a, b, c)\n--\n\n"),
        Function::fast(c"optional", echo!(OPTIONAL), c"optional(a, b=None)\n--\n\n"),
        Function::fast(c"keyword", echo!(KEYWORD), c"keyword(a, *, k, l)\n--\n\n"),
        Function::fast(c"only", echo!(ONLY), c"only(a, /, b)\n--\n\n"),
        Function::fast(c"collect", echo!(COLLECT), c"collect(a, *args, k=None)\n--\n\n"),
        Function::fast(c"hidden", Probe::make_hidden, c"hidden(number)\n--\n\n"),
        Function::fast(c"os_error", Probe::os_error, c"os_error(errno, filename=None)\n--\n\n"),
        Function::fast(c"detached_sleep", Probe::detached_sleep, c"detached_sleep(seconds)\n--\n\n"),
        Function::fast(c"call_many", Probe::call_many, c"call_many(function, argument, count)\n--\n\n"),
        Function::fast(c"method_many", Probe::method_many, c"method_many(counter, count)\n--\n\n"),
        Function::fast(c"create_many", Probe::create_many, c"create_many(count)\n--\n\n"),
        Function::fast(c"read_bytes", Probe::read_bytes, c"read_bytes(room, filled)\n--\n\n"),
        Function::fast(c"run_in_copy", Probe::run_in_copy, c"run_in_copy(function)\n--\n\n"),
        Function::fast(c"step", Probe::step, c"step(coroutine)\n--\n\n"),
        Function::<Self>::fast(c"fraction", |py, state, _args| state.fraction.get(py), c"fraction()\n--\n\n"),
        Function::fast(c"interpreter", |py, _state, _args| Ok(py.interpreter_id()), c"interpreter()\n--\n\n"),
        Function::END,
    ];

    fn exec(py: Attached<'_>, module: Borrowed<'_>) -> PyResult<Self> {
        let counter: Type<Counter> = Type::add_to(py, &module, None)?;
        counter.set_attr(py, c"LIMIT", &Owned::int(py, 1000)?)?;
        let transport = import_from(py, c"asyncio.transports", c"Transport")?;
        Ok(Self {
            names: Names::new(py)?,
            add: Params::new(py, &ADD)?,
            counter,
            hidden: Type::add_to(py, &module, None)?,
            adder: Type::add_to(py, &module, None)?,
            fraction: Imported::new(c"fractions", c"Fraction"),
            keep: [
                Type::<Soon>::add_to(py, &module, None)?.object().clone_ref(py).into(),
                Type::<Link>::add_to(py, &module, None)?.object().clone_ref(py).into(),
                Type::<Blob>::add_to(py, &module, None)?.object().clone_ref(py).into(),
                Type::<Channel>::add_to(py, &module, Some(&transport))?.object().clone_ref(py).into(),
            ],
        })
    }
}

impl Probe {
    fn make_hidden(py: Attached<'_>, state: &Self, args: Args<'_>) -> PyResult<Typed<Hidden>> {
        const HIDDEN: Signature<1> = Signature::function("hidden", ["number"]);
        let [number] = HIDDEN.parse(py, &args)?;
        let number = number.map_or(Ok(0), |number| number.to_i64(py))?;
        state.hidden.create(py, Hidden { number })
    }

    fn os_error(py: Attached<'_>, _state: &Self, args: Args<'_>) -> PyResult<()> {
        const OS_ERROR: Signature<2> = Signature::function("os_error", ["errno", "filename"]).required(1);
        let [errno, filename] = OS_ERROR.parse(py, &args)?;
        let errno = errno.map_or(Ok(0), |errno| errno.to_i32(py))?;
        match filename {
            Some(filename) => Err(raise_errno(py, errno, Some(&filename))),
            None => Err(std::io::Error::from_raw_os_error(errno)).or_raise(py),
        }
    }

    fn detached_sleep(py: Attached<'_>, _state: &Self, args: Args<'_>) -> PyResult<()> {
        const SLEEP: Signature<1> = Signature::function("detached_sleep", ["seconds"]);
        let [seconds] = SLEEP.parse(py, &args)?;
        let seconds = seconds.map_or(Ok(0.0), |seconds| seconds.to_f64(py))?;
        py.detach(|| std::thread::sleep(std::time::Duration::from_secs_f64(seconds.clamp(0.0, 10.0))));
        Ok(())
    }

    fn call_many(py: Attached<'_>, _state: &Self, args: Args<'_>) -> PyResult<()> {
        let [Some(function), Some(argument), Some(count)] = THREE.parse(py, &args)? else { return Ok(()) };
        for _ in 0..count.to_usize(py)? {
            drop(function.call1(py, &argument)?);
        }
        Ok(())
    }

    fn method_many(py: Attached<'_>, state: &Self, args: Args<'_>) -> PyResult<()> {
        let [Some(object), Some(count)] = TWO.parse(py, &args)? else { return Ok(()) };
        for _ in 0..count.to_usize(py)? {
            drop(object.call_method0(py, &state.names.increment)?);
        }
        object.getattr(py, &state.names.value).map(drop)
    }

    fn create_many(py: Attached<'_>, state: &Self, args: Args<'_>) -> PyResult<()> {
        let [Some(gc), Some(count)] = TWO.parse(py, &args)? else { return Ok(()) };
        let gc = gc.is_true(py)?;
        for number in 0..count.to_i64(py)? {
            if gc {
                drop(state.hidden.create(py, Hidden { number })?);
            } else {
                drop(state.adder.create(py, Adder { call: CallSlot::new(Adder::call), amount: number })?);
            }
        }
        Ok(())
    }

    fn read_bytes(py: Attached<'_>, _state: &Self, args: Args<'_>) -> PyResult<Owned> {
        let [Some(room), Some(filled)] = TWO.parse(py, &args)? else { return Ok(Owned::none(py)) };
        let (room, filled) = (room.to_usize(py)?, filled.to_usize(py)?.min(room.to_usize(py)?));
        let mut bytes = Room::new(py, room)?;
        for (index, byte) in bytes.space().iter_mut().take(filled).enumerate() {
            byte.write(index as u8);
        }
        // SAFETY: the first `filled` bytes were just written.
        unsafe { bytes.finish(py, filled) }
    }

    fn run_in_copy(py: Attached<'_>, _state: &Self, args: Args<'_>) -> PyResult<Option<Owned>> {
        let [function] = args.positional() else { return Ok(None) };
        Context::copy_current(py)?.run(py, || function.call0(py)).map(Some)
    }

    fn step(py: Attached<'_>, _state: &Self, args: Args<'_>) -> PyResult<Owned> {
        let [coroutine] = args.positional() else { return Ok(Owned::none(py)) };
        match coroutine.send(py, &Borrowed::none(py))? {
            Step::Returned(object) => Owned::tuple(py, [Owned::str(py, "returned")?, object]),
            Step::Yielded(object) => Owned::tuple(py, [Owned::str(py, "yielded")?, object]),
        }
    }
}

static MODULE: ModuleDef<Probe> = ModuleDef::new();

/// Called by `import probe`.
#[unsafe(no_mangle)]
pub extern "C" fn PyInit_probe() -> RawObject {
    MODULE.init()
}
