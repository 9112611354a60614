//! A cluster of three nodes without faults but those that a test asks for.

mod copies;
mod damage;
mod forwarding;
mod handing_over;
mod lagging;
mod sent_again;
mod slow_disk;
mod world;
