//! The scope of a request, as ASGI 3.0 has it: made anew for each, of what its head says.

use httparse::Header;
use pyrt::{Attached, Fixed, Owned, PyResult};

use crate::connection::Connection;
use crate::head::{Head, decoded, split_target};
use crate::message::dict;
use crate::module::Web;
use crate::site::Site;

/// The scope of a request, or of a WebSocket. What all requests of a connection have alike is copied from one to the next; what an app
/// could change is made anew.
pub(crate) fn new(
    py: Attached<'_>,
    connection: &Connection,
    head: &Head<'_>,
    websocket: bool,
) -> PyResult<Owned> {
    let site = &connection.site;
    let (names, texts) = (&site.web.names, &site.web.texts);
    let common = connection.common_scope(py, || common_scope(py, connection))?;
    let scope = common.dict_copy(py)?;
    let (raw_path, query) = split_target(head.target);
    scope.dict_set(py, &names.path, &path(py, site, raw_path)?)?;
    scope.dict_set(py, &names.raw_path, &Owned::bytes(py, raw_path.as_bytes())?)?;
    scope.dict_set(py, &names.query_string, &Owned::bytes(py, query.as_bytes())?)?;
    scope.dict_set(py, &names.headers, &headers(py, head.headers)?)?;
    scope.dict_set(
        py,
        &names.asgi,
        &dict(py, [(&names.version, &texts.v3_0), (&names.spec_version, &texts.v2_5)])?,
    )?;
    scope.dict_set(py, &names.state, &site.state.dict_copy(py)?)?;
    if head.facts.is_old {
        scope.dict_set(py, &names.http_version, &texts.v1_0)?;
    }
    if websocket {
        scope.dict_set(py, &names.kind, &texts.websocket)?;
        scope.dict_set(py, &names.scheme, if site.is_secure { &texts.wss } else { &texts.ws })?;
        scope.dict_set(py, &names.subprotocols, &subprotocols(py, head.headers)?)?;
        let nothing = Owned::dict(py)?;
        let refusal = dict(py, [(&texts.ws_response, &nothing)])?;
        scope.dict_set(py, &names.extensions, &refusal)?;
    } else {
        match common_method(&site.web, head.method) {
            Some(method) => scope.dict_set(py, &names.method, method)?,
            None => scope.dict_set(py, &names.method, &Owned::str(py, &head.method.to_ascii_uppercase())?)?,
        }
        scope.dict_set(py, &names.extensions, &Owned::dict(py)?)?;
    }
    Ok(scope)
}

/// What does not change while a connection lasts; with room for what does.
fn common_scope(py: Attached<'_>, connection: &Connection) -> PyResult<Owned> {
    let site = &connection.site;
    let (names, texts) = (&site.web.names, &site.web.texts);
    let scheme = if site.is_secure { &texts.https } else { &texts.http };
    let scope = dict(
        py,
        [
            (&names.kind, &texts.http),
            (&names.http_version, &texts.v1_1),
            (&names.scheme, scheme),
            (&names.root_path, &*site.root_path),
            (&names.client, &connection.client(py)),
            (&names.server, &connection.server(py)),
        ],
    )?;
    let changing = [
        &names.asgi,
        &names.path,
        &names.raw_path,
        &names.query_string,
        &names.headers,
        &names.state,
        &names.extensions,
    ];
    changing.into_iter().try_for_each(|name| scope.dict_set(py, name, &Owned::none(py)))?;
    Ok(scope)
}

fn path(py: Attached<'_>, site: &Site, raw_path: &str) -> PyResult<Owned> {
    let path = decoded(raw_path);
    if site.root_path.is_true(py)? {
        Owned::str(py, &format!("{}{path}", site.root_path.to_str(py)?))
    } else {
        Owned::str(py, &path)
    }
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

fn common_method<'a>(web: &'a Web, method: &str) -> Option<&'a Fixed> {
    match method {
        "GET" => Some(&web.texts.get),
        "POST" => Some(&web.texts.post),
        "PUT" => Some(&web.texts.put),
        "HEAD" => Some(&web.texts.head),
        _ => None,
    }
}
