//! Messages: dicts made for an app, and what is read of those that it sends.

use pyrt::{AsObj, Attached, Borrowed, Buffer, Fault, Obj, Owned, PyResult, Raised};

use crate::module::Web;
use crate::respond::Start;

/// A dict of a few keys.
pub(crate) fn dict<const N: usize>(py: Attached<'_>, items: [(&Obj, &Obj); N]) -> PyResult<Owned> {
    let dict = Owned::dict(py)?;
    for (key, value) in items {
        dict.dict_set(py, &key.borrow(), &value.borrow())?;
    }
    Ok(dict)
}

/// The type of a message.
pub(crate) fn kind<'a>(
    py: Attached<'_>,
    web: &Web,
    message: &'a Owned,
    found: &'a mut Option<Owned>,
) -> PyResult<&'a str> {
    if !message.is_dict() {
        return Err(
            Fault::type_error(format!("a message is a dict, not {}", message.class_name(py))).raise(py)
        );
    }
    *found = message.dict_get(py, &web.names.kind)?;
    match found {
        Some(kind) if kind.is_str() => kind.to_str(py),
        _ => Err(Fault::type_error("a message has a type, which is a str").raise(py)),
    }
}

/// A value of a message that is there and not `None`.
pub(crate) fn value(py: Attached<'_>, message: &Owned, name: &impl AsObj) -> PyResult<Option<Owned>> {
    Ok(message.dict_get(py, name)?.filter(|value| !value.is_none()))
}

pub(crate) fn flag(py: Attached<'_>, message: &Owned, name: &impl AsObj) -> PyResult<bool> {
    value(py, message, name)?.map_or(Ok(false), |value| value.is_true(py))
}

/// The status of a response.
pub(crate) fn status(py: Attached<'_>, web: &Web, message: &Owned) -> PyResult<u16> {
    let wrong = || Fault::type_error("a status is an int").raise(py);
    let found = message.dict_get(py, &web.names.status)?.ok_or_else(wrong)?;
    if !found.is_int() {
        return Err(wrong());
    }
    match u16::try_from(found.to_i64(py)?) {
        Ok(status @ 200..=999) => Ok(status),
        _ => Err(Fault::value_error("not the status of a response").raise(py)),
    }
}

/// Shows each header of a message.
pub(crate) fn headers(
    py: Attached<'_>,
    web: &Web,
    message: &Owned,
    mut show: impl FnMut(&[u8], &[u8]) -> PyResult<()>,
) -> PyResult<()> {
    let Some(headers) = value(py, message, &web.names.headers)? else { return Ok(()) };
    let headers = headers.iter(py)?;
    while let Some(header) = headers.next(py)? {
        if header.is_tuple()
            && let [name, value] = header.as_tuple(py)?
        {
            show(octets(py, name)?, octets(py, value)?)?;
            continue;
        }
        let parts = header.iter(py)?;
        let (Some(name), Some(value), None) = (parts.next(py)?, parts.next(py)?, parts.next(py)?) else {
            return Err(Fault::value_error("a header is a name and a value").raise(py));
        };
        show(octets(py, &name.borrow())?, octets(py, &value.borrow())?)?;
    }
    Ok(())
}

fn octets<'a>(py: Attached<'_>, object: &'a Borrowed<'_>) -> PyResult<&'a [u8]> {
    if object.is_bytes() { object.to_bytes(py) } else { Err(object.wrong_type(py, "bytes in a header")) }
}

/// The head of a response.
pub(crate) fn start(py: Attached<'_>, web: &Web, message: &Owned, to_head: bool) -> PyResult<Start> {
    let mut start = Start::new(status(py, web, message)?, to_head);
    headers(py, web, message, |name, value| {
        start.header(name, value).map_err(|_| no_header(py, name, value))
    })?;
    Ok(start)
}

#[cold]
pub(crate) fn no_header(py: Attached<'_>, name: &[u8], value: &[u8]) -> Raised {
    let (name, value) = (String::from_utf8_lossy(name), String::from_utf8_lossy(value));
    Fault::value_error(format!("not a header: {name:?}: {value:?}")).raise(py)
}

/// Whether it is what the content of a message may be.
pub(crate) fn check_octets(py: Attached<'_>, object: &Owned) -> PyResult<()> {
    if object.is_bytes() || object.is_bytearray() || object.is_memoryview() {
        return Ok(());
    }
    Err(Fault::type_error(format!("a body is a bytes object, not {}", object.class_name(py))).raise(py))
}

/// Shows the content of a bytes-like object.
pub(crate) fn with_octets<R>(
    py: Attached<'_>,
    object: &Owned,
    show: impl FnOnce(&[u8]) -> PyResult<R>,
) -> PyResult<R> {
    if object.is_exact_bytes() {
        return show(object.to_bytes(py)?);
    }
    let copy = Buffer::read(py, object)?.as_slice().to_vec();
    show(&copy)
}

/// A message of a type that is not known, or that comes at the wrong time.
#[cold]
pub(crate) fn out_of_order(py: Attached<'_>, kind: &str, why: &str) -> Raised {
    Fault::runtime(format!("{kind} {why}")).raise(py)
}
