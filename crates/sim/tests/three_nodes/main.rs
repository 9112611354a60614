//! A cluster of three nodes without faults but those that a test asks for.

mod copies;
mod forwarding;
mod handing_over;
mod sent_again;
mod world;
