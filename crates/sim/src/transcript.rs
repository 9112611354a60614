//! Conversations between clients and one server, as text.
//!
//! A transcript is a list of blocks: commands, a line `----`, and everything that the server sent because of them.
//! [`play`] runs the commands and writes down what really happened, so a test compares two texts, and a review of a
//! changed behaviour reads a conversation. The commands are listed at `Stage::command`.

mod packet_ids;
mod packets;
mod rules;
mod show;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::{Duration, Instant};

use mqtt::ids::ConnectionId;
use protocol::Packet;

use self::packet_ids::PacketIds;
use self::packets::Words;
use crate::machine::{Machine, MachineConfig};

/// Plays a transcript; the result is the same text with what really was sent.
///
/// # Errors
/// A command that is not understood, with its line.
pub fn play(text: &str, origin: Instant) -> Result<String, String> {
    let mut stage = Stage::new(text, origin)?;
    let mut out = String::new();
    for block in text.split_inclusive("\n\n") {
        let (commands, is_played) = match block.split_once("----\n") {
            Some((commands, _)) => (commands, true),
            None => (block, false),
        };
        out.push_str(commands);
        if !is_played {
            continue;
        }
        for line in commands.lines() {
            stage.command(line).map_err(|why| format!("{line}: {why}"))?;
        }
        let _ = writeln!(out, "----");
        out.push_str(&stage.take_sent());
        out.push('\n');
    }
    Ok(format!("{}\n", out.trim_end()))
}

/// The server and its clients.
struct Stage {
    /// Taken only while it crashes.
    machine: Option<Machine>,
    clients: BTreeMap<String, ConnectionId>,
    /// Client ids of the clients.
    client_ids: BTreeMap<String, String>,
    /// Packet ids of the server, by client id.
    packet_ids: BTreeMap<String, PacketIds>,
    /// Packets that clients were sent since they were shown last.
    sent: BTreeMap<String, Vec<Packet>>,
    /// The disk writes at once, unless the transcript says `disk slow`.
    is_disk_slow: bool,
    /// Of the next policy.
    rules: Vec<String>,
}

impl Stage {
    fn new(text: &str, origin: Instant) -> Result<Self, String> {
        let mut config = MachineConfig::new(1);
        for line in text.lines().filter_map(|line| line.strip_prefix("# limit ")) {
            packets::limit(&mut config.limits, line)?;
        }
        if let Some(interval) = text.lines().find_map(|line| line.strip_prefix("# sys_interval ")) {
            config.sys_interval = Some(packets::duration(interval)?);
        }
        if let Some(name) = text
            .lines()
            .find_map(|line| line.strip_prefix("# share_strategy "))
        {
            config.share_strategy = packets::share_strategy(name)?;
        }
        let rules: Vec<_> = text
            .lines()
            .filter_map(|line| line.strip_prefix("# allow "))
            .collect();
        if !rules.is_empty() {
            config.policies = rules::policies(&rules)?;
        }
        config.authenticates = text.lines().any(|line| line == "# authenticates");
        if let Some(words) = text.lines().find_map(|line| line.strip_prefix("# redirect ")) {
            config.redirect = Some(packets::redirect(words)?);
        }
        Ok(Self {
            machine: Some(Machine::new(config, origin)),
            clients: BTreeMap::new(),
            client_ids: BTreeMap::new(),
            packet_ids: BTreeMap::new(),
            sent: BTreeMap::new(),
            is_disk_slow: false,
            rules: Vec::new(),
        })
    }

    fn machine(&mut self) -> &mut Machine {
        self.machine.as_mut().expect("it is only away while it crashes")
    }

