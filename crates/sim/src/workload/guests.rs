//! Clients whose rights change, beside everybody else.

use std::time::Duration;

use cluster::random::Random;
use mqtt::policies::Policies;

use super::authorized::{Authorized, Rights, policies};
use super::guest::Guest;
use crate::machine::Machine;
use crate::rest::Bound;

/// Those who may not do everything, and one who may and sees what they do.
#[derive(Debug)]
pub(super) struct Guests {
    /// The host is the first.
    all: Vec<Guest>,
    authorized: Authorized,
    /// Who else there is, and may do everything.
    everybody: Vec<String>,
}

/// Guests besides the host.
const GUESTS: usize = 3;

/// In one of so many steps of guests the rights of all change.
const RELOAD_EVERY: usize = 30;

/// Time for the node to go through everybody.
const RELOADING: Duration = Duration::from_millis(5);

impl Guests {
    pub(super) fn new(random: &mut Random, everybody: Vec<String>) -> Self {
        let guests = (0..GUESTS).map(|n| Guest::new(format!("guest{n}"), Rights::random(random)));
        Self {
            all: [Guest::host()].into_iter().chain(guests).collect(),
            authorized: Authorized::default(),
            everybody,
        }
    }

    /// What the server goes by.
    pub(super) fn policies(&self) -> Policies {
        let rights = self.all.iter().map(|guest| (guest.name.as_str(), &guest.rights));
        policies(self.everybody.clone(), rights)
    }

    /// One of them does something, or the rights change. `is_disk_well`: everything can be waited for.
    pub(super) fn step(
        &mut self,
        machine: &mut Machine,
        random: &mut Random,
        is_disk_well: bool,
    ) -> Result<(), String> {
        if random.between(0, RELOAD_EVERY) == 0 && is_disk_well {
            let rights = (0..GUESTS).map(|_| Rights::random(random)).collect();
            return self.reload(machine, rights);
        }
        let index = random.between(0, self.all.len());
        let guest = &mut self.all[index];
        if random.between(0, 3) == 0 {
            guest.listen(machine, &mut self.authorized)?;
        } else {
            guest.act(machine, random, &mut self.authorized);
        }
        Ok(())
    }

    /// Everybody comes back, and hears what waits. True if there was something.
    pub(super) fn rest(&mut self, machine: &mut Machine, random: &mut Random) -> Result<bool, String> {
        if self.all.iter().any(|guest| !guest.rights.connect) {
            let rights = self.all.iter().skip(1).map(|guest| Rights {
                connect: true,
                ..guest.rights
            });
            self.reload(machine, rights.collect())?;
        }
        let mut is_anything = false;
        for guest in &mut self.all {
            is_anything |= guest.connect(machine, random);
            is_anything |= guest.listen(machine, &mut self.authorized)?;
        }
        Ok(is_anything)
    }

    /// When everything is quiet.
    pub(super) fn check(&self) -> Result<(), String> {
        self.authorized.check()
    }

    /// The server is gone.
    pub(super) fn cut(&mut self) {
        for guest in &mut self.all {
            guest.cut(&mut self.authorized);
        }
    }

    /// From now on they have these rights. Before that they hear what was sent.
    fn reload(&mut self, machine: &mut Machine, rights: Vec<Rights>) -> Result<(), String> {
        let mut is_quiet = false;
        let mut bound = Bound::new("guests hear more");
        while !is_quiet {
            bound.round()?;
            machine.write_all();
            is_quiet = true;
            for guest in &mut self.all {
                is_quiet &= !guest.listen(machine, &mut self.authorized)?;
            }
        }
        for (guest, rights) in self.all.iter_mut().skip(1).zip(rights) {
            guest.rights = rights;
        }
        machine.set_policies(self.policies());
        machine.advance(RELOADING);
        Ok(())
    }
}
