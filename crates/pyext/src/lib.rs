//! The wheel's `PyInit__native`: `pyloop`'s module, loaded by Python itself. Called by `import erlang._native`.

/// Called by the import machinery, once per interpreter.
#[unsafe(no_mangle)]
#[allow(non_snake_case, reason = "the name Python looks for")]
pub extern "C" fn PyInit__native() -> pyloop::RawObject {
    pyloop::init()
}
