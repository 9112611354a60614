//! Commands that a text advises, made such that they can be typed as they stand.

use server::AdminClientError;

/// Where the admin pages are if nobody says so.
pub(crate) const ADMIN: &str = "http://127.0.0.1:8080";

/// What a command needs besides its own words to reach these admin pages.
pub(crate) fn options(admin: &str) -> String {
    if admin == ADMIN {
        String::new()
    } else {
        format!(" --admin {admin}")
    }
}

/// A server does not know by which address it was asked: the commands in its refusals get it here.
pub(crate) fn completed(error: anyhow::Error, admin: &str) -> anyhow::Error {
    match error.downcast::<AdminClientError>() {
        Ok(AdminClientError::Refused { status, why }) => AdminClientError::Refused {
            status,
            why: with_options(&why, &options(admin)),
        }
        .into(),
        Ok(AdminClientError::NoAnswer { url, error }) => AdminClientError::NoAnswer {
            url,
            error: format!("{error}; is a server there, and are its admin pages (admin.address)? `--admin URL` or STATEHOLD_ADMIN says where they are"),
        }
        .into(),
        Ok(other) => other.into(),
        Err(other) => other,
    }
}

fn with_options(text: &str, options: &str) -> String {
    let command = |(place, part): (usize, &str)| {
        let is_quoted = place % 2 == 1;
        if is_quoted
            && ["statehold cluster ", "statehold clients "]
                .iter()
                .any(|command| part.starts_with(command))
        {
            format!("{part}{options}")
        } else {
            part.to_owned()
        }
    };
    let parts: Vec<_> = text.split('`').enumerate().map(command).collect();
    parts.join("`")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_in_a_refusal_can_be_typed() {
        let refused = AdminClientError::Refused {
            status: 409,
            why: "no node `a`: `statehold cluster remove b`".to_owned(),
        };
        let completed = completed(refused.into(), "http://[::1]:9000");
        assert_eq!(
            completed.to_string(),
            "no node `a`: `statehold cluster remove b --admin http://[::1]:9000`"
        );
        assert_eq!(options(ADMIN), "");
        let unanswered = AdminClientError::NoAnswer {
            url: ADMIN.to_owned(),
            error: "Connection refused".to_owned(),
        };
        let unanswered = super::completed(unanswered.into(), ADMIN).to_string();
        assert!(
            unanswered.contains("Connection refused; is a server there"),
            "{unanswered}"
        );
        assert!(unanswered.contains("--admin URL"), "{unanswered}");
    }
}
