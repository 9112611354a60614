//! The commands and what `--help` says about all of them.

use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{Parser, Subcommand};

use crate::admin_token::AdminToken;
use crate::backup::BackupCommand;
use crate::bench::Bench;
use crate::certs::Certs;
use crate::clients::ClientsCommand;
use crate::cluster::ClusterCommand;
use crate::completion::Completion;
use crate::config::ConfigCommand;
use crate::del::Del;
use crate::encryption_key::EncryptionKey;
use crate::exit::Exit;
use crate::get::Get;
use crate::health::Health;
use crate::import::ImportCommand;
use crate::keys::KeysCommand;
use crate::lock::Lock;
use crate::lock::exec::LockExec;
use crate::lock::guard::LockGuard;
use crate::man::Man;
use crate::passwd::Passwd;
use crate::policy::PolicyCommand;
use crate::publish::Publish;
use crate::retained::RetainedCommand;
use crate::scan::Scan;
use crate::scram::Scram;
use crate::self_test::SelfTest;
use crate::serve::Serve;
use crate::set::Set;
use crate::subscribe::Subscribe;
use crate::top::Top;
use crate::vdel::Vdel;
use crate::watch::Watch;

/// MQTT 5 broker with a replicated state store.
///
/// `statehold serve` runs a server. The other commands are clients of any server that speaks MQTT 5, and those of the
/// state store of any server that speaks the Azure IoT Operations state store protocol.
#[derive(Debug, Parser)]
#[command(name = "statehold", version, after_help = EXAMPLES, after_long_help = LONG_HELP)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

// Without words of their own here: the help of each is at its arguments.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Serve(Serve),
    Config(ConfigCommand),
    Passwd(Passwd),
    Scram(Scram),
    Policy(PolicyCommand),
    AdminToken(AdminToken),
    Certs(Certs),
    Cluster(ClusterCommand),
    Clients(ClientsCommand),
    Retained(RetainedCommand),
    Backup(BackupCommand),
    Health(Health),
    SelfTest(SelfTest),
    Top(Top),
    EncryptionKey(EncryptionKey),
    Keys(KeysCommand),
    Set(Set),
    Get(Get),
    Del(Del),
    Vdel(Vdel),
    Scan(Scan),
    Watch(Watch),
    Lock(Lock),
    #[command(hide = true)]
    LockGuard(LockGuard),
    #[command(hide = true)]
    LockExec(LockExec),
    Pub(Publish),
    Sub(Subscribe),
    Import(ImportCommand),
    Bench(Bench),
    Completion(Completion),
    Man(Man),
}

/// Shows what is wrong with the arguments, or the help that was asked for.
pub(crate) fn show(error: &clap::Error) -> ExitCode {
    // What cannot be shown cannot be reported either.
    let _ = error.print();
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => Exit::Done.into(),
        _ => Exit::Usage.into(),
    }
}

const EXAMPLES: &str = "\
Examples:
  statehold serve                                 data in ./data, MQTT on 127.0.0.1:1883
  statehold set greeting hello
  statehold get greeting
  statehold watch greeting
  statehold lock nightly-job --lease 10s -- ./job.sh
  statehold sub 'plant/#' -v
  statehold pub plant/1/temperature 21.5

`statehold --help` and `statehold help COMMAND` say more.";

const LONG_HELP: &str = "\
Examples:
  statehold serve                                 data in ./data, MQTT on 127.0.0.1:1883
  statehold set greeting hello                    prints the version of the write
  statehold get greeting
  statehold set config --file config.json         a value from a file (-: stdin)
  statehold set lease me --nex --expires-in 10s   only if it is free or mine
  statehold scan 'pump/*'
  statehold watch greeting
  statehold lock nightly-job --lease 10s -- ./job.sh
  statehold sub 'plant/#' -v
  statehold pub plant/1/temperature 21.5
  statehold bench kv --connections 50 --operation set
  statehold cluster status
  statehold clients list --search pump
  statehold retained list 'plant/#'
  statehold backup create nightly.backup --token-file token
  statehold health --ready
  statehold self-test
  statehold top
  statehold import redis --rdb dump.rdb --dry-run

