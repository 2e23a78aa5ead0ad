//! What Python asks of the VM by name: processes to send to, atoms, registered functions. Attached threads only.

use pyrt::{Args, Attached, Borrowed, Fault, Owned, PyResult};
use rustler::sys::enif_whereis_pid;
use rustler::{Encoder, LocalPid};

use crate::beam::Mail;
use crate::bridge::{Bridge, FUNCTIONS, no_memory, positional};
use crate::convert::{existing_atom, make_atom, to_term, too_many_atoms};
use crate::terms::{Atom, Saved};
use crate::{atoms, callback};

/// The text of a name: a `str` or an `Atom`.
fn text_of_name(py: Attached<'_>, bridge: &Bridge, name: Borrowed<'_>) -> PyResult<String> {
    if bridge.atom.downcast(name).is_some() {
        return name.str(py)?.to_string_lossy(py);
    }
    Ok(name.to_str(py)?.to_owned())
}

fn find(py: Attached<'_>, bridge: &Bridge, mail: &Mail, name: Borrowed<'_>) -> PyResult<Option<LocalPid>> {
    let text = text_of_name(py, bridge, name)?;
    let Some(atom) = existing_atom(mail.env(), &text) else { return Ok(None) };
    let mut pid = core::mem::MaybeUninit::uninit();
    // SAFETY: a thread of ours passes no environment; written on success.
    let found = unsafe { enif_whereis_pid(core::ptr::null_mut(), atom.as_c_arg(), pid.as_mut_ptr()) != 0 };
    // SAFETY: as above.
    Ok(found.then(|| LocalPid::from_c_arg(unsafe { pid.assume_init() })))
}

pub(crate) fn send(py: Attached<'_>, bridge: &Bridge, args: Args<'_>) -> PyResult<()> {
    let &[to, message] = positional(py, "send", args)? else {
        return Err(Fault::type_error("send() takes a process and a message").raise(py));
    };
    let mail = Mail::new().ok_or_else(|| no_memory(py))?;
    let word = to_term(py, bridge, mail.env(), &message).map_err(|refused| refused.raise(py))?.as_c_arg();
    if let Some(pid) = bridge.pid.downcast(to) {
        let term = pid.saved.term(mail.env());
        return match term.decode::<LocalPid>() {
            Ok(pid) => {
                mail.send(pid, word);
                Ok(())
            }
            // A NIF sends within its node; the dispatcher sends to others.
            Err(_) => {
                // SAFETY: made in this mail.
                let message = unsafe { mail.term(word) };
                let word = (atoms::py_send(), term, message).encode(mail.env()).as_c_arg();
                callback::dispatch(py, mail, word)
            }
        };
    }
    match find(py, bridge, &mail, to)? {
        Some(pid) => {
            mail.send(pid, word);
            Ok(())
        }
        None => {
            let text = format!("no process is registered as {}", text_of_name(py, bridge, to)?);
            Err(Fault::value_error(text).raise(py))
        }
    }
}

pub(crate) fn whereis(py: Attached<'_>, bridge: &Bridge, args: Args<'_>) -> PyResult<Option<Owned>> {
    let &[name] = positional(py, "whereis", args)? else {
        return Err(Fault::type_error("whereis() takes a name").raise(py));
    };
    let mail = Mail::new().ok_or_else(|| no_memory(py))?;
    find(py, bridge, &mail, name)?.map(|pid| bridge.pid(py, pid.encode(mail.env()))).transpose()
}

pub(crate) fn atom(py: Attached<'_>, bridge: &Bridge, args: Args<'_>) -> PyResult<Owned> {
    let &[name] = positional(py, "atom", args)? else {
        return Err(Fault::type_error("atom() takes a name").raise(py));
    };
    let text = text_of_name(py, bridge, name)?;
    let mail = Mail::new().ok_or_else(|| no_memory(py))?;
    let atom = match existing_atom(mail.env(), &text) {
        Some(atom) => atom,
        None => {
            // Raising may run other code, so it is done without the lock.
            if let Some(made) = too_many_atoms() {
                return Err(
                    Fault::runtime(format!("no more than {made} atoms may be made from Python")).raise(py)
                );
            }
            make_atom(mail.env(), &text)
                .ok_or_else(|| Fault::value_error("an atom has at most 255 characters").raise(py))?
        }
    };
    let saved = Saved::atom(atom, &text).ok_or_else(|| no_memory(py))?;
    Ok(bridge.atom.create(py, Atom { saved })?.into_object())
}

pub(crate) fn has_function(py: Attached<'_>, bridge: &Bridge, args: Args<'_>) -> PyResult<bool> {
    let &[name] = positional(py, "has_function", args)? else {
        return Err(Fault::type_error("has_function() takes a name").raise(py));
    };
    let text = text_of_name(py, bridge, name)?;
    let functions = FUNCTIONS.read().unwrap_or_else(std::sync::PoisonError::into_inner);
    Ok(functions.as_ref().is_some_and(|functions| functions.contains(&text)))
}
