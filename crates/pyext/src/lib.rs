//! The wheel's `PyInit__native` and `PyInit__web`: the modules of `pyloop` and `web`, loaded by Python itself.

/// Called by the import machinery, once per interpreter.
#[unsafe(no_mangle)]
#[allow(non_snake_case, reason = "the name Python looks for")]
pub extern "C" fn PyInit__native() -> pyloop::RawObject {
    pyloop::init()
}

/// The same library has a second module: `erlang._serve` loads it by this name.
#[unsafe(no_mangle)]
#[allow(non_snake_case, reason = "the name Python looks for")]
pub extern "C" fn PyInit__web() -> web::RawObject {
    web::init()
}
