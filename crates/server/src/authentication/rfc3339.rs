//! Times as RFC 3339 writes them: `2030-05-08T20:04:16+00:00`.

use toml::value::{Datetime, Offset};

/// In milliseconds since the Unix epoch; before it is 0. `None` without a time of day or without an offset.
pub(super) fn millis(text: &str) -> Option<u64> {
    let moment: Datetime = text.parse().ok()?;
    let (date, time) = (moment.date?, moment.time?);
    let offset_minutes = match moment.offset? {
        Offset::Z => 0,
        Offset::Custom { minutes } => i64::from(minutes),
    };
    let days = days_since_epoch(i64::from(date.year), i64::from(date.month), i64::from(date.day));
    let minutes = (days * 24 + i64::from(time.hour)) * 60 + i64::from(time.minute) - offset_minutes;
    let millis = (minutes * 60 + i64::from(time.second)) * 1_000 + i64::from(time.nanosecond / 1_000_000);
    Some(u64::try_from(millis).unwrap_or(0))
}

/// Of a day of the Gregorian calendar. The year begins in March, so that a leap day is its last one.
fn days_since_epoch(year: i64, month: i64, day: i64) -> i64 {
    let (year, month) = if month > 2 {
        (year, month - 3)
    } else {
        (year - 1, month + 9)
    };
    let leap_days = year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
    // Months from March on have 153 days in five, again and again.
    let day_of_year = (153 * month + 2) / 5 + day - 1;
    // From 1 March of the year 0 to 1 January 1970.
    year * 365 + leap_days + day_of_year - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_counted_from_the_epoch() {
        for (text, expected) in [
            ("1970-01-01T00:00:00Z", 0),
            ("1970-01-01T00:00:00.25Z", 250),
            ("1969-12-31T23:59:59Z", 0),
            ("2000-02-29T00:00:00Z", 951_782_400_000),
            ("2000-03-01T00:00:00Z", 951_868_800_000),
            ("2030-05-08T20:04:16+00:00", 1_904_501_056_000),
            ("2030-05-08T22:04:16+02:00", 1_904_501_056_000),
            ("2030-05-08T15:04:16.999-05:00", 1_904_501_056_999),
            ("9999-12-31T23:59:59Z", 253_402_300_799_000),
        ] {
            assert_eq!(millis(text), Some(expected), "{text}");
        }
    }

    #[test]
    fn what_is_no_moment_is_none() {
        for text in [
            "",
            "tomorrow",
            "2030-05-08",
            "20:04:16",
            "2030-05-08T20:04:16",
            "2030-13-08T20:04:16Z",
            "2030-02-30T20:04:16Z",
            "2030-05-08T24:04:16Z",
            "1904501056",
        ] {
            assert_eq!(millis(text), None, "{text}");
        }
    }
}
