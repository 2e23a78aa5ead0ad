//! The event-loop core.
