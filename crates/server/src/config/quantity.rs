//! Durations and sizes as people write them: `"30s"`, `"1.5 h"`, `"256 MiB"`.
//!
//! Both are exact: what is written with a fraction has to be a whole number of milliseconds or bytes.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};

/// Units of time and their milliseconds, longest first, as they are written.
const TIME_UNITS: [(&str, u64); 5] = [
    ("d", 86_400_000),
    ("h", 3_600_000),
    ("min", 60_000),
    ("s", 1_000),
    ("ms", 1),
];

/// Units of size and their bytes, largest first, as they are written.
const SIZE_UNITS: [(&str, u64); 8] = [
    ("TiB", 1 << 40),
    ("GiB", 1 << 30),
    ("MiB", 1 << 20),
    ("KiB", 1 << 10),
    ("GB", 1_000_000_000),
    ("MB", 1_000_000),
    ("kB", 1_000),
    ("B", 1),
];

/// A `Duration` in a file; for `#[serde(with = ...)]`.
pub(super) mod duration {
    use std::time::Duration;

    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serializer};

    pub(in crate::config) fn serialize<S: Serializer>(value: &Duration, to: S) -> Result<S::Ok, S::Error> {
        let millis = u64::try_from(value.as_millis()).unwrap_or(u64::MAX);
        to.serialize_str(&super::write(millis, &super::TIME_UNITS, "ms", ""))
    }

    pub(in crate::config) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
        let text = String::deserialize(from)?;
        let millis = super::read(&text, &super::TIME_UNITS).ok_or_else(|| {
            D::Error::custom(format!(
                "`{text}` is not a duration; write for example \"500ms\", \"30s\", \"5min\", \"2h\""
            ))
        })?;
        Ok(Duration::from_millis(millis))
    }
}

/// A number of bytes in a file; for `#[serde(with = ...)]`.
pub(super) mod size {
    use std::fmt;

    use serde::de::{Error, Visitor};
    use serde::{Deserializer, Serializer};

    pub(in crate::config) fn serialize<S: Serializer>(value: &u64, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&super::write(*value, &super::SIZE_UNITS[..4], "B", " "))
    }

    pub(in crate::config) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<u64, D::Error> {
        from.deserialize_any(Size)
    }

    struct Size;

    impl Visitor<'_> for Size {
        type Value = u64;

        fn expecting(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
            to.write_str("a size such as \"256 MiB\", or a number of bytes")
        }

        fn visit_i64<E: Error>(self, bytes: i64) -> Result<u64, E> {
            u64::try_from(bytes).map_err(|_| E::custom(format!("`{bytes}` is not a size: it is negative")))
        }

        fn visit_u64<E: Error>(self, bytes: u64) -> Result<u64, E> {
            Ok(bytes)
        }

        fn visit_str<E: Error>(self, text: &str) -> Result<u64, E> {
            super::read(text, &super::SIZE_UNITS).ok_or_else(|| {
                E::custom(format!(
                    "`{text}` is not a size; write for example \"64 KiB\", \"256 MiB\""
                ))
            })
        }
    }
}

/// A `Duration`, or `"none"`; for `#[serde(with = ...)]`.
pub(super) mod optional_duration {
    use std::time::Duration;

    use serde::de::{Error, IntoDeserializer};
    use serde::{Deserialize, Deserializer, Serializer};

    pub(in crate::config) fn serialize<S: Serializer>(
        value: &Option<Duration>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        match value {
            Some(duration) => super::duration::serialize(duration, to),
            None => to.serialize_str("none"),
        }
    }

    pub(in crate::config) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Option<Duration>, D::Error> {
        let text = String::deserialize(from)?;
        if text == "none" {
            return Ok(None);
        }
        let again = text.as_str().into_deserializer();
        super::duration::deserialize(again)
            .map(Some)
            .map_err(|error: serde::de::value::Error| D::Error::custom(error))
    }
}

/// A size, or a word that is none.
#[derive(serde::Deserialize)]
#[serde(untagged)]
enum SizeOrWord {
    Bytes(i64),
    Text(String),
}

impl SizeOrWord {
    /// The size, or what `word` makes of the text.
    fn size_or<T, E: serde::de::Error>(
        self,
        word: impl FnOnce(&str) -> Option<T>,
        of_size: impl FnOnce(u64) -> T,
    ) -> Result<T, E> {
        use serde::de::IntoDeserializer;
        let size = match &self {
            Self::Text(text) => match word(text) {
                Some(value) => return Ok(value),
                None => size::deserialize(text.as_str().into_deserializer()),
            },
            Self::Bytes(bytes) => size::deserialize((*bytes).into_deserializer()),
        };
        size.map(of_size)
            .map_err(|error: serde::de::value::Error| E::custom(error))
    }
}

