//! Gives the crate its `Py_3_12`, `Py_GIL_DISABLED` … cfgs.

fn main() {
    pyo3_build_config::use_pyo3_cfgs();
}
