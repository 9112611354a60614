//! An `acl_file` becomes a policy.
//!
//! Both know who may publish where, and who may read what. A policy has no rules that deny, and knows no clients without a name apart
//! from all clients. A line that needs one of these makes rights narrower: what it denies, and every rule that allows some of that, is left
//! out. Invariant: nobody may do more here than there.

use super::Finding;
use super::settings::list;

/// Rules for somebody.
#[derive(Debug, Default)]
struct Rule {
    /// `None`: everybody.
    username: Option<String>,
    publish: Vec<String>,
    subscribe: Vec<String>,
}

/// Whom a line is about.
#[derive(Debug, Clone, PartialEq, Eq)]
enum About {
    /// `topic` before the first `user`: clients without a name.
    Nameless,
    User(String),
    /// `pattern`: all clients.
    Everybody,
}

/// A line that allows or denies something.
#[derive(Debug)]
struct Line<'a> {
    number: usize,
    text: &'a str,
    about: About,
    access: Access,
    topic: &'a str,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Access {
    Read,
    Write,
    ReadWrite,
    Deny,
}

/// Who the clients of a listener are.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Clients {
    /// Nobody has a name, so what is for clients without one is for all.
    pub(super) are_all_nameless: bool,
    /// The client id is the user name.
    pub(super) have_own_ids: bool,
}

/// What an access file becomes.
pub(super) fn policy(file: &str, text: &str, clients: Clients) -> (String, Vec<Finding>) {
    let mut findings = Findings {
        file,
        found: Vec::new(),
    };
    let lines = read(text, &mut findings);
    let (denying, allowing): (Vec<_>, Vec<_>) =
        lines.into_iter().partition(|line| line.access == Access::Deny);
    for line in &denying {
        findings.tell(
            line.number,
            line.text,
            "a policy has no rules that deny: what no rule allows is denied. The rules that would allow it are left out",
        );
    }
    let mut everybody = Rule::default();
    let mut users: Vec<Rule> = Vec::new();
    for line in &allowing {
        if line.about == About::Nameless && !clients.are_all_nameless {
            let what = "it is for clients without a name; a rule for them alone cannot be written, so they may not do it here";
            findings.tell(line.number, line.text, what);
            continue;
        }
        if let Some(denies) = denying.iter().find(|denies| limits(denies, line)) {
            let what = format!(
                "line {} denies some of it, which a policy cannot say: it is left out. Write rules for what remains",
                denies.number
            );
            findings.tell(line.number, line.text, &what);
            continue;
        }
        let rule = match &line.about {
            About::Nameless | About::Everybody => &mut everybody,
            About::User(name) => of_user(&mut users, name),
        };
        let topic = match line.about {
            About::Everybody => with_placeholders(line.topic),
            _ => line.topic.to_owned(),
        };
        if line.access != Access::Read {
            rule.publish.push(topic.clone());
        }
        if line.access != Access::Write {
            rule.subscribe.push(topic);
        }
    }
    (written(&everybody, &users, clients), findings.found)
}

/// A policy that allows nothing, not even to connect: for a listener whose restrictions cannot be written as a policy.
pub(super) fn closed() -> String {
    "# Nobody may connect: what restricts this listener in Mosquitto has no counterpart. Write rules: docs/authorization.md says how.\n\
     rules: []\n"
        .to_owned()
}

/// What cannot be carried over.
struct Findings<'a> {
    file: &'a str,
    found: Vec<Finding>,
}

impl Findings<'_> {
    fn tell(&mut self, number: usize, line: &str, what: &str) {
        self.found.push(Finding {
            place: format!("{}:{number}", self.file),
            what: format!("`{line}`: {what}"),
        });
    }
}

