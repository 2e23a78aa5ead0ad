//! `ScheduleMarker`: what `erlang.schedule` and kin return. It says what comes next, and does nothing until it is the result of a
//! request. Attached threads only.

use pyrt::{
    Args, Attached, Borrowed, Class, Fault, Fixed, Instance, Obj, Owned, PyResult, Signature, Traverse,
    TypeSlot, Visit, Visited, confined, frame_globals, frame_locals,
};

use crate::bridge::Bridge;
use crate::exec;

/// How a chain goes on.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    /// By an Erlang function, whose result is that of the chain.
    Erlang,
    /// By a Python function, after a message to Erlang.
    Python,
    /// By a Python function, on this thread.
    Inline,
}

/// The payload.
pub(crate) struct Marker {
    pub(crate) way: Way,
    /// The Erlang function or the Python module.
    pub(crate) name: Fixed,
    function: Option<Fixed>,
    /// A tuple.
    pub(crate) args: Fixed,
    kwargs: Option<Fixed>,
    /// Where the function is looked up first if the module is `__main__`: the globals of who made this.
    globals: Option<Fixed>,
    /// The function itself, if it is a local of who made this.
    local: Option<Fixed>,
}

confined!(Marker { way, name, function, args, kwargs, globals, local });

impl Traverse for Marker {
    fn traverse(&self, visit: &mut Visit<'_>) -> Visited {
        self.name.traverse(visit)?;
        self.function.traverse(visit)?;
        self.args.traverse(visit)?;
        self.kwargs.traverse(visit)?;
        self.globals.traverse(visit)?;
        self.local.traverse(visit)
    }
}

impl Class for Marker {
    const NAME: &'static core::ffi::CStr = c"erlang.ScheduleMarker";
    const DOC: &'static core::ffi::CStr =
        c"What comes next. Takes effect as the result of the function that Erlang called.";
    const SLOTS: &'static [TypeSlot<Self>] = &[TypeSlot::repr(Self::repr)];
}

impl Marker {
    fn repr(py: Attached<'_>, this: Instance<'_, Self>) -> PyResult<String> {
        let maker = match this.way {
            Way::Erlang => "schedule",
            Way::Python => "schedule_py",
            Way::Inline => "schedule_inline",
        };
        let mut what = this.name.repr(py)?.to_string_lossy(py)?;
        if let Some(function) = &this.function {
            what = format!("{what}, {}", function.repr(py)?.to_string_lossy(py)?);
        }
        Ok(format!("<ScheduleMarker of erlang.{maker}({what}): to be returned>"))
    }

    /// Takes the step of a Python function.
    pub(crate) fn step(&self, py: Attached<'_>, namespace: &Obj) -> PyResult<Owned> {
        let found;
        let function: &Obj = match (&self.local, &self.function) {
            (Some(local), _) => local,
            (None, Some(name)) => {
                let globals: &Obj = match &self.globals {
                    Some(globals) => globals,
                    None => namespace,
                };
                found = exec::find_in(py, globals, namespace, &self.name, name)?;
                &found
            }
            (None, None) => return Err(Fault::system("a step without a function").raise(py)),
        };
        function.call_tuple(py, &*self.args, self.kwargs.as_deref())
    }
}

/// `schedule(name, *args)`.
pub(crate) fn schedule(py: Attached<'_>, bridge: &Bridge, args: Args<'_>) -> PyResult<Owned> {
    let Some((name, rest)) = args.positional().split_first().filter(|_| args.named() == 0) else {
        return Err(Fault::type_error("schedule() takes the name of a function and its arguments").raise(py));
    };
    let marker = Marker {
        way: Way::Erlang,
        name: bridge.name_object(py, *name)?.into(),
        function: None,
        args: Owned::tuple_of(py, rest)?.into(),
        kwargs: None,
        globals: None,
        local: None,
    };
    bridge.marker(py, marker)
}

static PY: Signature<4> =
    Signature::function("schedule_py", ["module", "func", "args", "kwargs"]).required(2);
static INLINE: Signature<4> =
    Signature::function("schedule_inline", ["module", "func", "args", "kwargs"]).required(2);

/// `schedule_py(module, func, args=None, kwargs=None)`.
pub(crate) fn schedule_py(py: Attached<'_>, bridge: &Bridge, args: Args<'_>) -> PyResult<Owned> {
    python(py, bridge, Way::Python, PY.parse(py, &args)?)
}

/// `schedule_inline(module, func, args=None, kwargs=None)`.
pub(crate) fn schedule_inline(py: Attached<'_>, bridge: &Bridge, args: Args<'_>) -> PyResult<Owned> {
    python(py, bridge, Way::Inline, INLINE.parse(py, &args)?)
}

fn python(py: Attached<'_>, bridge: &Bridge, way: Way, values: [Option<Borrowed<'_>>; 4]) -> PyResult<Owned> {
    let [Some(module), Some(function), args, kwargs] = values else {
        return Err(Fault::type_error("a module and a function are needed").raise(py));
    };
    let (module, function) = (bridge.name_object(py, module)?, bridge.name_object(py, function)?);
    let given =
        |value: Option<Borrowed<'_>>| value.filter(|value| !value.is_none()).map(|value| value.clone_ref(py));
    let args = match given(args) {
        None => Owned::tuple(py, [])?,
        Some(args) if args.is_tuple() => args,
        Some(args) if args.is_list() => Owned::tuple(py, [])?.class(py).call1(py, &args)?,
        Some(args) => return Err(args.wrong_type(py, "a list or tuple of arguments")),
    };
    let kwargs = match given(kwargs) {
        Some(kwargs) if !kwargs.is_dict() => return Err(kwargs.wrong_type(py, "a dict of keyword arguments")),
        kwargs => kwargs,
    };
    let (mut globals, mut local) = (None, None);
    if module.to_str(py)? == "__main__" {
        globals = frame_globals(py);
        if let Some(globals) = &globals
            && globals.dict_get(py, &function)?.is_none()
            && let Some(locals) = frame_locals(py)
            && locals.is_dict()
        {
            local = locals.dict_get(py, &function)?;
        }
    }
    let marker = Marker {
        way,
        name: module.into(),
        function: Some(function.into()),
        args: args.into(),
        kwargs: kwargs.map(Fixed::from),
        globals: globals.map(Fixed::from),
        local: local.map(Fixed::from),
    };
    bridge.marker(py, marker)
}
