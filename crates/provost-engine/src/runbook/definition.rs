//! Reads a runbook as a person wrote it, within bounds: the text comes from outside.

use provost_model::runbook::Runbook;

/// The largest runbook, in bytes.
pub const MAX_BYTES: usize = 64 * 1024;

/// Why a text is no runbook.
#[derive(Debug, thiserror::Error)]
pub enum ParseError {
    /// Too large.
    #[error("the runbook has {bytes} bytes; {MAX_BYTES} are allowed: split it")]
    TooLarge {
        /// Its size.
        bytes: usize,
    },
    /// Not exactly one document.
    #[error("the file holds {count} documents; a runbook is one")]
    Documents {
        /// How many.
        count: usize,
    },
    /// No YAML, or YAML of another shape.
    #[error("the runbook cannot be read: {0}")]
    Yaml(String),
}

/// Reads one runbook. What it says may still be nonsense: [`super::lint`] tells.
///
/// # Errors
/// Where the text is too large, no YAML, has unknown or doubled keys, or more than one document.
pub fn parse(yaml: &str) -> Result<Runbook, ParseError> {
    if yaml.len() > MAX_BYTES {
        return Err(ParseError::TooLarge { bytes: yaml.len() });
    }
    let budget = serde_saphyr::Budget {
        max_events: 20_000,
        max_nodes: 10_000,
        max_depth: 16,
        max_documents: 2,
        max_total_scalar_bytes: MAX_BYTES,
        // A runbook is read by people: nothing in it stands somewhere else.
        max_aliases: 0,
        max_anchors: 0,
        max_merge_keys: 0,
        ..serde_saphyr::Budget::default()
    };
    let options = serde_saphyr::Options {
        budget: Some(budget),
        duplicate_keys: serde_saphyr::DuplicateKeyPolicy::Error,
        strict_booleans: true,
        ..serde_saphyr::Options::default()
    };
    // The reader of one document stops where it ends and says nothing about what follows.
    let documents: Vec<Runbook> = serde_saphyr::from_multiple_with_options(yaml, options)
        .map_err(|error| ParseError::Yaml(error.to_string()))?;
    match <[Runbook; 1]>::try_from(documents) {
        Ok([runbook]) => Ok(runbook),
        Err(documents) => Err(ParseError::Documents { count: documents.len() }),
    }
}

/// The runbooks that Provost brings along: id and YAML.
pub const fn builtin() -> [(&'static str, &'static str); 7] {
    [
        ("application-fault", include_str!("../../../../runbooks/application-fault.yaml")),
        ("gpu-fault-unclassified", include_str!("../../../../runbooks/gpu-fault-unclassified.yaml")),
        ("gpu-lost", include_str!("../../../../runbooks/gpu-lost.yaml")),
        ("gpu-memory-uncorrectable", include_str!("../../../../runbooks/gpu-memory-uncorrectable.yaml")),
        ("gpu-reset-needed", include_str!("../../../../runbooks/gpu-reset-needed.yaml")),
        ("nvlink-fatal", include_str!("../../../../runbooks/nvlink-fatal.yaml")),
        ("row-remap-pending", include_str!("../../../../runbooks/row-remap-pending.yaml")),
    ]
}
