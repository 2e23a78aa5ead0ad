//! `Bell`: a thread of Python waits until another one rings. Unlike a lock of Python's the wait ends by an interrupt as well, and the
//! context is not the pool's meanwhile. Attached threads only.

use std::ffi::CStr;
use std::sync::Arc;

use pyrt::{Args, Attached, Class, Instance, Method, Owned, PyResult, Traverse, Visit, Visited, confined};

use crate::bridge::{self, Bridge};
use crate::callback::{self, Suspension};

/// The payload.
pub(crate) struct Bell {
    suspension: Arc<Suspension>,
}

confined!(Bell { suspension });

impl Traverse for Bell {
    fn traverse(&self, _visit: &mut Visit<'_>) -> Visited {
        Ok(())
    }
}

impl Class for Bell {
    const NAME: &'static CStr = c"erlang._bridge.Bell";
    const DOC: &'static CStr = c"Somebody may wait until it rings.";
    const METHODS: &'static [Method<Self>] = &[
        Method::<Self>::noargs(c"ring", Self::ring, c"ring($self)\n--\n\nEnds the wait, or the next one."),
        Method::<Self>::noargs(c"wait", Self::wait, c"wait($self)\n--\n\nWaits until it rings."),
        Method::END,
    ];
}

impl Bell {
    fn ring(_py: Attached<'_>, this: Instance<'_, Self>) -> PyResult<()> {
        this.suspension.nudge();
        Ok(())
    }

    fn wait(py: Attached<'_>, this: Instance<'_, Self>) -> PyResult<()> {
        let object = this.object();
        let class = object.class(py);
        let bridge = bridge::MODULE.state_of_type(py, &class)?;
        callback::rest(py, bridge, &this.suspension, None)
    }
}

/// `bell()`: a new one.
pub(crate) fn bell(py: Attached<'_>, bridge: &Bridge, _args: Args<'_>) -> PyResult<Owned> {
    bridge.bell(py, Bell { suspension: Arc::new(Suspension::new()) })
}
