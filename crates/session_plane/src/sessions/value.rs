//! Values of entries, as far as sessions read them.

use crate::delivering::DeliveryValue;
use crate::expiring::LifetimeValue;
use crate::plane::PlaneValue;

/// Value of the entries of sessions.
pub trait SessionsValue<M>: PlaneValue<M> + DeliveryValue + LifetimeValue {}

impl<V, M> SessionsValue<M> for V where V: PlaneValue<M> + DeliveryValue + LifetimeValue {}
