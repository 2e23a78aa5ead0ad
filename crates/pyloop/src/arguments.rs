//! How the scheduling methods take their arguments: `(…, callback, *args, context=None)`. Attached threads only.

use pyrt::{Args, Attached, Borrowed, Fixed, Params, PyResult, Signature, confined};

pub(crate) const CALL_SOON: Signature<2> =
    Signature::method("BaseEventLoop.call_soon", ["callback", "context"]).varargs(1).optional_keywords();
pub(crate) const CALL_SOON_THREADSAFE: Signature<2> =
    Signature::method("BaseEventLoop.call_soon_threadsafe", ["callback", "context"])
        .varargs(1)
        .optional_keywords();
pub(crate) const CALL_LATER: Signature<3> =
    Signature::method("BaseEventLoop.call_later", ["delay", "callback", "context"])
        .varargs(2)
        .optional_keywords();
pub(crate) const CALL_AT: Signature<3> =
    Signature::method("BaseEventLoop.call_at", ["when", "callback", "context"])
        .varargs(2)
        .optional_keywords();
pub(crate) const CREATE_TASK: Signature<3> =
    Signature::method("BaseEventLoop.create_task", ["coro", "name", "context"])
        .keyword_only_after(1)
        .optional_keywords();

/// The signatures with their names interned.
pub(crate) struct Signatures {
    pub(crate) call_soon: Params<2>,
    pub(crate) call_soon_threadsafe: Params<2>,
    pub(crate) call_later: Params<3>,
    pub(crate) call_at: Params<3>,
    pub(crate) create_task: Params<3>,
}

confined!(Signatures { call_soon, call_soon_threadsafe, call_later, call_at, create_task });

impl Signatures {
    pub(crate) fn new(py: Attached<'_>) -> PyResult<Self> {
        Ok(Self {
            call_soon: Params::new(py, &CALL_SOON)?,
            call_soon_threadsafe: Params::new(py, &CALL_SOON_THREADSAFE)?,
            call_later: Params::new(py, &CALL_LATER)?,
            call_at: Params::new(py, &CALL_AT)?,
            create_task: Params::new(py, &CREATE_TASK)?,
        })
    }
}

/// What is to be called, with what, in which context (`None` for the current one).
#[derive(Clone, Copy)]
pub(crate) struct Request<'py> {
    pub(crate) callback: Borrowed<'py>,
    pub(crate) args: &'py [Borrowed<'py>],
    pub(crate) context: Option<Borrowed<'py>>,
}

impl<'py> Request<'py> {
    /// `callback, *args, context=None`.
    #[inline]
    pub(crate) fn soon(
        py: Attached<'_>,
        params: &Params<2>,
        context: &Fixed,
        args: &Args<'py>,
    ) -> PyResult<Self> {
        // The two ways in which it is called by the million.
        if let [callback, rest @ ..] = args.positional() {
            let callback = *callback;
            if args.named() == 0 {
                return Ok(Self { callback, args: rest, context: None });
            }
            if let Some(context) = args.only(py, context) {
                return Ok(Self { callback, args: rest, context: given(Some(context)) });
            }
        }
        Self::soon_slowly(py, params, args)
    }

    #[cold]
    fn soon_slowly(py: Attached<'_>, params: &Params<2>, args: &Args<'py>) -> PyResult<Self> {
        let (values, rest) = params.parse_rest(py, args)?;
        let [Some(callback), context] = values else { return Err(missing(py)) };
        Ok(Self { callback, args: rest, context: given(context) })
    }

    /// `time, callback, *args, context=None`.
    #[inline]
    pub(crate) fn timed(
        py: Attached<'_>,
        params: &Params<3>,
        args: &Args<'py>,
    ) -> PyResult<(Borrowed<'py>, Self)> {
        let (values, rest) = params.parse_rest(py, args)?;
        let [Some(time), Some(callback), context] = values else { return Err(missing(py)) };
        Ok((time, Self { callback, args: rest, context: given(context) }))
    }

    /// `fd, callback, *args`.
    #[inline]
    pub(crate) fn io(py: Attached<'_>, name: &str, args: &Args<'py>) -> PyResult<(Borrowed<'py>, Self)> {
        match args.positional() {
            [fd, callback, rest @ ..] if args.named() == 0 => {
                Ok((*fd, Self { callback: *callback, args: rest, context: None }))
            }
            _ => {
                let text =
                    format!("{name}() takes a file descriptor, a callback and its positional arguments");
                Err(pyrt::Fault::type_error(text).raise(py))
            }
        }
    }
}

#[inline]
fn given(context: Option<Borrowed<'_>>) -> Option<Borrowed<'_>> {
    context.filter(|context| !context.is_none())
}

/// Parsing has seen to it that this does not happen.
#[cold]
fn missing(py: Attached<'_>) -> pyrt::Raised {
    pyrt::Fault::system("a required argument was lost").raise(py)
}
