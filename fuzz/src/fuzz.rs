//! The fuzz target: an input becomes a term or an object, which crosses back and forth. In the VM of tools/fuzz.sh only.
//!
//! A panic here is a finding, and ends the VM. That is why this file and those below it may do what the rest may not.
#![allow(clippy::expect_used, clippy::panic)]

mod check;
#[cfg(feature = "libfuzzer")]
mod engine;
mod recipe;

use pyrt::{Args, Attached, PyResult};

use crate::bridge::Bridge;

/// `erlang._bridge.fuzz_one(data, ...)`: looks at inputs.
pub(crate) fn one(py: Attached<'_>, bridge: &Bridge, args: Args<'_>) -> PyResult<()> {
    for data in args.positional() {
        check::input(py, bridge, data.to_bytes(py)?);
    }
    Ok(())
}

/// `erlang._bridge.fuzz(argument, ...)`: has libFuzzer find inputs. Ends the VM when it is done.
#[cfg(feature = "libfuzzer")]
pub(crate) use engine::run;

/// Without the engine there is nothing to run.
#[cfg(not(feature = "libfuzzer"))]
pub(crate) fn run(py: Attached<'_>, _bridge: &Bridge, _args: Args<'_>) -> PyResult<()> {
    Err(pyrt::Fault::runtime("built without libFuzzer").raise(py))
}
