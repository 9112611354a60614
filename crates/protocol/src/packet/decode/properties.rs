//! The properties of a packet, one after the other (MQTT 5.0 section 2.2.2).

use std::ops::{Deref, DerefMut};

use bytes::Bytes;

use super::error::Violation;
use super::reader::Reader;
use crate::packet::PropertyId;
use crate::properties::{Explanation, MessageProperties, UserProperties};
use crate::text::{self, Text};

/// User properties in one packet at most. Checking one takes some 30 ns, and a packet of a mebibyte would have room for 200,000.
pub(super) const USER_PROPERTIES_MAX: usize = 10_000;

/// Reads one property section. The values are read with the methods of [`Reader`], to which this derefs.
#[derive(Debug)]
pub(super) struct PropertyReader<'a> {
    section: Reader<'a>,
    /// A bit for each property seen; identifiers are below 64.
    seen: u64,
    user_property_count: usize,
    user_properties: CollectedUserProperties<'a>,
}

/// User properties so far: usually one run, then they are cut out; else copied together.
#[derive(Debug, Default)]
enum CollectedUserProperties<'a> {
    #[default]
    None,
    OneRun(&'a [u8]),
    SeveralRuns(Vec<u8>),
}

impl<'a> PropertyReader<'a> {
    /// Takes the property length and the section it announces out of `packet`.
    #[inline]
    pub(super) fn new(packet: &mut Reader<'a>) -> Result<Self, Violation> {
        let length = packet.variable_byte_integer("property length")?;
        let section = packet.part(length as usize, "property section")?;
        Ok(Self {
            section,
            seen: 0,
            user_property_count: 0,
            user_properties: CollectedUserProperties::None,
        })
    }

    /// The identifier of the next property but user properties, which this collects. Its value must be read next.
    #[inline]
    pub(super) fn next_id(&mut self) -> Result<Option<PropertyId>, Violation> {
        loop {
            let Some(&id) = self.section.rest().first() else {
                return Ok(None);
            };
            if id == PropertyId::UserProperty as u8 {
                self.collect_user_properties()?;
                continue;
            }
            // Identifiers are variable byte integers, but all that exist have one byte.
            let property = PropertyId::from_u8(id).ok_or(Violation::UnknownProperty { id })?;
            self.section.u8(property.name())?;
            let bit = 1 << id;
            if self.seen & bit != 0 {
                return Err(Violation::DuplicateProperty { property });
            }
            self.seen |= bit;
            return Ok(Some(property));
        }
    }

    /// Lets `property` come again.
    pub(super) fn may_repeat(&mut self, property: PropertyId) {
        self.seen &= !(1 << property as u8);
    }

    /// A byte that is 0 or 1.
    pub(super) fn boolean(&mut self, property: PropertyId) -> Result<bool, Violation> {
        match self.section.u8(property.name())? {
            0 => Ok(false),
            1 => Ok(true),
            value => Err(Violation::PropertyValue {
                property,
                value: u32::from(value),
            }),
        }
    }

    /// Two bytes, not 0.
    pub(super) fn u16_not_zero(&mut self, property: PropertyId) -> Result<u16, Violation> {
        match self.section.u16(property.name())? {
            0 => Err(Violation::PropertyValue { property, value: 0 }),
            value => Ok(value),
        }
    }

    /// Four bytes, not 0.
    pub(super) fn u32_not_zero(&mut self, property: PropertyId) -> Result<u32, Violation> {
        match self.section.u32(property.name())? {
            0 => Err(Violation::PropertyValue { property, value: 0 }),
            value => Ok(value),
        }
    }

    /// Reads the value of `property` into `message`, or says that it is not a property of messages.
    #[inline]
    pub(super) fn message_property(
        &mut self,
        property: PropertyId,
        message: &mut MessageProperties,
    ) -> Result<(), Violation> {
        match property {
            PropertyId::PayloadFormatIndicator => message.payload_is_utf8 = Some(self.boolean(property)?),
            PropertyId::MessageExpiryInterval => message.message_expiry = Some(self.u32(property.name())?),
            PropertyId::ContentType => message.content_type = Some(self.text(property.name())?),
            PropertyId::ResponseTopic => message.response_topic = Some(self.topic_name(property.name())?),
            PropertyId::CorrelationData => message.correlation_data = Some(self.binary(property.name())?),
            _ => return Err(Violation::MisplacedProperty { property }),
        }
        Ok(())
    }

    /// The user properties, once all properties have been read.
    #[inline]
    pub(super) fn into_user_properties(self) -> UserProperties {
        let encoded = match self.user_properties {
            CollectedUserProperties::None => Bytes::new(),
            CollectedUserProperties::OneRun(run) => self.section.share(run),
            CollectedUserProperties::SeveralRuns(copied) => Bytes::from(copied),
        };
        UserProperties { encoded }
    }

    /// Checks and takes the run of user properties that the section goes on with. [MQTT-1.5.7-1]
    #[inline]
    fn collect_user_properties(&mut self) -> Result<(), Violation> {
        let field = PropertyId::UserProperty.name();
        let start = self.section.rest();
        while self.section.rest().first() == Some(&(PropertyId::UserProperty as u8)) {
            self.section.u8(field)?;
            self.user_property_count += 1;
            if self.user_property_count > USER_PROPERTIES_MAX {
                let limit = USER_PROPERTIES_MAX;
                return Err(Violation::TooManyUserProperties { limit });
            }
            for _ in ["name", "value"] {
                let text = self.section.prefixed(field)?;
                text::check(text).map_err(|error| Violation::Text { field, error })?;
            }
        }
        let run = start.get(..start.len() - self.section.len()).unwrap_or_default();
        self.user_properties.add(run);
        Ok(())
    }
}

impl<'a> CollectedUserProperties<'a> {
    #[inline]
    fn add(&mut self, run: &'a [u8]) {
        match self {
            Self::None => *self = Self::OneRun(run),
            Self::OneRun(first) => *self = Self::SeveralRuns([*first, run].concat()),
            Self::SeveralRuns(copied) => copied.extend_from_slice(run),
        }
    }
}

impl<'a> Deref for PropertyReader<'a> {
    type Target = Reader<'a>;

    fn deref(&self) -> &Reader<'a> {
        &self.section
    }
}

impl DerefMut for PropertyReader<'_> {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.section
    }
}

/// Properties of a packet that has user properties only.
pub(super) fn user_properties(packet: &mut Reader<'_>) -> Result<UserProperties, Violation> {
    let mut properties = PropertyReader::new(packet)?;
    match properties.next_id()? {
        Some(property) => Err(Violation::MisplacedProperty { property }),
        None => Ok(properties.into_user_properties()),
    }
}

/// Properties of a packet that has a Reason String and user properties only.
pub(super) fn explanation(packet: &mut Reader<'_>) -> Result<Explanation, Violation> {
    let mut properties = PropertyReader::new(packet)?;
    let mut reason_string: Option<Text> = None;
    while let Some(property) = properties.next_id()? {
        match property {
            PropertyId::ReasonString => reason_string = Some(properties.text(property.name())?),
            _ => return Err(Violation::MisplacedProperty { property }),
        }
    }
    Ok(Explanation {
        reason_string,
        user_properties: properties.into_user_properties(),
    })
}
