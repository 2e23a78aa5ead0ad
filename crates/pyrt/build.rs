//! Gives the crate its `Py_3_12`, `Py_GIL_DISABLED` … cfgs and lets its test binaries find libpython and its library.
//!
//! `PYO3_PYTHON` chooses the interpreter. The rpath goes to test binaries only: what users load is bound to the
//! libpython of the process it is loaded into.

fn main() {
    pyo3_build_config::use_pyo3_cfgs();
    if let Some(dir) = pyo3_build_config::get().lib_dir() {
        println!("cargo:rustc-link-arg-tests=-Wl,-rpath,{dir}");
        if let Some(home) = std::path::Path::new(dir).parent() {
            println!("cargo:rustc-env=PYRT_TEST_HOME={}", home.display());
        }
    }
}
