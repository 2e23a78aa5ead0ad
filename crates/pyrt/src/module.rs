//! `ModuleDef`: a module made by multi-phase initialisation (PEP 489), once per interpreter, with its state.
//!
//! The definition is a static without Python objects; everything made of objects is in the state. It allows own-GIL
//! sub-interpreters (PEP 684, 3.12+) and says that it needs no GIL (PEP 703, 3.13+). Attached threads only.

use core::cell::UnsafeCell;
use core::ffi::{CStr, c_int, c_void};
use core::marker::PhantomData;
use core::mem::MaybeUninit;
use core::ops::Deref;
use core::ptr::NonNull;

use crate::method::Function;
use crate::{
    AsObj, Attached, Borrowed, Class, Confined, Fault, Obj, Owned, PoolRef, PyResult, Raised, Traverse, Type,
    Visit, Visited, ffi, guard,
};

/// A module and the state it has in each interpreter.
///
/// The state is `Sync`, as without a GIL several threads read it at once; types, names and imports never change once made.
pub trait Module: Traverse + Confined + Sync + Sized + 'static {
    /// The full name, `package.module`.
    const NAME: &'static CStr;
    /// The docstring.
    const DOC: &'static CStr = c"";
    /// The functions, ending with [`Function::END`].
    const FUNCTIONS: &'static [Function<Self>] = &[Function::END];

    /// Makes the state when the module is imported, and adds to the module what users shall see.
    fn exec(py: Attached<'_>, module: Borrowed<'_>) -> PyResult<Self>;
}

/// The memory the runtime keeps per module: zeroed first, so not ready.
#[repr(C)]
struct Kept<S> {
    ready: bool,
    state: MaybeUninit<S>,
}

/// The definition of a module; a static.
///
/// ```text
/// pub static MODULE: ModuleDef<Probe> = ModuleDef::new();
///
/// #[unsafe(no_mangle)]
/// pub extern "C" fn PyInit_probe() -> pyrt::RawObject {
///     MODULE.init()
/// }
/// ```
pub struct ModuleDef<S> {
    def: UnsafeCell<ffi::PyModuleDef>,
    state: PhantomData<fn() -> S>,
}

// SAFETY: written by the runtime under its own lock, when the definition is first used; only its address is used here.
unsafe impl<S> Sync for ModuleDef<S> {}

/// A table of slots whose pointers are to functions and flags.
struct Slots<const N: usize>([ffi::PyModuleDef_Slot; N]);

