//! The `statehold` binary: a server, and the commands that talk to one.

mod admin;
mod admin_token;
mod backup;
mod bench;
mod certs;
mod cli;
mod clients;
mod cluster;
mod completion;
mod config;
mod del;
mod duration;
mod encryption_key;
mod exit;
mod get;
mod health;
mod import;
mod input;
mod keys;
mod lock;
mod man;
mod output;
mod passwd;
mod policy;
mod publish;
mod retained;
mod runtime;
mod scan;
mod scram;
mod secret;
mod self_test;
mod serve;
mod server;
mod set;
mod subscribe;
mod table;
mod top;
mod vdel;
mod watch;

use std::process::ExitCode;

use clap::Parser;
use mimalloc::MiMalloc;

use crate::cli::{Cli, Command};
use crate::exit::Exit;

/// After a million messages in queues the system's own takes more than twice as long as at the start
/// (`docs/decisions/2026-11-21-allocator.md`).
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return cli::show(&error),
    };
    match run(cli.command) {
        Ok(exit) => exit.into(),
        Err(error) => exit::report(&error),
    }
}

fn run(command: Command) -> anyhow::Result<Exit> {
    match command {
        Command::Serve(serve) => serve.run(),
        Command::Config(config) => config.run(),
        Command::Passwd(passwd) => passwd.run(),
        Command::Scram(scram) => scram.run(),
        Command::Policy(policy) => policy.run(),
        Command::AdminToken(token) => token.run(),
        Command::Certs(certs) => certs.run(),
        Command::Cluster(cluster) => cluster.run(),
        Command::Clients(clients) => clients.run(),
        Command::Retained(retained) => retained.run(),
        Command::Backup(backup) => backup.run(),
        Command::Health(health) => health.run(),
        Command::SelfTest(self_test) => self_test.run(),
        Command::Top(top) => top.run(),
        Command::Completion(completion) => completion.run(),
        Command::Man(man) => man.run(),
        Command::EncryptionKey(encryption_key) => encryption_key.run(),
        Command::Keys(keys) => keys.run(),
        Command::Set(set) => set.run(),
        Command::Get(get) => get.run(),
        Command::Del(del) => del.run(),
        Command::Vdel(vdel) => vdel.run(),
        Command::Scan(scan) => scan.run(),
        Command::Watch(watch) => watch.run(),
        Command::Lock(lock) => lock.run(),
        Command::LockGuard(guard) => guard.run(),
        Command::LockExec(exec) => exec.run(),
        Command::Pub(publish) => publish.run(),
        Command::Sub(subscribe) => subscribe.run(),
        Command::Import(import) => import.run(),
        Command::Bench(bench) => bench.run(),
    }
}
