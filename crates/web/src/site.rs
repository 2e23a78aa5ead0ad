//! `Site`: an app with what it is served by: its loop, limits and timeouts. Makes the connections.

use std::ffi::CStr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use evloop::os::now;
use pyrt::{
    Args, Attached, Borrowed, Class, Fault, Fixed, Guarded, Instance, Method, Owned, PyResult, Signature,
    StateRef, Traverse, TypeSlot, Typed, Visit, Visited, confined,
};

use crate::connection::Connection;
use crate::head::Limits;
use crate::module::{MODULE, Web};
use crate::respond;

pub(crate) struct Site {
    pub(crate) web: StateRef<Web>,
    pub(crate) owner: Fixed,
    pub(crate) app: Fixed,
    /// The state of the app's lifespan: each request gets a copy.
    pub(crate) state: Fixed,
    pub(crate) root_path: Fixed,
    pub(crate) is_secure: bool,
    pub(crate) limits: Limits,
    /// The largest message of a WebSocket.
    pub(crate) message: usize,
    /// In nanoseconds: between requests, for a head, and between two pieces of a body.
    pub(crate) idle: u64,
    pub(crate) for_head: u64,
    pub(crate) for_body: u64,
    /// The connections there are.
    pub(crate) connections: Fixed,
    date: Guarded<Date>,
}

/// The date as it is written, and the second it is of.
#[derive(Default)]
struct Date {
    second: u64,
    text: Vec<u8>,
}

confined!(Date { second, text });

confined!(Site {
    web,
    owner,
    app,
    state,
    root_path,
    is_secure,
    limits,
    message,
    idle,
    for_head,
    for_body,
    connections,
    date
});

impl Traverse for Site {
    fn traverse(&self, visit: &mut Visit<'_>) -> Visited {
        self.web.traverse(visit)?;
        self.owner.traverse(visit)?;
        self.app.traverse(visit)?;
        self.state.traverse(visit)?;
        self.connections.traverse(visit)
    }
}

const NEW: Signature<11> = Signature::function(
    "Site",
    [
        "loop",
        "app",
        "state",
        "connections",
        "root_path",
        "is_secure",
        "max_head",
        "max_headers",
        "max_body",
        "max_message",
        "timeouts",
    ],
)
.required(11);

impl Class for Site {
    const NAME: &'static CStr = c"erlang._web.Site";
    const DOC: &'static CStr = c"An app, and how it is served.";
    const METHODS: &'static [Method<Self>] = &[
        Method::<Self>::noargs(
            c"connection",
            Self::connection,
            c"connection($self)\n--\n\nA protocol for a new connection.",
        ),
        Method::END,
    ];
    const SLOTS: &'static [TypeSlot<Self>] = &[TypeSlot::new(Self::new)];
}

impl Site {
    fn new(py: Attached<'_>, class: Borrowed<'_>, args: Args<'_>) -> PyResult<Self> {
        let values = NEW.parse(py, &args)?;
        let [
            Some(owner),
            Some(app),
            Some(state),
            Some(connections),
            Some(root_path),
            Some(is_secure),
            Some(max_head),
            Some(max_headers),
            Some(max_body),
            Some(max_message),
            Some(timeouts),
        ] = values
        else {
            return Err(Fault::system("a required argument was lost").raise(py));
        };
        let [idle, for_head, for_body] = timeouts.as_tuple(py)? else {
            return Err(Fault::value_error("there are three timeouts").raise(py));
        };
        let keep = |object: Borrowed<'_>| Fixed::from(object.clone_ref(py));
        Ok(Self {
            web: MODULE.state_ref(py, &class)?,
            owner: keep(owner),
            app: keep(app),
            state: keep(state),
            root_path: keep(root_path),
            is_secure: is_secure.is_true(py)?,
            limits: Limits {
                head: max_head.to_usize(py)?,
                headers: max_headers.to_usize(py)?,
                body: max_body.to_u64(py)?,
            },
            message: max_message.to_usize(py)?,
            idle: nanoseconds(py, *idle)?,
            for_head: nanoseconds(py, *for_head)?,
            for_body: nanoseconds(py, *for_body)?,
            connections: keep(connections),
            date: Guarded::default(),
        })
    }

    fn connection(py: Attached<'_>, this: Instance<'_, Self>) -> PyResult<Typed<Connection>> {
        this.web.connection.create(py, Connection::new(this.clone_ref(py)))
    }

    /// The time, as a response says it.
    pub(crate) fn date<R>(&self, py: Attached<'_>, show: impl FnOnce(&[u8]) -> R) -> PyResult<R> {
        let second = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO).as_secs();
        self.date.with(py, |date| {
            if date.second != second {
                *date = Date { second, text: respond::date(second) };
            }
            show(&date.text)
        })
    }

    /// The time after so many nanoseconds.
    pub(crate) fn after(&self, delay: u64) -> u64 {
        now().saturating_add(delay)
    }

    /// Says that an app failed.
    #[cold]
    pub(crate) fn failed(&self, py: Attached<'_>, exception: &Owned, path: &Owned) -> PyResult<()> {
        self.web.failed.get(py)?.call(py, [exception.borrow(), path.borrow()]).map(drop)
    }
}

fn nanoseconds(py: Attached<'_>, seconds: Borrowed<'_>) -> PyResult<u64> {
    let seconds = seconds.to_f64(py)?;
    let duration =
        Duration::try_from_secs_f64(seconds).map_err(|_| Fault::value_error("not a timeout").raise(py))?;
    Ok(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX))
}
