//! The runtime of the commands that are clients.

use std::future::Future;

use anyhow::Context;

/// Runs a client command: one thread is enough for one connection.
pub(crate) fn block_on<T>(work: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start")?;
    runtime.block_on(work)
}