/// A number of bytes, a memory profile, `"auto"` or `"none"`; for `#[serde(with = ...)]`.
pub(super) mod memory {
    use serde::{Deserialize, Deserializer, Serializer};

    use crate::config::limits::{MemoryMax, MemoryProfile};

    pub(in crate::config) fn serialize<S: Serializer>(value: &MemoryMax, to: S) -> Result<S::Ok, S::Error> {
        match value {
            MemoryMax::Auto => to.serialize_str("auto"),
            MemoryMax::Unlimited => to.serialize_str("none"),
            MemoryMax::Profile(profile) => to.serialize_str(profile.name()),
            MemoryMax::Bytes(bytes) => super::size::serialize(bytes, to),
        }
    }

    pub(in crate::config) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<MemoryMax, D::Error> {
        let word = |text: &str| match text {
            "auto" => Some(MemoryMax::Auto),
            "none" => Some(MemoryMax::Unlimited),
            name => MemoryProfile::of_name(name).map(MemoryMax::Profile),
        };
        super::SizeOrWord::deserialize(from)?.size_or(word, MemoryMax::Bytes)
    }
}

/// A number of bytes or `"auto"`; for `#[serde(with = ...)]`.
pub(super) mod size_or_auto {
    use serde::{Deserialize, Deserializer, Serializer};

    use crate::config::state_store::QuotaMax;

    pub(in crate::config) fn serialize<S: Serializer>(value: &QuotaMax, to: S) -> Result<S::Ok, S::Error> {
        match value {
            QuotaMax::Auto => to.serialize_str("auto"),
            QuotaMax::At(bytes) => super::size::serialize(bytes, to),
        }
    }

    pub(in crate::config) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<QuotaMax, D::Error> {
        let word = |text: &str| (text == "auto").then_some(QuotaMax::Auto);
        super::SizeOrWord::deserialize(from)?.size_or(word, QuotaMax::At)
    }
}

/// A number or `"auto"`; for `#[serde(with = ...)]`.
pub(super) mod count_or_auto {
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serializer};

    use crate::config::state_store::QuotaMax;

    pub(in crate::config) fn serialize<S: Serializer>(value: &QuotaMax, to: S) -> Result<S::Ok, S::Error> {
        match value {
            QuotaMax::Auto => to.serialize_str("auto"),
            QuotaMax::At(count) => to.serialize_u64(*count),
        }
    }

    pub(in crate::config) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<QuotaMax, D::Error> {
        match super::SizeOrWord::deserialize(from)? {
            super::SizeOrWord::Text(text) if text == "auto" => Ok(QuotaMax::Auto),
            super::SizeOrWord::Text(text) => Err(D::Error::custom(format!(
                "`{text}` is not a number; write for example 100000, or \"auto\""
            ))),
            super::SizeOrWord::Bytes(count) => u64::try_from(count)
                .map(QuotaMax::At)
                .map_err(|_| D::Error::custom(format!("`{count}` is negative"))),
        }
    }
}

/// A number of bytes that fits into 32 bits; for `#[serde(with = ...)]`.
pub(super) mod size32 {
    use serde::de::Error;
    use serde::{Deserializer, Serializer};

    pub(in crate::config) fn serialize<S: Serializer>(value: &u32, to: S) -> Result<S::Ok, S::Error> {
        super::size::serialize(&u64::from(*value), to)
    }

    pub(in crate::config) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<u32, D::Error> {
        let bytes = super::size::deserialize(from)?;
        u32::try_from(bytes)
            .map_err(|_| D::Error::custom(format!("{bytes} bytes are too many, at most {}", u32::MAX)))
    }
}

/// What the schema says of a duration.
#[derive(Debug)]
pub(super) struct DurationText;

impl JsonSchema for DurationText {
    fn schema_name() -> Cow<'static, str> {
        "Duration".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "format": "duration", "pattern": r"^[0-9]+(\.[0-9]+)? ?(ms|s|min|h|d)$" })
    }
}

/// What the schema says of a duration that may be left out.
#[derive(Debug)]
pub(super) struct OptionalDurationText;

impl JsonSchema for OptionalDurationText {
    fn schema_name() -> Cow<'static, str> {
        "OptionalDuration".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string",
            "format": "optional-duration",
            "pattern": r"^(none|[0-9]+(\.[0-9]+)? ?(ms|s|min|h|d))$",
        })
    }
}

/// What the schema says of a size.
#[derive(Debug)]
pub(super) struct SizeText;