/// The lines that allow or deny something. What is not understood allows nothing.
fn read<'a>(text: &'a str, findings: &mut Findings<'_>) -> Vec<Line<'a>> {
    let mut lines = Vec::new();
    let mut user = Some(About::Nameless);
    for (index, line) in text.lines().enumerate() {
        let (number, line) = (index + 1, line.trim());
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let (keyword, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        let rest = rest.trim();
        let about = match keyword {
            "user" if means_more_here(rest) => {
                user = None;
                findings.tell(
                    number,
                    line,
                    "the name would stand for other names in a policy: its lines are left out",
                );
                continue;
            }
            "user" => {
                user = Some(About::User(rest.to_owned()));
                continue;
            }
            "topic" => user.clone(),
            "pattern" => Some(About::Everybody),
            _ => {
                findings.tell(number, line, "it is not understood, and was left out");
                continue;
            }
        };
        let understood = access_and_topic(rest).filter(|(_, topic)| !topic.contains(['{', '}']));
        match (about, understood) {
            (Some(about), Some((access, topic))) => lines.push(Line {
                number,
                text: line,
                about,
                access,
                topic,
            }),
            (None, _) => {}
            (_, None) => findings.tell(number, line, "it is not understood, and was left out"),
        }
    }
    lines
}

/// Whether a name of Mosquitto is a pattern in a policy.
fn means_more_here(name: &str) -> bool {
    name.is_empty() || name.contains(['*', '{', '}'])
}

/// Whether a client that the second line allows something is denied some of it by the first. Mosquitto asks the lines of a user, or those for
/// clients without a name, before those with a pattern.
fn limits(denies: &Line<'_>, allows: &Line<'_>) -> bool {
    let are_of_one_client = match (&denies.about, &allows.about) {
        (About::Everybody, About::User(_) | About::Nameless) => false,
        (About::User(denied), About::User(allowed)) => denied == allowed,
        (About::Nameless, About::User(_)) | (About::User(_), About::Nameless) => false,
        (About::Nameless, About::Nameless) | (_, About::Everybody) => true,
    };
    are_of_one_client && overlap(&levels(denies.topic), &levels(allows.topic))
}

fn levels(topic: &str) -> Vec<&str> {
    topic.split('/').collect()
}

/// Whether some topic matches both filters. What a placeholder stands for may be any number of levels.
fn overlap(one: &[&str], other: &[&str]) -> bool {
    match (one, other) {
        (["#"], _) | (_, ["#"]) | ([], []) => true,
        ([], _) | (_, []) => false,
        ([level, rest @ ..], [other_level, other_rest @ ..]) => {
            let is_open = |level: &str| level.contains("%c") || level.contains("%u");
            if is_open(level) || is_open(other_level) {
                return true;
            }
            let is_any = *level == "+" || *other_level == "+";
            (is_any || level == other_level) && overlap(rest, other_rest)
        }
    }
}

fn of_user<'a>(users: &'a mut Vec<Rule>, name: &str) -> &'a mut Rule {
    let place = users
        .iter()
        .position(|rule| rule.username.as_deref() == Some(name));
    let place = place.unwrap_or_else(|| {
        users.push(Rule {
            username: Some(name.to_owned()),
            ..Rule::default()
        });
        users.len() - 1
    });
    &mut users[place]
}

/// The access may be left out, unless the topic has spaces.
fn access_and_topic(rest: &str) -> Option<(Access, &str)> {
    let Some((access, topic)) = rest.split_once(char::is_whitespace) else {
        return (!rest.is_empty()).then_some((Access::ReadWrite, rest));
    };
    let access = match access {
        "read" => Access::Read,
        "write" => Access::Write,
        "readwrite" => Access::ReadWrite,
        "deny" => Access::Deny,
        _ => return None,
    };
    Some((access, topic.trim()))
}

fn with_placeholders(topic: &str) -> String {
    topic
        .replace("%c", "{principal.clientId}")
        .replace("%u", "{principal.username}")
}

