//! (laid out)
