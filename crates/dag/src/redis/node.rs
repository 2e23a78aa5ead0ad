//! Redis commands as nodes of a graph.

use std::future::Future;
use std::sync::Arc;

use super::client::Client;
use super::command::Command;
use super::value::Value;
use crate::error::BoxError;

/// For [`Graph::task`](crate::Graph::task) and the items of a map: `make` says which command the inputs call for, `read`
/// what the reply means. An error of the server is the node's.
pub fn command<I, V, M, R, E>(
    client: &Client,
    make: M,
    read: R,
) -> impl Fn(I) -> std::pin::Pin<Box<dyn Future<Output = Result<V, BoxError>>>> + Send + Sync + 'static
where
    I: 'static,
    V: 'static,
    M: Fn(I) -> Command + Send + Sync + 'static,
    R: Fn(Value) -> Result<V, E> + Send + Sync + 'static,
    E: Into<BoxError> + 'static,
{
    let (client, read) = (client.clone(), Arc::new(read));
    move |inputs| {
        let (call, read) = (client.call(make(inputs)), read.clone());
        Box::pin(async move { read(call.await?).map_err(Into::into) })
    }
}