impl JsonSchema for SizeText {
    fn schema_name() -> Cow<'static, str> {
        "Size".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": ["string", "integer"],
            "format": "size",
            "pattern": r"^[0-9]+(\.[0-9]+)? ?(B|kB|MB|GB|KiB|MiB|GiB|TiB)$",
            "minimum": 0,
        })
    }
}

/// What the schema says of a size that may be left to the server.
#[derive(Debug)]
pub(super) struct MemoryText;

impl JsonSchema for MemoryText {
    fn schema_name() -> Cow<'static, str> {
        "Memory".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": ["string", "integer"],
            "format": "memory",
            "pattern": r"^(auto|none|tiny|low|medium|high|[0-9]+(\.[0-9]+)? ?(B|kB|MB|GB|KiB|MiB|GiB|TiB))$",
            "minimum": 0,
        })
    }
}

/// What the schema says of a size that may follow another setting.
#[derive(Debug)]
pub(super) struct SizeOrAutoText;

impl JsonSchema for SizeOrAutoText {
    fn schema_name() -> Cow<'static, str> {
        "SizeOrAuto".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": ["string", "integer"],
            "format": "size-or-auto",
            "pattern": r"^(auto|[0-9]+(\.[0-9]+)? ?(B|kB|MB|GB|KiB|MiB|GiB|TiB))$",
            "minimum": 0,
        })
    }
}

/// What the schema says of a number that may follow another setting.
#[derive(Debug)]
pub(super) struct CountOrAutoText;

impl JsonSchema for CountOrAutoText {
    fn schema_name() -> Cow<'static, str> {
        "CountOrAuto".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": ["string", "integer"],
            "format": "count-or-auto",
            "pattern": "^auto$",
            "minimum": 0,
        })
    }
}

/// The number of smallest units, or `None` if `text` is not one number and one unit, or is not whole.
fn read(text: &str, units: &[(&str, u64)]) -> Option<u64> {
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.')?;
    let (number, unit) = text.split_at(digits);
    let unit = unit.strip_prefix(' ').unwrap_or(unit);
    let (_, factor) = units.iter().find(|(name, _)| *name == unit)?;
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    let whole = whole.parse::<u64>().ok()?.checked_mul(*factor)?;
    let scale = 10_u64.checked_pow(u32::try_from(fraction.len()).ok()?)?;
    let part = fraction.parse::<u64>().ok()?.checked_mul(*factor)?;
    if !part.is_multiple_of(scale) {
        return None;
    }
    whole.checked_add(part / scale)
}

/// The shortest exact form: the largest unit that divides the value.
fn write(value: u64, units: &[(&str, u64)], zero_unit: &str, space: &str) -> String {
    let fits = |(_, factor): &&(&str, u64)| value >= *factor && value.is_multiple_of(*factor);
    let (unit, factor) = units.iter().find(fits).copied().unwrap_or((zero_unit, 1));
    format!("{}{space}{unit}", value / factor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_and_written() {
        for (text, millis) in [
            ("0s", 0),
            ("500ms", 500),
            ("30s", 30_000),
            ("1.5 s", 1_500),
            ("5 min", 300_000),
            ("2h", 7_200_000),
            ("7d", 604_800_000),
        ] {
            assert_eq!(read(text, &TIME_UNITS), Some(millis), "{text}");
            let written = write(millis, &TIME_UNITS, "ms", "");
            assert_eq!(read(&written, &TIME_UNITS), Some(millis), "{written}");
        }
    }

    #[test]
    fn what_is_not_a_quantity_is_refused() {
        for text in [
            "",
            "30",
            "s",
            "-1s",
            "1.0001s",
            ".5s",
            "1.s",
            "30 seconds",
            "1s ",
            "1  s",
            "1.2.3s",
            "99999999999999999999s",
        ] {
            assert_eq!(read(text, &TIME_UNITS), None, "{text:?}");
        }
    }

    #[test]
    fn sizes_are_read_and_written_in_binary_units() {
        assert_eq!(read("256 MiB", &SIZE_UNITS), Some(256 << 20));
        assert_eq!(read("1.5KiB", &SIZE_UNITS), Some(1536));
        assert_eq!(read("10 MB", &SIZE_UNITS), Some(10_000_000));
        assert_eq!(write(256 << 20, &SIZE_UNITS[..4], "B", " "), "256 MiB");
        assert_eq!(write(1000, &SIZE_UNITS[..4], "B", " "), "1000 B");
        assert_eq!(write(0, &SIZE_UNITS[..4], "B", " "), "0 B");
    }
}