impl<S: Module> ModuleDef<S> {
    const SLOTS: &'static Slots<4> = &Slots([
        ffi::PyModuleDef_Slot { slot: ffi::Py_mod_exec, value: exec::<S> as *mut c_void },
        #[cfg(Py_3_12)]
        ffi::PyModuleDef_Slot {
            slot: ffi::Py_mod_multiple_interpreters,
            value: ffi::Py_MOD_PER_INTERPRETER_GIL_SUPPORTED,
        },
        #[cfg(Py_3_13)]
        ffi::PyModuleDef_Slot { slot: ffi::Py_mod_gil, value: ffi::Py_MOD_GIL_NOT_USED },
        ffi::PyModuleDef_Slot { slot: 0, value: core::ptr::null_mut() },
        #[cfg(not(Py_3_12))]
        ffi::PyModuleDef_Slot { slot: 0, value: core::ptr::null_mut() },
        #[cfg(not(Py_3_13))]
        ffi::PyModuleDef_Slot { slot: 0, value: core::ptr::null_mut() },
    ]);

    /// The definition of the module of `S`.
    #[allow(clippy::new_without_default, reason = "it is meant for statics")]
    pub const fn new() -> Self {
        const { assert!(Function::<S>::is_terminated(S::FUNCTIONS), "FUNCTIONS must end with Function::END") };
        const { assert!(align_of::<S>() <= 2 * size_of::<usize>(), "the allocator cannot align this state") };
        Self {
            def: UnsafeCell::new(ffi::PyModuleDef {
                m_base: ffi::PyModuleDef_HEAD_INIT,
                m_name: S::NAME.as_ptr(),
                m_doc: S::DOC.as_ptr(),
                m_size: size_of::<Kept<S>>() as isize,
                m_methods: S::FUNCTIONS.as_ptr().cast_mut().cast(),
                m_slots: Self::SLOTS.0.as_ptr().cast_mut(),
                m_traverse: Some(traverse::<S>),
                m_clear: Some(clear::<S>),
                m_free: Some(free::<S>),
            }),
            state: PhantomData,
        }
    }

    /// What `PyInit_…` returns.
    pub fn init(&'static self) -> crate::RawObject {
        // SAFETY: called by the import machinery, attached, with a definition that lives for ever.
        unsafe { ffi::PyModuleDef_Init(self.def.get()) }
    }

    /// The state of the module a class belongs to; subclasses made in Python count as their native base.
    #[inline]
    pub fn state_of_type<'a>(&'static self, py: Attached<'_>, class: &'a impl AsObj) -> PyResult<&'a S> {
        // SAFETY: alive; a test of type flags.
        if unsafe { ffi::PyType_Check(class.as_obj().as_ptr()) } == 0 {
            return Err(class.as_obj().wrong_type(py, "a class"));
        }
        // SAFETY: attached, a type. The module is borrowed from the type, which keeps it alive.
        let module = unsafe { ffi::PyType_GetModuleByDef(class.as_obj().as_ptr().cast(), self.def.get()) };
        if module.is_null() {
            return Err(Raised::set(py));
        }
        // SAFETY: made from this definition.
        unsafe { state_of_module(py, module) }
    }

    /// A strong reference to the state, for payloads that need it on a hot path.
    pub fn state_ref(&'static self, py: Attached<'_>, class: &impl AsObj) -> PyResult<StateRef<S>> {
        let state = NonNull::from(self.state_of_type(py, class)?);
        // SAFETY: as in `state_of_type`, which succeeded.
        let module = unsafe { ffi::PyType_GetModuleByDef(class.as_obj().as_ptr().cast(), self.def.get()) };
        // SAFETY: attached; alive as long as the type.
        let module = unsafe { Borrowed::from_ptr_unchecked(py, module) }.clone_ref(py);
        Ok(StateRef { module, state })
    }

    /// The state of a module object that was made from this definition.
    pub fn state_of_module<'a>(&'static self, py: Attached<'_>, module: &'a impl AsObj) -> PyResult<&'a S> {
        // SAFETY: attached, alive; refuses what is no module of this definition.
        unsafe {
            if ffi::PyModule_Check(module.as_obj().as_ptr()) == 0
                || ffi::PyModule_GetDef(module.as_obj().as_ptr()) != self.def.get()
            {
                return Err(module.as_obj().wrong_type(py, &format!("the module {:?}", S::NAME)));
            }
            state_of_module(py, module.as_obj().as_ptr())
        }
    }
}

/// # Safety
/// `module` was made from the definition of `S` and lives as long as `'a`.
#[inline]
pub(crate) unsafe fn state_of_module<'a, S: Module>(
    py: Attached<'_>,
    module: *mut ffi::PyObject,
) -> PyResult<&'a S> {
    // SAFETY: by contract; the runtime keeps that much memory per module, zeroed until `exec`.
    let kept = unsafe { ffi::PyModule_GetState(module).cast::<Kept<S>>().as_ref() };
    match kept {
        // SAFETY: ready is set once the state is.
        Some(kept) if kept.ready => Ok(unsafe { kept.state.assume_init_ref() }),
        _ => Err(Fault::system("the module has no state yet").raise(py)),
    }
}

/// The state of a module, kept alive by a reference to the module. Show it to the collector.
pub struct StateRef<S> {
    module: Owned,
    state: NonNull<S>,
}

impl<S> StateRef<S> {
    /// The module.
    pub fn module(&self) -> &Obj {
        &self.module
    }

