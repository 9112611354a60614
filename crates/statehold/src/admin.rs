//! What commands need that ask the admin pages of a node.

pub(crate) mod hint;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use serde_json::Value;
use server::{AdminClient, AdminClientError};

use crate::duration;
use crate::exit;
use crate::output;
use crate::runtime;

/// Where the admin pages are.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Admin pages")]
pub(crate) struct AdminArgs {
    /// Of which node
    #[arg(
        long,
        env = "STATEHOLD_ADMIN",
        default_value = hint::ADMIN,
        value_name = "URL"
    )]
    pub(crate) admin: String,
    /// Read the token for them from this file (`statehold admin-token`)
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// Trust the certificates in this PEM file instead of the system's
    #[arg(long, value_name = "FILE")]
    admin_cafile: Option<PathBuf>,
    /// How long to wait for each answer
    #[arg(long, default_value = "5s", value_name = "TIME", value_parser = duration::parse_positive)]
    timeout: Duration,
}

/// How much of a list is shown.
#[derive(Debug, Args)]
pub(crate) struct ListArgs {
    /// Show so many at most
    #[arg(long, default_value_t = 100, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..))]
    limit: u32,
    /// Show all, however many there are
    #[arg(long, conflicts_with = "limit")]
    all: bool,
    /// Print a JSON object for each
    #[arg(long)]
    pub(crate) json: bool,
}

/// As many as a server gives at once.
const PAGE_MAX: usize = 1_000;

impl AdminArgs {
    pub(crate) fn client(&self) -> anyhow::Result<AdminClient> {
        self.client_of(&self.admin)
    }

    /// The same for another node.
    pub(crate) fn client_of(&self, admin: &str) -> anyhow::Result<AdminClient> {
        let token = match &self.token_file {
            Some(file) => Some(
                std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?,
            ),
            None => std::env::var("STATEHOLD_ADMIN_TOKEN").ok(),
        };
        let token = token.as_deref().map(str::trim);
        let client = AdminClient::new(admin, self.admin_cafile.as_deref(), token, self.timeout)?;
        Ok(client)
    }

    /// Does something with the pages, and says what could be done if that fails.
    pub(crate) fn run<T>(
        &self,
        work: impl AsyncFnOnce(&AdminClient) -> anyhow::Result<T>,
    ) -> anyhow::Result<T> {
        let ran = runtime::block_on(async { work(&self.client()?).await });
        ran.map_err(|error| hint::completed(error, &self.admin))
    }
}

impl ListArgs {
    /// Gets a list, page by page, and shows it: as JSON at once, else all of it as `show` makes it. False if there was nothing.
    ///
    /// `what`: as the answer calls the list; `filters`: what is to be in the query, ready for it.
    pub(crate) async fn show(
        &self,
        client: &AdminClient,
        (path, what, filters): (&str, &str, &[(&str, &str)]),
        show: impl FnOnce(&[Value]) -> String,
    ) -> anyhow::Result<bool> {
        let wanted = if self.all { usize::MAX } else { self.limit as usize };
        let (mut all, mut count, mut after) = (Vec::new(), 0, None::<String>);
        let total = loop {
            let mut query = format!("?limit={}", (wanted - count).min(PAGE_MAX));
            let after_pair = after.as_deref().map(|after| ("after", after));
            for (name, value) in filters.iter().copied().chain(after_pair) {
                query += &format!("&{name}={}", server::percent_encoded(value));
            }
            let mut page = client.get(&format!("{path}{query}")).await?;
            let found = page[what].as_array_mut().map(std::mem::take).unwrap_or_default();
            count += found.len();
            if self.json {
                found.iter().try_for_each(|one| output::line(one.to_string()))?;
            } else {
                all.extend(found);
            }
            after = page["next"].as_str().map(str::to_owned);
            if after.is_none() || count >= wanted {
                break page["total"].as_u64();
            }
        };
        if !self.json && count > 0 {
            output::raw(show(&all).as_bytes())?;
        }
        if after.is_some() {
            let total = total.map_or_else(String::new, |total| format!(" of {total} in all"));
            exit::note(&format!(
                "{count} are shown{total}, and there are more: --limit COUNT, or --all"
            ));
        }
        Ok(count > 0)
    }
}

/// A path below another, with a name that may have any characters.
pub(crate) fn path(parts: &[&str]) -> String {
    let parts = parts
        .iter()
        .map(|part| format!("/{}", server::percent_encoded(part)));
    format!("/api{}", parts.collect::<String>())
}

/// Whether it is told that there is no such thing.
pub(crate) fn is_not_found(error: &AdminClientError) -> bool {
    matches!(error, AdminClientError::Refused { status: 404, .. })
}
