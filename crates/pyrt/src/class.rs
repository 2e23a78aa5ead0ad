//! `Class`: a heap type described by constants, and its making in one interpreter. Attached threads only.

use core::ffi::{CStr, c_int, c_uint, c_void};

use crate::layout::{CallSlot, DictSlot, Offset, WeakSlot, base_size, object_size, payload_offset};
use crate::method::{Method, Property};
use crate::slots::TypeSlot;
use crate::{
    AsObj, Attached, Confined, Fault, Obj, Owned, PoolRef, PyResult, Traverse, Type, ffi, lifecycle,
};

/// A payload and the Python class around it.
///
/// Everything is a constant, so that the tables sit in read-only memory and are shared by all interpreters; the type object
/// itself is made per interpreter by [`Type::new`] and kept in module state.
///
/// The payload is `Sync`, as without a GIL methods run on several threads at once: its parts are atomics,
/// [`ObjCell`](crate::ObjCell)s, [`Guarded`](crate::Guarded) state, or never change.
///
/// There are no free lists: an object that a user still refers to must never be recycled, and the runtime's allocator already
/// keeps blocks of each size at hand.
pub trait Class: Traverse + Confined + Sync + Sized + 'static {
    /// `module.Name`, as `__module__` and `__qualname__` shall say.
    const NAME: &'static CStr;
    /// The docstring; a first line `Name(a, b)\n--\n\n` becomes `__text_signature__`.
    const DOC: &'static CStr = c"";
    /// Python code may subclass it.
    const SUBCLASSABLE: bool = false;
    /// Class attributes cannot be set from Python. Ignored for a class with a mutable base, which the runtime refuses.
    const IMMUTABLE: bool = true;
    /// Instances are known to the garbage collector. Switch it off for payloads that can never refer to an object.
    const GC: bool = true;
    /// Deep chains of such instances are destroyed one after the other instead of recursively. Switch it off for a type on a
    /// hot path whose instances do not refer to each other.
    const CHAINS: bool = true;
    /// Number of `__slots__` of the Python base class given to [`Type::new`], if there is one.
    const BASE_SLOTS: usize = 0;
    /// The field for `__dict__`.
    const DICT: Option<Offset<Self, DictSlot>> = None;
    /// The field for weak references.
    const WEAKREFS: Option<Offset<Self, WeakSlot>> = None;
    /// The field that makes instances callable.
    const VECTORCALL: Option<Offset<Self, CallSlot<Self>>> = None;
    /// Whether the memory of instances is used again. They are not of a subclass then, the collector does not know them, and they tell
    /// where their pool is.
    const POOLED: bool = false;
    /// The methods, ending with [`Method::END`].
    const METHODS: &'static [Method<Self>] = &[Method::END];
    /// The properties, ending with [`Property::END`].
    const PROPERTIES: &'static [Property<Self>] = &[Property::END];
    /// `__new__`, `__repr__`, `__await__` and so on. Without [`TypeSlot::new`] Python cannot make instances.
    const SLOTS: &'static [TypeSlot<Self>] = &[];

    /// The pool that the memory of this one is for, if they are [`POOLED`](Self::POOLED): that of the type it was made with.
    #[inline(always)]
    fn pool(&self, _py: Attached<'_>) -> Option<PoolRef> {
        None
    }
}

