//! `Selected`: a poller's fd that the BEAM watches by `enif_select`, and how it is let go: stopped before it is closed.
//!
//! rustler's resources have no stop callback, which `enif_select` asks for, so this is a resource type of its own. The object holds
//! the poller, so its fd stays open until the BEAM has let go of it. Only functions called by a process select.

use core::ffi::{c_int, c_void};
use core::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicPtr, Ordering};

use evloop::os::Poller;
use rustler::sys::{
    ERL_NIF_SELECT_READ, ERL_NIF_SELECT_STOP, ErlNifEnv, ErlNifEvent, ErlNifPid, ErlNifResourceFlags,
    ErlNifResourceType, ErlNifResourceTypeInit, enif_alloc_resource, enif_init_resource_type,
    enif_release_resource, enif_select,
};
use rustler::{Env, LocalPid, Term};

use crate::atoms;

static TYPE: AtomicPtr<ErlNifResourceType> = AtomicPtr::new(ptr::null_mut());

unsafe extern "C" fn destroy(_env: *mut ErlNifEnv, object: *mut c_void) {
    // SAFETY: `new` wrote the poller there, and this is called once, when nobody has the object any more.
    drop(unsafe { ptr::read(object.cast::<Arc<Poller>>()) });
}

/// The BEAM has let go of the fd. The poller closes it when the object is destroyed.
unsafe extern "C" fn stopped(_env: *mut ErlNifEnv, _object: *mut c_void, _fd: ErlNifEvent, _direct: c_int) {}

/// Makes the resource type. When the library is loaded.
pub(crate) fn load(env: Env<'_>) -> bool {
    let mut init = ErlNifResourceTypeInit {
        dtor: destroy as *const _,
        stop: stopped as *const _,
        down: ptr::null(),
        members: 2,
        dyncall: ptr::null(),
    };
    let name = c"erlang_python.selected".as_ptr();
    let flags = ErlNifResourceFlags::ERL_NIF_RT_CREATE;
    // SAFETY: called while loading; the callbacks are functions of this library, which is never unloaded.
    let made =
        unsafe { enif_init_resource_type(env.as_c_arg(), name, &raw mut init, flags, ptr::null_mut()) };
    TYPE.store(made.cast_mut(), Ordering::Release);
    !made.is_null()
}

/// A reference to the object.
pub(crate) struct Selected {
    object: *mut c_void,
    fd: c_int,
}

// SAFETY: the object is counted by the BEAM, and its content is `Sync`.
unsafe impl Send for Selected {}

impl Selected {
    pub(crate) fn new(poller: &Arc<Poller>) -> Option<Self> {
        let fd = poller.lasting_fd().ok()?;
        let kind = TYPE.load(Ordering::Acquire);
        if kind.is_null() {
            return None;
        }
        // SAFETY: a type of ours; room for an `Arc`, for which the BEAM's alignment of a word is enough.
        let object = unsafe { enif_alloc_resource(kind, size_of::<Arc<Poller>>()) };
        if object.is_null() {
            return None;
        }
        // SAFETY: fresh memory of that size.
        unsafe { ptr::write(object.cast::<Arc<Poller>>(), poller.clone()) };
        Some(Self { object, fd })
    }

    /// Has `{select, _, Reference, ready_input}` sent to a process, once, when the fd is readable.
    pub(crate) fn arm(&self, env: Env<'_>, to: LocalPid, reference: Term<'_>) -> bool {
        let pid: *const ErlNifPid = to.as_c_arg();
        let (env, reference) = (env.as_c_arg(), reference.as_c_arg());
        // SAFETY: called by a process, whose environment it is; the fd is open, as the object holds its poller.
        unsafe { enif_select(env, self.fd, ERL_NIF_SELECT_READ, self.object, pid, reference) >= 0 }
    }

    /// Lets go of the fd.
    pub(crate) fn stop(self, env: Env<'_>) {
        let undefined = atoms::undefined().to_term(env).as_c_arg();
        // SAFETY: as above; stopping what was never armed is allowed.
        unsafe {
            enif_select(env.as_c_arg(), self.fd, ERL_NIF_SELECT_STOP, self.object, ptr::null(), undefined)
        };
    }
}

impl Drop for Selected {
    fn drop(&mut self) {
        // SAFETY: one reference is owned.
        unsafe { enif_release_resource(self.object) };
    }
}
