//! `Parcel`: a term that is too heavy to be copied on a normal scheduler, on its way to a process that is still to be started.
//!
//! Who starts processes would have to copy their arguments. So it hands the parcel on, and the process has the term sent to
//! itself, which moves it.

use std::sync::Mutex;

use rustler::sys::ErlNifTerm;
use rustler::{Encoder, Env, Resource, ResourceArc};

use crate::beam::Mail;
use crate::inbox::lock;
use crate::weight;

/// A term in its mail, until somebody takes it.
pub(crate) struct Parcel(Mutex<Option<(Mail, ErlNifTerm)>>);

#[rustler::resource_impl]
impl Resource for Parcel {}

/// The term of this mail, or a parcel with both in another. `None` without memory.
pub(crate) fn pack(mail: Mail, word: ErlNifTerm) -> Option<(Mail, ErlNifTerm)> {
    // SAFETY: the caller made it in this mail.
    if weight::is_light(unsafe { mail.term(word) }) {
        return Some((mail, word));
    }
    let outer = Mail::new()?;
    let parcel = ResourceArc::new(Parcel(Mutex::new(Some((mail, word)))));
    let word = parcel.encode(outer.env()).as_c_arg();
    Some((outer, word))
}

/// Sends `{Parcel, Term}` to the calling process. False if somebody had it sent before.
#[rustler::nif]
fn parcel_open(env: Env<'_>, parcel: ResourceArc<Parcel>) -> bool {
    let taken = lock(&parcel.0).take();
    let Some((mail, word)) = taken else { return false };
    // SAFETY: made in this mail.
    let message = (parcel, unsafe { mail.term(word) }).encode(mail.env()).as_c_arg();
    mail.send_from(env, env.pid(), message)
}
