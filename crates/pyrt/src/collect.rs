//! Tuples, lists, dicts and slices. Attached threads only.

use crate::{AsObj, Attached, Borrowed, Obj, Owned, PyResult, Raised, ffi};

impl Owned {
    /// A `tuple` of the given references.
    #[inline]
    pub fn tuple<const N: usize>(py: Attached<'_>, items: [Owned; N]) -> PyResult<Self> {
        // SAFETY: attached; a new reference or NULL with an exception.
        let tuple = unsafe { Self::from_ptr(py, ffi::PyTuple_New(N as isize))? };
        for (index, item) in items.into_iter().enumerate() {
            // SAFETY: a new tuple of N places, each filled once with a reference given away.
            unsafe { ffi::PyTuple_SET_ITEM(tuple.as_ptr(), index as isize, item.into_ptr()) };
        }
        Ok(tuple)
    }

    /// A `tuple` of new references to the given objects.
    pub fn tuple_of(py: Attached<'_>, items: &[Borrowed<'_>]) -> PyResult<Self> {
        // SAFETY: attached; a new reference or NULL with an exception.
        let tuple = unsafe { Self::from_ptr(py, ffi::PyTuple_New(items.len() as isize))? };
        for (index, item) in items.iter().enumerate() {
            // SAFETY: a new tuple of that many places, each filled once with a reference given away.
            unsafe { ffi::PyTuple_SET_ITEM(tuple.as_ptr(), index as isize, item.clone_ref(py).into_ptr()) };
        }
        Ok(tuple)
    }

    /// An empty `list`.
    pub fn list(py: Attached<'_>) -> PyResult<Self> {
        // SAFETY: attached; a new reference or NULL with an exception.
        unsafe { Self::from_ptr(py, ffi::PyList_New(0)) }
    }

    /// A `list` of the given references.
    pub fn list_of(py: Attached<'_>, items: Vec<Owned>) -> PyResult<Self> {
        // SAFETY: attached; a new reference or NULL with an exception.
        let list = unsafe { Self::from_ptr(py, ffi::PyList_New(items.len() as isize))? };
        for (index, item) in items.into_iter().enumerate() {
            // SAFETY: a new list of that many places that nobody else has seen, each filled once.
            unsafe { ffi::PyList_SET_ITEM(list.as_ptr(), index as isize, item.into_ptr()) };
        }
        Ok(list)
    }

    /// An empty `dict`.
    pub fn dict(py: Attached<'_>) -> PyResult<Self> {
        // SAFETY: attached; a new reference or NULL with an exception.
        unsafe { Self::from_ptr(py, ffi::PyDict_New()) }
    }

    /// `slice(start, stop)`.
    pub fn slice(py: Attached<'_>, start: isize, stop: isize) -> PyResult<Self> {
        let (start, stop) = (Self::int(py, start as i64)?, Self::int(py, stop as i64)?);
        // SAFETY: attached, alive; NULL stands for None.
        unsafe { Self::from_ptr(py, ffi::PySlice_New(start.as_ptr(), stop.as_ptr(), core::ptr::null_mut())) }
    }
}

impl Obj {
    /// Whether it is a `tuple`.
    #[inline]
    pub fn is_tuple(&self) -> bool {
        // SAFETY: alive; a test of type flags.
        unsafe { ffi::PyTuple_Check(self.as_ptr()) != 0 }
    }

    /// Whether it is a `list`.
    #[inline]
    pub fn is_list(&self) -> bool {
        // SAFETY: alive; a test of type flags.
        unsafe { ffi::PyList_Check(self.as_ptr()) != 0 }
    }

    /// Whether it is a `dict`.
    #[inline]
    pub fn is_dict(&self) -> bool {
        // SAFETY: alive; a test of type flags.
        unsafe { ffi::PyDict_Check(self.as_ptr()) != 0 }
    }