    /// The pool of a type in the state.
    #[inline(always)]
    pub fn pool<T: Class>(&self, py: Attached<'_>, of: impl FnOnce(&S) -> &Type<T>) -> PoolRef {
        // SAFETY: the pool is part of the state, which the module keeps.
        unsafe { PoolRef::new(of(self).pool(), self.module.clone_ref(py)) }
    }

    /// Another reference.
    pub fn clone_ref(&self, py: Attached<'_>) -> Self {
        Self { module: self.module.clone_ref(py), state: self.state }
    }
}

impl<S> Deref for StateRef<S> {
    type Target = S;
    #[inline]
    fn deref(&self) -> &S {
        // SAFETY: the state lives in the module, which is kept alive.
        unsafe { self.state.as_ref() }
    }
}

// SAFETY: a reference to an object, and one to a state that is itself confined.
unsafe impl<S: Confined> Confined for StateRef<S> {}
// SAFETY: gives nothing but shared access to a `Sync` state.
unsafe impl<S: Sync> Sync for StateRef<S> {}

impl<S> Traverse for StateRef<S> {
    fn traverse(&self, visit: &mut Visit<'_>) -> Visited {
        visit.object(&self.module)
    }
}

unsafe extern "C" fn exec<S: Module>(module: *mut ffi::PyObject) -> c_int {
    // SAFETY: called attached by the import machinery, with a module made from the definition of `S`; its memory is ours.
    unsafe {
        guard(|py| {
            let kept = ffi::PyModule_GetState(module).cast::<Kept<S>>();
            if kept.is_null() {
                return Err(Raised::set(py));
            }
            if (*kept).ready {
                return Ok(0);
            }
            let state = S::exec(py, Borrowed::from_ptr_unchecked(py, module))?;
            (*kept).state.write(state);
            (*kept).ready = true;
            Ok(0)
        })
    }
}

unsafe extern "C" fn traverse<S: Module>(
    module: *mut ffi::PyObject,
    visit: ffi::visitproc,
    arg: *mut c_void,
) -> c_int {
    let shown = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| -> Visited {
        // SAFETY: called by the collector with a module made from the definition of `S`.
        unsafe {
            match ffi::PyModule_GetState(module).cast::<Kept<S>>().as_ref() {
                Some(kept) if kept.ready => {
                    kept.state.assume_init_ref().traverse(&mut Visit::new(visit, arg))
                }
                _ => Ok(()),
            }
        }
    }));
    match shown {
        Ok(Ok(())) => 0,
        Ok(Err(stop)) => stop.0,
        Err(panic) => {
            core::mem::forget(panic);
            0
        }
    }
}

/// Types refer to their module, and the state to its types. Clearing a type gives up its module, so the state, which instances
/// may still use, is given what `Traverse::clear` takes from it and no more until `free`.
unsafe extern "C" fn clear<S: Module>(module: *mut ffi::PyObject) -> c_int {
    // SAFETY: called attached by the collector with a module made from the definition of `S`.
    unsafe {
        guard::contain(|| {
            if let Some(kept) = ffi::PyModule_GetState(module).cast::<Kept<S>>().as_ref() {
                if kept.ready {
                    kept.state.assume_init_ref().clear(Attached::assume());
                }
            }
        });
    }
    0
}

unsafe extern "C" fn free<S: Module>(module: *mut c_void) {
    // SAFETY: called attached when the module is destroyed; nothing refers to its state any more.
    unsafe {
        guard::contain(|| {
            let kept = ffi::PyModule_GetState(module.cast()).cast::<Kept<S>>();
            if !kept.is_null() && (*kept).ready {
                (*kept).ready = false;
                (*kept).state.assume_init_drop();
            }
        });
    }
}

/// Adds an object to a module.
pub fn add(py: Attached<'_>, module: &impl AsObj, name: &CStr, value: &impl AsObj) -> PyResult<()> {
    // SAFETY: attached, alive, NUL-terminated; refuses what is no module.
    Raised::check(py, unsafe {
        ffi::PyModule_AddObjectRef(module.as_obj().as_ptr(), name.as_ptr(), value.as_obj().as_ptr())
    })
}
