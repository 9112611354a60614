//! What in a policy is legal and probably not meant.

use std::collections::BTreeSet;
use std::fmt;

use super::Policy;
use super::error::Place;
use super::placeholders::{Piece, pieces};
use super::rules::{BrokerMethod, BrokerResource, Keys, Principals, Rule, RuleIndex, StateStoreResource};

/// Something that is probably not meant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Warning {
    /// Where; `None`: in the whole policy.
    pub place: Option<Place>,
    /// What.
    pub doubt: Doubt,
}

/// What is probably not meant.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Doubt {
    /// Then nobody is.
    #[error("no rule lets anybody connect")]
    NobodyConnects,
    /// No line of principals.
    #[error("it is about no client: all clients are `clientIds: [\"*\"]`")]
    Nobody,
    /// No resource.
    #[error("it allows nothing")]
    Nothing,
    /// Only `*` by itself stands for all.
    #[error("`{text}` is one name with a star in it, no pattern")]
    NoPatternOfNames {
        /// As written.
        text: String,
    },
    /// A connection has no topic.
    #[error("Connect is not about topics: they do nothing here")]
    TopicsOfConnect,
    /// The wildcards of topics are `+` and `#`.
    #[error("`{text}`: a star is no wildcard of topics but a name; a level is `+`, all below it `#`")]
    NoWildcard {
        /// As written.
        text: String,
    },
    /// A share's name is not looked at.
    #[error(
        "`{text}` matches no subscription: a shared one is checked by the filter behind the share's name"
    )]
    Share {
        /// As written.
        text: String,
    },
    /// Clients choose their ids.
    #[error("`{text}`: a client can choose which topic it is, as `commands/#` with the client id `commands`")]
    FirstLevel {
        /// As written.
        text: String,
    },
    /// Everything for everybody.
    #[error("`{text}` is everything, and the rule is about every client")]
    Everything {
        /// As written.
        text: String,
    },
    /// Client ids of one may be those of another.
    #[error("`{text}`: a client called `{called}` has it by `{whole}`: write `{instead}`")]
    AnothersId {
        /// As written.
        text: String,
        /// Who else has it.
        called: String,
        /// By what.
        whole: String,
        /// What is nobody else's.
        instead: String,
    },
    /// Only patterns have placeholders.
    #[error("`{text}` has no placeholder: only keys of the type Pattern have")]
    NoPlaceholder {
        /// As written.
        text: String,
    },
}

impl Policy {
    /// What is probably not meant.
    pub fn warnings(&self) -> Vec<Warning> {
        let rules = &self.rules().rules;
        let mut warnings = Vec::new();
        let connects = |rule: &Rule| {
            let mut resources = rule.broker_resources.iter();
            resources.any(|resource| resource.method == BrokerMethod::Connect)
        };
        if !rules
            .iter()
            .any(|rule| connects(rule) && !rule.principals.is_empty())
        {
            warnings.push(Warning {
                place: None,
                doubt: Doubt::NobodyConnects,
            });
        }
        let resources = rules.iter().flat_map(|rule| &rule.broker_resources);
        let of_connect = resources.filter(|resource| resource.method == BrokerMethod::Connect);
        let client_ids = of_connect.flat_map(|resource| &resource.client_ids);
        let whole_names = client_ids
            .filter_map(|text| placeholder_of(text))
            .filter(|(before, _, after)| before.is_empty() && after.is_empty())
            .map(|(_, placeholder, _)| placeholder)
            .collect();
        for (index, rule) in rules.iter().enumerate() {
            let mut doubts = Doubts {
                place: Place::in_rule(RuleIndex::new(index)),
                is_for_everybody: rule.principals.client_ids.iter().any(|id| id == "*"),
                whole_names: &whole_names,
                warnings: &mut warnings,
            };
            doubts.about_rule(rule);
        }
        warnings
    }
}

/// Collects what is doubtful in one rule.
struct Doubts<'a> {
    place: Place,
    is_for_everybody: bool,
    /// Placeholders that are client ids by themselves.
    whole_names: &'a BTreeSet<&'a str>,
    warnings: &'a mut Vec<Warning>,
}

