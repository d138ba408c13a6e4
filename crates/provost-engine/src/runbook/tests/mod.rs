//! Tests of recovery.

mod definition;