Another server:
  statehold get greeting --host broker.example --tls --cafile ca.pem --username me --password-file secret
  The variables STATEHOLD_HOST, STATEHOLD_PORT, STATEHOLD_USERNAME and STATEHOLD_PASSWORD stand for the options.

Exit codes:
  0  done, or found
  1  no such key, or the condition was not met, or the lock was not free in time, or `import` has left something out
  2  refused by the server
  3  wrong arguments or settings
  4  could not connect, or no answer in time (after a timeout the request may have been executed)
  5  anything else, for example a file that cannot be read
  6  `lock` only: the lock was lost and the command was stopped
  `lock` otherwise ends with the exit code of its command.";

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    fn parse(line: &str) -> Result<Cli, clap::Error> {
        Cli::try_parse_from(line.split(' '))
    }

    #[test]
    fn the_definitions_are_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn the_examples_of_the_help_are_valid() {
        let lines = LONG_HELP.lines().chain(EXAMPLES.lines()).map(str::trim);
        let commands = lines.filter(|line| line.starts_with("statehold "));
        let mut count = 0;
        for line in commands {
            let command = line.split("  ").next().unwrap_or(line).replace('\'', "");
            assert!(parse(&command).is_ok(), "{command}: {:?}", parse(&command).err());
            count += 1;
        }
        assert!(count > 15, "{count}");
    }

    #[test]
    fn each_command_explains_itself_and_shows_examples_where_there_is_a_choice() {
        let mut cli = Cli::command();
        cli.build();
        for command in cli
            .get_subcommands()
            .filter(|command| command.get_name() != "help")
        {
            assert!(command.get_about().is_some(), "{}", command.get_name());
        }
        let lock = cli
            .find_subcommand("lock")
            .expect("there is lock")
            .clone()
            .render_long_help()
            .to_string();
        assert!(
            lock.contains("exit code is 6") && lock.contains("Examples:"),
            "{lock}"
        );
    }

    #[test]
    fn what_contradicts_itself_is_refused() {
        for line in [
            "statehold set",
            "statehold set k v --file f",
            "statehold set k v --nx --nex",
            "statehold set k v --expires-in 0s",
            "statehold set k v --expires-in soon",
            "statehold get k --port 70000",
            "statehold get k --cert c.pem",
            "statehold get k --timeout 0",
            "statehold lock name",
            "statehold lock name --lease 1ms -- true",
            "statehold pub topic v --qos 3",
            "statehold sub",
            "statehold bench kv --operation delete",
            "statehold serve --durability maybe",
            "statehold certs server",
            "statehold certs ca --valid 200000d",
            "statehold admin-token ops",
            "statehold cluster",
            "statehold clients",
            "statehold clients list --limit 0",
            "statehold clients list --limit 5 --all",
            "statehold clients list --connected --disconnected",
            "statehold retained get",
            "statehold backup",
            "statehold backup create",
            "statehold backup verify",
            "statehold backup restore",
            "statehold keys",
            "statehold cluster add",
            "statehold cluster remove",
            "statehold cluster transfer 0",
            "statehold import redis",
            "statehold import mosquitto",
            "statehold import mosquitto --database f --sessions --username me",
            "statehold import redis --rdb f --from redis://h",
            "statehold import redis --rdb f --prefix a",
            "statehold import redis --rdb f --inflight 0",
        ] {
            assert!(parse(line).is_err(), "{line}");
        }
    }

    #[test]
    fn options_may_stand_anywhere_and_values_may_look_like_options() {
        assert!(parse("statehold set --port 1884 k v").is_ok());
        assert!(parse("statehold set k -- --v").is_ok());
        assert!(parse("statehold lock name -- sh -c --help").is_ok());
    }
}
