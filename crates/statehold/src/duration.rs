//! Durations as people write them: `500ms`, `10s`, `5m`, `2h`, `1d`.

use std::time::Duration;

/// Parses a duration; a number without a unit is in seconds.
pub(crate) fn parse(text: &str) -> Result<Duration, String> {
    let digits = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let number: f64 = number.parse().map_err(|_| explain(text))?;
    let seconds = match unit {
        "ms" => 0.001,
        "" | "s" => 1.0,
        "m" => 60.0,
        "h" => 3600.0,
        "d" => 86_400.0,
        _ => return Err(explain(text)),
    };
    Duration::try_from_secs_f64(number * seconds).map_err(|_| explain(text))
}

/// Parses a duration that is not zero.
pub(crate) fn parse_positive(text: &str) -> Result<Duration, String> {
    let duration = parse(text)?;
    if duration.is_zero() {
        Err("must be more than 0".to_owned())
    } else {
        Ok(duration)
    }
}

/// Parses the lease of a lock. Below 100 ms there is no time to renew it.
pub(crate) fn parse_lease(text: &str) -> Result<Duration, String> {
    let duration = parse(text)?;
    if duration < Duration::from_millis(100) {
        Err("must be 100ms or more".to_owned())
    } else {
        Ok(duration)
    }
}

fn explain(text: &str) -> String {
    format!("{text:?} is not a duration: write for example 500ms, 10s, 5m or 2h")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_with_and_without_units() {
        assert_eq!(parse("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(parse("1.5s"), Ok(Duration::from_millis(1500)));
        assert_eq!(parse("7"), Ok(Duration::from_secs(7)));
        assert_eq!(parse("2h"), Ok(Duration::from_secs(7200)));
        for text in ["", "s", "-1s", "1w", "1 s", "1e400d", "99999999999999999999d"] {
            assert!(parse(text).is_err(), "{text}");
        }
        assert!(parse_positive("0s").is_err());
        assert!(parse_lease("99ms").is_err());
    }
}