    /// The items of a `tuple`, kept alive by it.
    #[inline]
    pub fn as_tuple(&self, py: Attached<'_>) -> PyResult<&[Borrowed<'_>]> {
        if !self.is_tuple() {
            return Err(self.wrong_type(py, "tuple"));
        }
        // SAFETY: a tuple holds its items in an array of pointers that never changes once others see it; `Borrowed` is a
        // transparent pointer, and the items live as long as the tuple.
        unsafe {
            let tuple = self.as_ptr().cast::<ffi::PyTupleObject>();
            let items = (&raw const (*tuple).ob_item).cast::<Borrowed<'_>>();
            Ok(core::slice::from_raw_parts(items, ffi::PyTuple_GET_SIZE(self.as_ptr()) as usize))
        }
    }

    /// `list.append(item)`.
    pub fn append(&self, py: Attached<'_>, item: &impl AsObj) -> PyResult<()> {
        // SAFETY: attached, both alive; the runtime refuses what is no list.
        Raised::check(py, unsafe { ffi::PyList_Append(self.as_ptr(), item.as_obj().as_ptr()) })
    }

    /// `set.add(item)`.
    #[inline]
    pub fn set_add(&self, py: Attached<'_>, item: &impl AsObj) -> PyResult<()> {
        // SAFETY: attached, both alive; the runtime refuses what is no set.
        Raised::check(py, unsafe { ffi::PySet_Add(self.as_ptr(), item.as_obj().as_ptr()) })
    }

    /// `set.discard(item)`.
    #[inline]
    pub fn set_discard(&self, py: Attached<'_>, item: &impl AsObj) -> PyResult<()> {
        // SAFETY: attached, both alive; the runtime refuses what is no set.
        Raised::check(py, unsafe { ffi::PySet_Discard(self.as_ptr(), item.as_obj().as_ptr()) })
    }

    /// `len(set)`.
    #[inline]
    pub fn set_len(&self, py: Attached<'_>) -> PyResult<usize> {
        // SAFETY: attached, alive; the runtime refuses what is no set.
        let size = unsafe { ffi::PySet_Size(self.as_ptr()) };
        usize::try_from(size).map_err(|_| Raised::set(py))
    }

    /// `dict.get(key)`.
    #[inline]
    pub fn dict_get(&self, py: Attached<'_>, key: &impl AsObj) -> PyResult<Option<Owned>> {
        if !self.is_dict() {
            return Err(self.wrong_type(py, "dict"));
        }
        let mut found = core::ptr::null_mut();
        // SAFETY: attached, a dict and a live key; `found` receives a new reference or NULL.
        Raised::check(py, unsafe {
            ffi::PyDict_GetItemRef(self.as_ptr(), key.as_obj().as_ptr(), &mut found)
        })?;
        // SAFETY: as above.
        Ok(unsafe { Owned::from_ptr_or_none(py, found) })
    }

    /// `dict[key] = value`.
    #[inline]
    pub fn dict_set(&self, py: Attached<'_>, key: &impl AsObj, value: &impl AsObj) -> PyResult<()> {
        // SAFETY: attached, all alive; the runtime refuses what is no dict.
        Raised::check(py, unsafe {
            ffi::PyDict_SetItem(self.as_ptr(), key.as_obj().as_ptr(), value.as_obj().as_ptr())
        })
    }

    /// A copy of a `dict`.
    pub fn dict_copy(&self, py: Attached<'_>) -> PyResult<Owned> {
        // SAFETY: attached, alive; the runtime refuses what is no dict. A new reference or NULL with an exception.
        unsafe { Owned::from_ptr(py, ffi::PyDict_Copy(self.as_ptr())) }
    }

    /// Start, stop and step of a `slice`, fitted to a sequence of `length` items as Python does.
    pub fn slice_indices(&self, py: Attached<'_>, length: usize) -> PyResult<(isize, isize, isize)> {
        // SAFETY: alive; a test of its type.
        if unsafe { ffi::PySlice_Check(self.as_ptr()) } == 0 {
            return Err(self.wrong_type(py, "slice"));
        }
        let (mut start, mut stop, mut step) = (0, 0, 0);
        // SAFETY: attached, a slice; the three are plain integers.
        unsafe {
            Raised::check(py, ffi::PySlice_Unpack(self.as_ptr(), &mut start, &mut stop, &mut step))?;
            ffi::PySlice_AdjustIndices(length as isize, &mut start, &mut stop, step);
        }
        Ok((start, stop, step))
    }
}
