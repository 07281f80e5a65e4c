//! What the values of trees are.

/// The values of a tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Values {
    Numbers,
    Texts,
    Bytes,
}

impl Values {
    /// What is asked of a value that a tree does not accept.
    pub(crate) fn asked(self) -> &'static str {
        match self {
            Self::Numbers => "the value must be a decimal number",
            Self::Texts => "the value must be UTF-8",
            Self::Bytes => "the value must be bytes",
        }
    }
}