impl Doubts<'_> {
    fn push(&mut self, place: Place, doubt: Doubt) {
        let place = Some(place);
        self.warnings.push(Warning { place, doubt });
    }

    fn about_rule(&mut self, rule: &Rule) {
        if rule.principals.is_empty() {
            self.push(self.place, Doubt::Nobody);
        }
        if rule.broker_resources.is_empty() && rule.state_store_resources.is_empty() {
            self.push(self.place, Doubt::Nothing);
        }
        let principals = &rule.principals;
        for (field, texts) in [
            ("usernames", &principals.usernames),
            ("clientIds", &principals.client_ids),
        ] {
            for (entry, text) in texts.iter().enumerate() {
                if text.contains('*') && text != "*" {
                    let place = self.place.at("principals", None, field, Some(entry));
                    self.push(place, Doubt::NoPatternOfNames { text: text.clone() });
                }
            }
        }
        for (number, resource) in rule.broker_resources.iter().enumerate() {
            self.about_topics(number, resource);
        }
        for (number, resource) in rule.state_store_resources.iter().enumerate() {
            self.about_keys(number, resource);
        }
    }

    fn about_topics(&mut self, number: usize, resource: &BrokerResource) {
        let whole = self.place;
        let place = |entry| whole.at("brokerResources", Some(number), "topics", entry);
        if resource.method == BrokerMethod::Connect {
            self.about_client_ids(number, resource);
            if !resource.topics.is_empty() {
                self.push(place(None), Doubt::TopicsOfConnect);
            }
            return;
        }
        let is_for_everybody = self.is_for_everybody && resource.client_ids.is_empty();
        for (entry, text) in resource.topics.iter().enumerate() {
            let place = place(Some(entry));
            let text = text.clone();
            if text.split('/').any(|level| level == "*") {
                self.push(place, Doubt::NoWildcard { text });
            } else if text.starts_with("$share/") {
                self.push(place, Doubt::Share { text });
            } else if text.starts_with('{') {
                self.push(place, Doubt::FirstLevel { text });
            } else if is_for_everybody && matches!(&*text, "#" | "+/#") {
                self.push(place, Doubt::Everything { text });
            }
        }
    }

    /// A client id that is a name and something more may be another's name as it is.
    fn about_client_ids(&mut self, number: usize, resource: &BrokerResource) {
        for (entry, text) in resource.client_ids.iter().enumerate() {
            let Some((before, placeholder, after)) = placeholder_of(text) else {
                continue;
            };
            let is_alone = before.is_empty() && after.is_empty();
            if is_alone || !self.whole_names.contains(placeholder) || text.contains(['/', '*']) {
                continue;
            }
            let place = self
                .place
                .at("brokerResources", Some(number), "clientIds", Some(entry));
            let separator = |affix: &str| if affix.is_empty() { "" } else { "/" };
            let doubt = Doubt::AnothersId {
                text: text.clone(),
                called: format!("{before}a{after}"),
                whole: placeholder.to_owned(),
                instead: format!(
                    "{before}{}{placeholder}{}{after}",
                    separator(before),
                    separator(after)
                ),
            };
            self.push(place, doubt);
        }
    }

    fn about_keys(&mut self, number: usize, resource: &StateStoreResource) {
        let whole = self.place;
        let place = |entry| whole.at("stateStoreResources", Some(number), "keys", Some(entry));
        match &resource.keys {
            Keys::Pattern(texts) => {
                for (entry, text) in texts.iter().enumerate() {
                    let place = place(entry);
                    let text = text.clone();
                    if self.is_for_everybody && !text.is_empty() && text.bytes().all(|byte| byte == b'*') {
                        self.push(place, Doubt::Everything { text });
                    }
                }
            }
            Keys::Text(texts) => {
                for (entry, text) in texts.iter().enumerate() {
                    let is_placeholder = |piece: &Piece<'_>| matches!(piece, Piece::Placeholder(_));
                    if pieces(text).is_ok_and(|pieces| pieces.iter().any(is_placeholder)) {
                        let text = text.clone();
                        self.push(place(entry), Doubt::NoPlaceholder { text });
                    }
                }
            }
            Keys::Binary(_) => {}
        }
    }
}

