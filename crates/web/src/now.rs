//! `Now`: an awaitable whose value is there. It can be awaited, and run as a coroutine, any number of times.

use std::ffi::CStr;

use pyrt::{
    Args, Attached, Borrowed, Class, Exception, Fault, Fixed, Instance, Method, Owned, PyResult, Step,
    Traverse, TypeSlot, Visit, Visited, confined, stop_iteration,
};

pub(crate) struct Now {
    value: Fixed,
}

confined!(Now { value });

impl Traverse for Now {
    fn traverse(&self, visit: &mut Visit<'_>) -> Visited {
        self.value.traverse(visit)
    }
}

type This<'a> = Instance<'a, Now>;

impl Class for Now {
    const NAME: &'static CStr = c"erlang._web.Now";
    const DOC: &'static CStr = c"A coroutine with nothing to wait for.";
    const CHAINS: bool = false;
    const METHODS: &'static [Method<Self>] = &[
        Method::one(
            c"send",
            |py, this: This<'_>, _value| Self::end(py, this),
            c"send($self, value, /)\n--\n\n",
        ),
        Method::fast(c"throw", Self::throw, c"throw($self, type, value=None, traceback=None, /)\n--\n\n"),
        Method::<Self>::noargs(c"close", |_, _| Ok(()), c"close($self)\n--\n\n"),
        Method::END,
    ];
    const SLOTS: &'static [TypeSlot<Self>] = &[
        TypeSlot::am_send(|py, this: This<'_>, _value| Ok(Step::Returned(this.value.clone_ref(py)))),
        TypeSlot::am_await(itself),
        TypeSlot::iter(itself),
        TypeSlot::iternext(|py, this: This<'_>| Self::end(py, this).map(Some)),
    ];
}

fn itself<'py>(py: Attached<'py>, this: This<'py>) -> PyResult<Owned> {
    Ok(this.object().clone_ref(py))
}

impl Now {
    pub(crate) fn new(value: Owned) -> Self {
        Self { value: value.into() }
    }

    fn end(py: Attached<'_>, this: This<'_>) -> PyResult<Owned> {
        Err(stop_iteration(py, &*this.value))
    }

    fn throw(py: Attached<'_>, _this: This<'_>, args: Args<'_>) -> PyResult<Owned> {
        let thrown = |object: &Borrowed<'_>| Exception::from_object(object.clone_ref(py)).ok();
        let exception = match args.positional() {
            [class, rest @ ..] => match thrown(class).or_else(|| rest.first().and_then(thrown)) {
                Some(exception) => exception,
                None => Exception::new(py, class, [])?,
            },
            [] => return Err(Fault::type_error("throw() needs an exception").raise(py)),
        };
        Err(exception.raise(py))
    }
}
