//! The module `erlang._web` and its state: types, names and what is imported, one set per interpreter.

use std::ffi::CStr;

use pyrt::{
    Attached, Borrowed, Fixed, Imported, Module, ModuleDef, Owned, PyResult, RawObject, Traverse, Type,
    Visit, Visited, confined, interned,
};

use crate::connection::Connection;
use crate::exchange::Exchange;
use crate::now::Now;
use crate::site::Site;
use crate::socket::Socket;

interned! {
    pub(crate) struct Names {
        asgi,
        body,
        bytes,
        client,
        close,
        code,
        copy,
        extensions,
        headers,
        method,
        more_body,
        path,
        query_string,
        raw_path,
        reason,
        root_path,
        scheme,
        server,
        spec_version,
        state,
        status,
        subprotocol,
        subprotocols,
        text,
        version,
        http_version,
        kind = "type",
        abort,
        add,
        add_done_callback,
        call_soon,
        can_write_eof,
        cancel,
        cancelled,
        create_future,
        discard,
        done,
        exception,
        get_extra_info,
        pause_reading,
        receive,
        resume_reading,
        send,
        set_result,
        write,
        write_eof,
    }
}

interned! {
    /// Texts that scopes and messages have.
    pub(crate) struct Texts {
        http,
        https,
        ws,
        wss,
        websocket,
        v1_0 = "1.0",
        v1_1 = "1.1",
        v2_5 = "2.5",
        v3_0 = "3.0",
        get = "GET",
        post = "POST",
        put = "PUT",
        head = "HEAD",
        request = "http.request",
        disconnect = "http.disconnect",
        ws_connect = "websocket.connect",
        ws_receive = "websocket.receive",
        ws_disconnect = "websocket.disconnect",
        ws_response = "websocket.http.response",
        peername,
        sockname,
    }
}

/// The state of the module.
pub struct Web {
    pub(crate) names: Names,
    pub(crate) texts: Texts,
    pub(crate) site: Type<Site>,
    pub(crate) connection: Type<Connection>,
    pub(crate) exchange: Type<Exchange>,
    pub(crate) socket: Type<Socket>,
    pub(crate) now: Type<Now>,
    /// What is awaited after most messages.
    pub(crate) nothing: Fixed,
    pub(crate) empty: Fixed,
    /// Rare paths, in Python.
    pub(crate) receive: Imported,
    pub(crate) drain: Imported,
    pub(crate) failed: Imported,
    pub(crate) disconnected: Imported,
}

confined!(Web {
    names,
    texts,
    site,
    connection,
    exchange,
    socket,
    now,
    nothing,
    empty,
    receive,
    drain,
    failed,
    disconnected
});

impl Traverse for Web {
    fn traverse(&self, visit: &mut Visit<'_>) -> Visited {
        self.site.traverse(visit)?;
        self.connection.traverse(visit)?;
        self.exchange.traverse(visit)?;
        self.socket.traverse(visit)?;
        self.now.traverse(visit)?;
        self.nothing.traverse(visit)?;
        self.imports().into_iter().try_for_each(|imported| imported.traverse(visit))
    }

    fn clear(&self, py: Attached<'_>) {
        self.imports().into_iter().for_each(|imported| imported.clear(py));
    }
}

const GLUE: &CStr = c"erlang._serve";

impl Module for Web {
    const NAME: &'static CStr = c"erlang._web";
    const DOC: &'static CStr = c"HTTP/1.1 and WebSocket, the server side.";

    fn exec(py: Attached<'_>, module: Borrowed<'_>) -> PyResult<Self> {
        let now = Type::add_to(py, &module, None)?;
        let nothing = now.create(py, Now::new(Owned::none(py)))?.into_object();
        Ok(Self {
            names: Names::new(py)?,
            texts: Texts::new(py)?,
            site: Type::add_to(py, &module, None)?,
            connection: Type::add_to(py, &module, None)?,
            exchange: Type::add_to(py, &module, None)?,
            socket: Type::add_to(py, &module, None)?,
            now,
            nothing: nothing.into(),
            empty: Owned::bytes(py, b"")?.into(),
            receive: Imported::new(GLUE, c"receive"),
            drain: Imported::new(GLUE, c"drain"),
            failed: Imported::new(GLUE, c"failed"),
            disconnected: Imported::new(c"erlang._messages", c"DisconnectedError"),
        })
    }
}

impl Web {
    fn imports(&self) -> [&Imported; 4] {
        [&self.receive, &self.drain, &self.failed, &self.disconnected]
    }
}

pub(crate) static MODULE: ModuleDef<Web> = ModuleDef::new();

/// What `PyInit__web` returns.
pub fn init() -> RawObject {
    MODULE.init()
}