/// What stands before the only placeholder of a text, that, and what stands behind it.
fn placeholder_of(text: &str) -> Option<(&str, &str, &str)> {
    let (from, to) = (text.find('{')?, text.find('}')? + 1);
    let (before, placeholder, after) = (&text[..from], text.get(from..to)?, &text[to..]);
    (!after.contains('{')).then_some((before, placeholder, after))
}

impl Principals {
    /// Whether it is about nobody.
    fn is_empty(&self) -> bool {
        self.usernames.is_empty() && self.client_ids.is_empty() && self.attributes.is_empty()
    }
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(place) = &self.place {
            write!(f, "{place}: ")?;
        }
        fmt::Display::fmt(&self.doubt, f)
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{policy, rule};
    use super::*;

    fn warnings(principals: &str, resources: &[&str]) -> Vec<String> {
        let policy = policy(&[("client=x", &["connect"]), (principals, resources)]);
        policy.warnings().iter().map(Warning::to_string).collect()
    }

    #[test]
    fn what_is_usual_is_not_doubted() {
        let none: [String; 0] = [];
        assert_eq!(
            warnings(
                "client=a user=* room=1",
                &[
                    "connect@{principal.attributes.building}/*",
                    "connect@{principal.username}|{principal.username}/*|{principal.clientId}-x",
                    "publish a/{principal.clientId} # +/#",
                    "subscribe a/#",
                    "read clients/{principal.clientId}/* c:{principal.clientId} *",
                    "write-text a*",
                    "readwrite-binary x",
                ]
            ),
            none
        );
        assert_eq!(warnings("client=*", &["publish@a #"]), none);
    }

    #[test]
    fn what_is_probably_not_meant_is_told_with_its_place() {
        let check = |principals: &str, resources: &[&str], expected: &str| {
            let found = warnings(principals, resources);
            assert!(found.len() == 1 && found[0].contains(expected), "{found:?}");
        };
        check("", &["connect"], "rule 2: it is about no client");
        check("client=a", &[], "rule 2: it allows nothing");
        check(
            "client=a*",
            &["connect"],
            "rule 2, principals, clientIds 1: `a*` is one name",
        );
        check(
            "client=a user=**",
            &["connect"],
            "rule 2, principals, usernames 1: `**`",
        );
        check(
            "client=a",
            &["connect a"],
            "rule 2, brokerResources 1, topics: Connect is not about topics",
        );
        check(
            "client=a",
            &["connect", "publish a a/*"],
            "brokerResources 2, topics 2: `a/*`: a star",
        );
        check(
            "client=a",
            &["subscribe $share/g/a"],
            "a shared one is checked by the filter",
        );
        check(
            "client=a",
            &["subscribe {principal.clientId}/#"],
            "can choose which topic",
        );
        check("client=*", &["publish #"], "`#` is everything");
        check("client=*", &["subscribe +/#"], "is everything");
        check(
            "client=*",
            &["read *"],
            "stateStoreResources 1, keys 1: `*` is everything",
        );
        check(
            "client=a",
            &["connect@{principal.username}|{principal.username}-backup"],
            "clientIds 2: `{principal.username}-backup`: a client called `a-backup` has it by `{principal.username}`: \
             write `{principal.username}/-backup`",
        );
        check(
            "client=a",
            &["read-text {principal.clientId}"],
            "only keys of the type Pattern",
        );
        let rules = vec![rule("client=a", &["publish a"]), rule("", &["publish a"])];
        let policy = Policy::new(super::super::Rules { rules }).unwrap();
        let found: Vec<_> = policy.warnings().iter().map(Warning::to_string).collect();
        assert_eq!(found.len(), 2);
        assert_eq!(found[0], "no rule lets anybody connect");
    }
}