    /// One line: a comment, something that happens to the server, or `<client> <packet> ...`.
    ///
    /// | command | means |
    /// |---|---|
    /// | `disk slow`, `disk write`, `disk fast` | batches wait; one batch is written; all are, at once |
    /// | `advance 5s` | time passes |
    /// | `crash`, `crash 61s` | the power fails and comes back, at once or later |
    /// | `stop` | the server says goodbye |
    /// | `allow ...` | a rule of the next policy. See `rules.rs`; with `# ` before it, of the first one |
    /// | `reload` | the next policy is the present one, and nothing of one before holds |
    /// | `a open` | a connection without a CONNECT |
    /// | `a lose` | a's connection breaks |
    /// | `a is continue ...`, `a is accept ...`, `a is refuse ...` | who a is: the answer to a question. See `packets.rs` |
    /// | `a connect ...` and every other packet | on a's connection; `connect` opens one. See `packets.rs` |
    fn command(&mut self, line: &str) -> Result<(), String> {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            return Ok(());
        }
        let mut words = Words::of(line);
        match words.next()? {
            "disk" => self.disk(words.next()?)?,
            "advance" => {
                let by = packets::duration(words.next()?)?;
                self.machine().advance(by);
            }
            "stop" => self.machine().stop(),
            "allow" => {
                let rule = line.trim_start_matches("allow").trim().to_owned();
                rules::rule(&rule)?;
                self.rules.push(rule);
            }
            "reload" => {
                let rules = std::mem::take(&mut self.rules);
                let rules: Vec<_> = rules.iter().map(String::as_str).collect();
                let policies = rules::policies(&rules)?;
                self.machine().set_policies(policies);
                self.machine().advance(Duration::from_millis(1));
            }
            "crash" => {
                let down = words.next().map_or(Ok(Duration::ZERO), packets::duration)?;
                self.machine = self.machine.take().map(|machine| machine.crash_for(down));
                self.clients.clear();
            }
            client => self.client(client, words)?,
        }
        if !self.is_disk_slow {
            self.machine().write_all();
        }
        self.listen();
        Ok(())
    }

    /// Takes what the clients were sent.
    fn listen(&mut self) {
        for (name, connection) in self.clients.clone() {
            let packets = self.machine().take_sent(connection);
            let client_id = self.client_ids.get(&name).unwrap_or(&name);
            let packet_ids = self.packet_ids.entry(client_id.clone()).or_default();
            let shown = packets.into_iter().map(|packet| packet_ids.show(packet));
            self.sent.entry(name).or_default().extend(shown);
        }
    }

    fn disk(&mut self, word: &str) -> Result<(), String> {
        match word {
            "slow" => self.is_disk_slow = true,
            "fast" => self.is_disk_slow = false,
            "write" => {
                self.machine().flush();
                if !self.machine().write_one() {
                    return Err("there is nothing to write".to_owned());
                }
            }
            other => return Err(format!("disk {other} is not known")),
        }
        Ok(())
    }

    fn client(&mut self, client: &str, mut words: Words<'_>) -> Result<(), String> {
        let verb = words.next()?;
        if matches!(verb, "open" | "connect") {
            let connection = self.machine().open();
            self.clients.insert(client.to_owned(), connection);
            self.sent.remove(client);
        }
        let connection = *self.clients.get(client).ok_or("the client is not connected")?;
        match verb {
            "open" => {}
            "lose" => self.machine().lose(connection),
            "is" => {
                let answer = packets::answer(words)?;
                self.machine().answer(connection, answer);
            }
            _ => {
                let packet = packets::packet(verb, client, self.machine().now(), words)?;
                if let Packet::Connect(connect) = &packet {
                    self.client_ids
                        .insert(client.to_owned(), connect.client_id.to_string());
                }
                let client_id = self.client_ids.get(client).cloned().unwrap_or_default();
                let packet = self.packet_ids.entry(client_id).or_default().send(packet);
                self.machine().receive(connection, packet);
            }
        }
        Ok(())
    }

    fn take_sent(&mut self) -> String {
        let mut out = String::new();
        let clients: Vec<_> = self
            .clients
            .iter()
            .map(|(name, id)| (name.clone(), *id))
            .collect();
        for (connection, question) in self.machine().take_questions() {
            if let Some((name, _)) = clients.iter().find(|(_, id)| *id == connection) {
                let _ = writeln!(out, "who is {name}? {}", show::question(&question));
            }
        }
        for (name, connection) in clients {
            for packet in self.sent.remove(&name).unwrap_or_default() {
                let _ = writeln!(out, "{name} < {}", show::packet(&packet));
            }
            if !self.machine().is_open(connection) && self.clients.remove(&name).is_some() {
                let _ = writeln!(out, "{name} closed");
            }
        }
        out
    }
}

/// A state store request as the PUBLISH of `client`, for other tests.
pub fn request(client: &str, now: mqtt::now::Now, packet_id: u16, arguments: &[&str]) -> Packet {
    packets::request(client, now, packet_id, arguments, &[])
}

/// The policy that these rules make, for other tests. See `rules.rs`.
pub fn policies(rules: &[&str]) -> Result<mqtt::policies::Policies, String> {
    rules::policies(rules)
}

/// How long a duration of a transcript is: `100ms`, `5s`.
pub fn duration(text: &str) -> Result<Duration, String> {
    packets::duration(text)
}
