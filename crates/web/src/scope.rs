//! The scope of a request, as ASGI 3.0 has it: made anew for each, of what its head says.

use httparse::Header;
use pyrt::{Attached, Fixed, Owned, PyResult};

use crate::connection::Connection;
use crate::head::{Head, decoded, split_target};
use crate::message::dict;
use crate::module::Web;

/// The scope, and the path in it.
pub(crate) fn new(
    py: Attached<'_>,
    connection: &Connection,
    head: &Head<'_>,
    websocket: bool,
) -> PyResult<Owned> {
    let site = &connection.site;
    let (names, texts) = (&site.web.names, &site.web.texts);
    let (raw_path, query) = split_target(head.target);
    let path = Owned::str(py, &decoded(raw_path))?;
    let path = if site.root_path.is_true(py)? {
        let whole = format!("{}{}", site.root_path.to_str(py)?, path.to_str(py)?);
        Owned::str(py, &whole)?
    } else {
        path
    };
    let scope = Owned::dict(py)?;
    let (kind, scheme) = match (websocket, site.is_secure) {
        (false, false) => (&texts.http, &texts.http),
        (false, true) => (&texts.http, &texts.https),
        (true, false) => (&texts.websocket, &texts.ws),
        (true, true) => (&texts.websocket, &texts.wss),
    };
    let version = if head.facts.is_old { &texts.v1_0 } else { &texts.v1_1 };
    scope.dict_set(py, &names.kind, kind)?;
    scope.dict_set(
        py,
        &names.asgi,
        &dict(py, [(&names.version, &texts.v3_0), (&names.spec_version, &texts.v2_5)])?,
    )?;
    scope.dict_set(py, &names.http_version, version)?;
    scope.dict_set(py, &names.scheme, scheme)?;
    scope.dict_set(py, &names.path, &path)?;
    scope.dict_set(py, &names.raw_path, &Owned::bytes(py, raw_path.as_bytes())?)?;
    scope.dict_set(py, &names.query_string, &Owned::bytes(py, query.as_bytes())?)?;
    scope.dict_set(py, &names.root_path, &*site.root_path)?;
    scope.dict_set(py, &names.headers, &headers(py, head.headers)?)?;
    scope.dict_set(py, &names.client, &connection.client(py))?;
    scope.dict_set(py, &names.server, &connection.server(py))?;
    scope.dict_set(py, &names.state, &site.state.call_method0(py, &names.copy)?)?;
    if websocket {
        let offered = subprotocols(py, head.headers)?;
        scope.dict_set(py, &names.subprotocols, &offered)?;
        let nothing = Owned::dict(py)?;
        let refusal = dict(py, [(&texts.ws_response, &nothing)])?;
        scope.dict_set(py, &names.extensions, &refusal)?;
    } else {
        match common(&site.web, head.method) {
            Some(method) => scope.dict_set(py, &names.method, method)?,
            None => scope.dict_set(py, &names.method, &Owned::str(py, &head.method.to_ascii_uppercase())?)?,
        }
        scope.dict_set(py, &names.extensions, &Owned::dict(py)?)?;
    }
    Ok(scope)
}

/// Names in lower case, in the order they came.
fn headers(py: Attached<'_>, headers: &[Header<'_>]) -> PyResult<Owned> {
    let mut items = Vec::with_capacity(headers.len());
    let mut lower = Vec::with_capacity(32);
    for header in headers {
        lower.clear();
        lower.extend(header.name.bytes().map(|byte| byte.to_ascii_lowercase()));
        items.push(Owned::tuple(py, [Owned::bytes(py, &lower)?, Owned::bytes(py, header.value)?])?);
    }
    Owned::list_of(py, items)
}

fn subprotocols(py: Attached<'_>, headers: &[Header<'_>]) -> PyResult<Owned> {
    let mut items = Vec::new();
    for header in headers.iter().filter(|header| header.name.eq_ignore_ascii_case("sec-websocket-protocol")) {
        for token in crate::head::tokens(header.value) {
            items.push(Owned::str(py, &String::from_utf8_lossy(token))?);
        }
    }
    Owned::list_of(py, items)
}

fn common<'a>(web: &'a Web, method: &str) -> Option<&'a Fixed> {
    match method {
        "GET" => Some(&web.texts.get),
        "POST" => Some(&web.texts.post),
        "PUT" => Some(&web.texts.put),
        "HEAD" => Some(&web.texts.head),
        _ => None,
    }
}
