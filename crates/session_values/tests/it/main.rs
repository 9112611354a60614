//! Values and contents through the encodings of the wire and the disk.

mod contents;
mod filters;
mod golden;
mod properties;
mod refusals;
mod samples;
mod strategies;
mod traits;
