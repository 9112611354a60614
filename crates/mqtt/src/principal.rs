//! Who a connection belongs to, as the edge has found out.

use std::collections::BTreeMap;
use std::sync::Arc;

use protocol::Text;

use crate::memory::footprint::{text, tree_entry};

/// Who a connection belongs to.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Principal {
    /// The method that has found it out, as the settings call it: `ann` of one method is not `ann` of another.
    /// Empty in what was written before it was kept.
    pub method: Text,
    /// As the method calls it.
    pub name: Text,
    /// What else the method knows.
    pub attributes: Attributes,
}

/// What is known of a principal besides its name: names with values, ordered by name.
///
/// A clone shares them, and none at all takes no memory.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Attributes(Option<Arc<BTreeMap<Text, Text>>>);

impl Principal {
    /// Principal with a name and attributes, of a method that is not said yet.
    pub fn new(name: Text, attributes: Attributes) -> Self {
        Self {
            method: Text::default(),
            name,
            attributes,
        }
    }

    /// Principal of whom nothing but the name is known.
    pub fn named(name: Text) -> Self {
        Self::new(name, Attributes::default())
    }

    /// The same principal, as this method has found it out.
    #[must_use]
    pub fn by_method(self, method: Text) -> Self {
        Self { method, ..self }
    }

    /// Only what makes one principal another.
    #[must_use]
    pub fn without_attributes(&self) -> Self {
        Self {
            attributes: Attributes::default(),
            ..self.clone()
        }
    }

    /// Whether both are the same principal, whatever else is known of either: the same name, found out by the same method.
    /// What was written before methods were kept goes by the name.
    pub fn is(&self, other: &Self) -> bool {
        let is_same_method = self.method.is_empty() || other.method.is_empty() || self.method == other.method;
        is_same_method && self.name == other.name
    }
}

impl Principal {
    /// The memory of its name and attributes.
    pub(crate) fn memory(&self) -> u64 {
        let attributes = self.attributes.iter();
        let attributes =
            attributes.map(|(name, value)| text(name) + text(value) + tree_entry::<Text, Text>());
        text(&self.name) + attributes.sum::<u64>()
    }
}

impl Attributes {
    /// The value of one of them.
    pub fn get(&self, name: &str) -> Option<&Text> {
        self.0.as_ref()?.get(name)
    }

    /// Whether there is one with this value.
    pub fn has(&self, name: &str, value: &str) -> bool {
        self.get(name).is_some_and(|known| **known == *value)
    }

    /// All, ordered by name.
    pub fn iter(&self) -> impl Iterator<Item = (&Text, &Text)> {
        self.0.iter().flat_map(|all| all.iter())
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.as_ref().map_or(0, |all| all.len())
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }
}

impl FromIterator<(Text, Text)> for Attributes {
    fn from_iter<I: IntoIterator<Item = (Text, Text)>>(attributes: I) -> Self {
        let all: BTreeMap<_, _> = attributes.into_iter().collect();
        Self((!all.is_empty()).then(|| Arc::new(all)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attributes(of: &[(&'static str, &'static str)]) -> Attributes {
        of.iter()
            .map(|(name, value)| (Text::from_static(name), Text::from_static(value)))
            .collect()
    }

    #[test]
    fn attributes_are_found_by_name_and_ordered_by_it() {
        let some = attributes(&[("site", "north"), ("floor", "3")]);
        assert_eq!(some.get("site"), Some(&Text::from_static("north")));
        assert_eq!(some.get("sit"), None);
        let names: Vec<_> = some.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["floor", "site"]);
    }

    #[test]
    fn no_attributes_are_the_same_however_they_are_made() {
        assert_eq!(attributes(&[]), Attributes::default());
        assert!(attributes(&[]).is_empty());
        assert_eq!(attributes(&[("site", "north")]).len(), 1);
    }
}
