//! Catalogue of faults.