fn written(everybody: &Rule, users: &[Rule], clients: Clients) -> String {
    let mut text = "# Made from an acl_file of Mosquitto. It gives no rights to keys of the state store: docs/authorization.md says how.\n\
                    rules:\n"
        .to_owned();
    for rule in std::iter::once(everybody).chain(users) {
        let who = match &rule.username {
            // Whoever has got in may stay, as there.
            None => format!(
                "  - principals:\n      clientIds: [\"*\"]\n    brokerResources:\n      - method: Connect\n{}",
                if clients.have_own_ids {
                    "        clientIds: [\"{principal.username}\"]\n"
                } else {
                    ""
                }
            ),
            Some(name) => format!(
                "  - principals:\n      usernames: {}\n    brokerResources:\n",
                list(&[name])
            ),
        };
        text += &who;
        for (method, topics) in [("Publish", &rule.publish), ("Subscribe", &rule.subscribe)] {
            if !topics.is_empty() {
                text += &format!("      - method: {method}\n        topics: {}\n", list(topics));
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const ACL: &str = "\
# comment
topic read $SYS/#
user ann
topic readwrite plant/#
topic read open/#
topic deny plant/secret
user bob
topic logs/+
topic write a topic/with spaces
pattern write sensor/%u/%c
user ann
topic read other/#
nonsense
";

    const NAMED: Clients = Clients {
        are_all_nameless: false,
        have_own_ids: false,
    };

    fn places(findings: &[Finding]) -> Vec<&str> {
        findings.iter().map(|finding| finding.place.as_str()).collect()
    }

    #[test]
    fn rules_say_what_was_allowed_and_findings_what_cannot_be_said() {
        let (text, findings) = policy("acl", ACL, NAMED);
        let expected = "\
# Made from an acl_file of Mosquitto. It gives no rights to keys of the state store: docs/authorization.md says how.
rules:
  - principals:
      clientIds: [\"*\"]
    brokerResources:
      - method: Connect
      - method: Publish
        topics: [\"sensor/{principal.username}/{principal.clientId}\"]
  - principals:
      usernames: [\"ann\"]
    brokerResources:
      - method: Subscribe
        topics: [\"open/#\", \"other/#\"]
  - principals:
      usernames: [\"bob\"]
    brokerResources:
      - method: Publish
        topics: [\"logs/+\", \"a topic/with spaces\"]
      - method: Subscribe
        topics: [\"logs/+\"]
";
        assert_eq!(text, expected);
        assert_eq!(places(&findings), ["acl:13", "acl:6", "acl:2", "acl:4"]);
        assert!(
            findings[3].what.contains("line 6 denies some of it"),
            "{findings:?}"
        );
    }

    #[test]
    fn where_nobody_has_a_name_rules_for_the_nameless_are_for_all() {
        let nameless = Clients {
            are_all_nameless: true,
            have_own_ids: false,
        };
        let (text, findings) = policy("acl", "topic read $SYS/#\n", nameless);
        assert!(text.contains("$SYS/#") && findings.is_empty(), "{text}");
        let (text, _) = policy(
            "acl",
            "topic read a/#\ntopic deny a/b\npattern read +/b\n",
            nameless,
        );
        assert!(!text.contains("Subscribe"), "{text}");
    }

    /// Which lines are left of a file whose last line denies something.
    fn left(text: &str) -> Vec<usize> {
        let (_, findings) = policy("acl", text, NAMED);
        let all = 1..=text.lines().count();
        all.filter(|number| !places(&findings).contains(&format!("acl:{number}").as_str()))
            .collect()
    }

    #[test]
    fn what_is_denied_is_allowed_by_no_rule() {
        // The lines: a user, what it may do, and what it may not.
        assert_eq!(left("user a\ntopic x/#\ntopic y/#\ntopic deny x/y\n"), [1, 3]);
        assert_eq!(left("user a\ntopic x/+/z\ntopic x/+/y\ntopic deny x/y/+\n"), [1]);
        assert_eq!(left("user a\ntopic x/y\ntopic x\ntopic deny x/#\n"), [1]);
        // Patterns are for the user as well, whatever they stand for; another user is not concerned.
        assert_eq!(
            left("user b\ntopic x\npattern x/%u\nuser a\ntopic deny x/y\n"),
            [1, 2, 4]
        );
        assert_eq!(left("pattern %c/state\nuser a\ntopic deny x/y/state\n"), [2]);
        // A pattern that denies something is asked after the lines of a user.
        assert_eq!(
            left("user a\ntopic x/#\npattern read x/%c\npattern deny x/y\n"),
            [1, 2]
        );
        // Those without a name are among all.
        assert_eq!(left("topic deny x/#\npattern read x/%c\n"), [] as [usize; 0]);
    }

    #[test]
    fn what_would_stand_for_more_in_a_policy_is_left_out() {
        for text in [
            "user *\ntopic a\n",
            "user a*\ntopic a\n",
            "user {principal.clientId}\ntopic a\n",
            "user a\ntopic {principal.clientId}/b\n",
            "user a\ntopic writeonly a\n",
            "user\ntopic a\n",
        ] {
            let (policy, findings) = policy("acl", text, NAMED);
            assert!(!policy.contains("Publish"), "{policy}");
            assert_eq!(findings.len(), 1, "{findings:?}");
        }
    }

    #[test]
    fn clients_whose_id_is_their_name_may_have_no_other() {
        let clients = Clients {
            are_all_nameless: false,
            have_own_ids: true,
        };
        let (text, _) = policy("acl", "pattern read x/%c\n", clients);
        assert!(text.contains("clientIds: [\"{principal.username}\"]"), "{text}");
    }
}
