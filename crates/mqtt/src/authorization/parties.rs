//! Which rules are about a client.
//!
//! A *party* is the clients of one line of `principals`: a username, a client id, or some attributes. A line that stands in
//! many rules is one party, so a connection remembers a few parties and not its rules, of which there may be a thousand.

use std::collections::BTreeMap;

use smallvec::SmallVec;

use super::rules::{Principals, RuleIndex};
use super::subject::Subject;

/// One line of principals; its place in [`Parties::rules`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct PartyId(u32);

/// The parties that a client belongs to.
pub(super) type PartiesOf = SmallVec<[PartyId; 4]>;

/// All parties of a policy.
#[derive(Debug, Default)]
pub(super) struct Parties {
    /// The rules of each, in their order.
    rules: Vec<Vec<RuleIndex>>,
    everybody: Option<PartyId>,
    named: Option<PartyId>,
    by_client_id: BTreeMap<Box<str>, PartyId>,
    by_username: BTreeMap<Box<str>, PartyId>,
    by_attributes: BTreeMap<BTreeMap<String, String>, PartyId>,
    /// The same, found by the attribute of each that the fewest others have.
    by_rarest: BTreeMap<Box<str>, BTreeMap<Box<str>, Vec<AttributeParty>>>,
}

/// A party that has more attributes than the one under which it is found.
#[derive(Debug)]
struct AttributeParty {
    id: PartyId,
    others: Vec<(Box<str>, Box<str>)>,
}

impl Parties {
    /// Rules come in the order of the policy.
    pub(super) fn add(&mut self, rule: RuleIndex, principals: &Principals) {
        let rules = &mut self.rules;
        add_names(
            rules,
            &mut self.everybody,
            &mut self.by_client_id,
            &principals.client_ids,
            rule,
        );
        add_names(
            rules,
            &mut self.named,
            &mut self.by_username,
            &principals.usernames,
            rule,
        );
        for attributes in &principals.attributes {
            let known =
                (self.by_attributes.entry(attributes.clone())).or_insert_with(|| new_party(&mut self.rules));
            push(&mut self.rules, *known, rule);
        }
    }

    /// After the last rule.
    pub(super) fn index_attributes(&mut self) {
        let mut how_many = BTreeMap::new();
        for pair in self.by_attributes.keys().flatten() {
            *how_many.entry(pair).or_insert(0_usize) += 1;
        }
        for (attributes, id) in &self.by_attributes {
            let Some(rarest) = attributes.iter().min_by_key(|pair| how_many.get(pair)) else {
                continue;
            };
            let others = attributes.iter().filter(|pair| *pair != rarest);
            let others = others.map(|(name, value)| (name.as_str().into(), value.as_str().into()));
            let party = AttributeParty {
                id: *id,
                others: others.collect(),
            };
            let values = self.by_rarest.entry(rarest.0.as_str().into()).or_default();
            values.entry(rarest.1.as_str().into()).or_default().push(party);
        }
    }

    /// The parties that a client belongs to.
    pub(super) fn of(&self, subject: &Subject) -> PartiesOf {
        let mut parties = PartiesOf::new();
        parties.extend(self.everybody);
        parties.extend(self.by_client_id.get(&*subject.client_id).copied());
        if let Some(username) = &subject.username {
            parties.extend(self.named);
            parties.extend(self.by_username.get(&**username).copied());
        }
        for (name, value) in subject.attributes.iter() {
            let found = self
                .by_rarest
                .get(&**name)
                .and_then(|values| values.get(&**value));
            let all = found.into_iter().flatten();
            parties.extend(all.filter(|party| party.is_met_by(subject)).map(|party| party.id));
        }
        parties.shrink_to_fit();
        parties
    }

    /// The rules of a party, in their order.
    pub(super) fn rules(&self, party: PartyId) -> &[RuleIndex] {
        &self.rules[party.0 as usize]
    }
}

impl AttributeParty {
    fn is_met_by(&self, subject: &Subject) -> bool {
        let mut others = self.others.iter();
        others.all(|(name, value)| subject.attributes.has(name, value))
    }
}

impl Principals {
    /// Whether a client is one of them, by the words of the rule.
    pub(super) fn include(&self, subject: &Subject) -> bool {
        let client_id = |client_id: &String| client_id == ANY || **client_id == *subject.client_id;
        let username = |username: &String| {
            let known = subject.username.as_ref();
            known.is_some_and(|known| username == ANY || **username == **known)
        };
        let has = |(name, value): (&String, &String)| subject.attributes.has(name, value);
        self.client_ids.iter().any(client_id)
            || self.usernames.iter().any(username)
            || self
                .attributes
                .iter()
                .any(|attributes| attributes.iter().all(has))
    }
}

/// Adds a rule to the party of each name, or to that of whoever has one.
fn add_names(
    rules: &mut Vec<Vec<RuleIndex>>,
    any: &mut Option<PartyId>,
    by_name: &mut BTreeMap<Box<str>, PartyId>,
    names: &[String],
    rule: RuleIndex,
) {
    for name in names {
        let known = match &**name {
            ANY => any.get_or_insert_with(|| new_party(rules)),
            name => by_name.entry(name.into()).or_insert_with(|| new_party(rules)),
        };
        push(rules, *known, rule);
    }
}

fn new_party(rules: &mut Vec<Vec<RuleIndex>>) -> PartyId {
    rules.push(Vec::new());
    PartyId(u32::try_from(rules.len() - 1).expect("a policy has at most TEXTS_MAX texts"))
}

fn push(rules: &mut [Vec<RuleIndex>], party: PartyId, rule: RuleIndex) {
    let rules = &mut rules[party.0 as usize];
    if rules.last() != Some(&rule) {
        rules.push(rule);
    }
}

/// Stands for all client ids, or all usernames.
const ANY: &str = "*";