/// `Name` of `module.Name`.
pub(crate) fn short_name(name: &'static CStr) -> &'static str {
    let text = name.to_str().unwrap_or("object");
    text.rsplit_once('.').map_or(text, |(_, short)| short)
}

impl<T: Class> Type<T> {
    /// Makes the type for the interpreter this thread is attached to. `base` is a Python class whose `__slots__`
    /// [`Class::BASE_SLOTS`] counts, or nothing for `object`.
    pub fn new(py: Attached<'_>, module: &impl AsObj, base: Option<&Obj>) -> PyResult<Self> {
        const { assert!(Method::<T>::is_terminated(T::METHODS), "METHODS must end with Method::END") };
        const { assert!(Property::<T>::is_terminated(T::PROPERTIES), "PROPERTIES must end with Property::END") };
        let mutable_base = match base {
            Some(base) => check_base::<T>(py, base)?,
            None if T::BASE_SLOTS > 0 => {
                return Err(Fault::system("BASE_SLOTS without a base class").raise(py));
            }
            None => false,
        };
        let new = T::SLOTS.iter().find(|slot| slot.id == ffi::Py_tp_new);
        let init = T::SLOTS.iter().any(|slot| slot.id == ffi::Py_tp_init);

        let mut flags = ffi::Py_TPFLAGS_DEFAULT;
        let options = [
            (T::GC, ffi::Py_TPFLAGS_HAVE_GC),
            (T::SUBCLASSABLE, ffi::Py_TPFLAGS_BASETYPE),
            (T::IMMUTABLE && !mutable_base, ffi::Py_TPFLAGS_IMMUTABLETYPE),
            // Inherited from `object`, `__new__` would make instances without a payload.
            (new.is_none(), ffi::Py_TPFLAGS_DISALLOW_INSTANTIATION),
            (T::VECTORCALL.is_some(), ffi::Py_TPFLAGS_HAVE_VECTORCALL),
        ];
        for (on, flag) in options {
            if on {
                flags |= flag;
            }
        }

        let members = members::<T>();
        let mut slots = Vec::with_capacity(T::SLOTS.len() + 10);
        let mut add = |slot: c_int, pfunc: *mut c_void| slots.push(ffi::PyType_Slot { slot, pfunc });
        add(ffi::Py_tp_dealloc, lifecycle::dealloc::<T> as *mut c_void);
        if T::GC {
            add(ffi::Py_tp_traverse, lifecycle::traverse::<T> as *mut c_void);
            add(ffi::Py_tp_clear, lifecycle::clear::<T> as *mut c_void);
        }
        add(ffi::Py_tp_methods, T::METHODS.as_ptr().cast_mut().cast());
        add(ffi::Py_tp_getset, T::PROPERTIES.as_ptr().cast_mut().cast());
        add(ffi::Py_tp_members, members.as_ptr().cast_mut().cast());
        if !T::DOC.is_empty() {
            add(ffi::Py_tp_doc, T::DOC.as_ptr().cast_mut().cast());
        }
        if T::VECTORCALL.is_some() {
            add(ffi::Py_tp_call, ffi::PyVectorcall_Call as *mut c_void);
        }
        for slot in T::SLOTS {
            add(slot.id, slot.function);
        }
        add(0, core::ptr::null_mut());

        let mut spec = ffi::PyType_Spec {
            name: T::NAME.as_ptr(),
            basicsize: object_size::<T>() as c_int,
            itemsize: 0,
            flags: flags as c_uint,
            slots: slots.as_mut_ptr(),
        };
        let bases = base.map(|base| Owned::tuple(py, [base.clone_ref(py)])).transpose()?;
        let bases = bases.as_ref().map_or(core::ptr::null_mut(), |bases| bases.as_ptr());
        // SAFETY: attached; the spec and its arrays live until the call returns, and what the type keeps pointers to
        // (methods and properties) is static. Members are copied by the runtime; the functions fit their slots by
        // construction of `TypeSlot`. A new reference or NULL with an exception.
        let object = unsafe {
            Owned::from_ptr(py, ffi::PyType_FromModuleAndSpec(module.as_obj().as_ptr(), &mut spec, bases))?
        };
        if let (Some(function), false) = (new.and_then(|slot| slot.vectorcall), init) {
            // As a slot this exists from 3.14 on. It is not inherited, so subclasses go through `tp_new`.
            // SAFETY: a heap type nobody else has seen; the field is what the runtime consults when the type is called.
            unsafe { (*object.as_ptr().cast::<ffi::PyTypeObject>()).tp_vectorcall = Some(function) };
        }
        // SAFETY: just made for `T`.
        Ok(unsafe { Self::from_object(object) })
    }

    /// [`new`](Self::new), and adds the type to the module under its short name.
    pub fn add_to(py: Attached<'_>, module: &impl AsObj, base: Option<&Obj>) -> PyResult<Self> {
        let new = Self::new(py, module, base)?;
        // SAFETY: attached; a module and a type.
        let status = unsafe { ffi::PyModule_AddType(module.as_obj().as_ptr(), new.object().as_ptr().cast()) };
        crate::Raised::check(py, status)?;
        Ok(new)
    }
}

/// Whether the base is mutable; an error if its layout is not what `T` expects.
fn check_base<T: Class>(py: Attached<'_>, base: &Obj) -> PyResult<bool> {
    // SAFETY: alive; a test of type flags.
    if unsafe { ffi::PyType_Check(base.as_ptr()) } == 0 {
        return Err(base.wrong_type(py, "a class"));
    }
    // SAFETY: a type object; plain fields, read attached.
    let (size, items, dict, weak, flags) = unsafe {
        let base = base.as_ptr().cast::<ffi::PyTypeObject>();
        (
            (*base).tp_basicsize,
            (*base).tp_itemsize,
            (*base).tp_dictoffset,
            (*base).tp_weaklistoffset,
            ffi::PyType_GetFlags(base),
        )
    };
    // Bits 3 and 4: dict and weak references kept by the runtime before the object.
    if size != base_size::<T>() as isize || items != 0 || dict != 0 || weak != 0 || flags & (3 << 3) != 0 {
        let text = format!(
            "a base of {} must have {} __slots__ and nothing else",
            short_name(T::NAME),
            T::BASE_SLOTS
        );
        return Err(Fault::type_error(text).raise(py));
    }
    Ok(flags & ffi::Py_TPFLAGS_IMMUTABLETYPE == 0)
}

/// The offsets the runtime wants to know, as the pseudo members it takes them from.
fn members<T: Class>() -> [ffi::PyMemberDef; 4] {
    let end = ffi::PyMemberDef {
        name: core::ptr::null(),
        type_code: 0,
        offset: 0,
        flags: 0,
        doc: core::ptr::null(),
    };
    let mut table = [end; 4];
    let wanted = [
        (c"__dictoffset__", T::DICT.map(Offset::get)),
        (c"__weaklistoffset__", T::WEAKREFS.map(Offset::get)),
        (c"__vectorcalloffset__", T::VECTORCALL.map(Offset::get)),
    ];
    let wanted = wanted.into_iter().filter_map(|(name, offset)| Some((name, offset?)));
    for (entry, (name, offset)) in table.iter_mut().zip(wanted) {
        entry.name = name.as_ptr();
        entry.type_code = ffi::Py_T_PYSSIZET;
        entry.offset = (payload_offset::<T>() + offset) as isize;
        entry.flags = ffi::Py_READONLY;
    }
    table
}
