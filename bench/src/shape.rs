//! The trees that are measured.

pub(crate) use crate::common::shape::Shape;
use crate::parse::{Index, Layout};

impl Shape {
    /// Bytes of a node's slots; for a OneLine leaf, which has its header among them, all bytes.
    pub(crate) fn node_bytes(self) -> u32 {
        match self.layout {
            Layout::OneLine => self.slots * 16 + 16,
            Layout::Linear | Layout::Circular => self.slots * 16,
        }
    }

    /// Layout, bytes and index.
    pub(crate) fn label(self) -> String {
        format!("{} {} {}", self.layout.name(), self.node_bytes(), self.index.name())
    }

    /// The shape with this label.
    pub(crate) fn from_label(label: &str) -> Option<Self> {
        let mut words = label.split(' ');
        let layout = Layout::from_name(words.next()?)?;
        let bytes: u32 = words.next()?.parse().ok()?;
        let slots = if layout == Layout::OneLine { layout.usual_slots() } else { bytes / 16 };
        let index = Index::from_name(words.next()?)?;
        Some(Self { layout, slots, index }).filter(|shape| shape.node_bytes() == bytes && words.next().is_none())
    }
}

/// Slots of the sorted nodes that are measured. A debug build has fewer sizes, to keep the tests short.
pub(crate) const SIZES: &[u32] = if cfg!(debug_assertions) { &[32] } else { &[32, 64, 128, 256] };

/// [`with_type`](crate::common::shape::with_type) for these sizes.
#[cfg(not(debug_assertions))]
macro_rules! with_measured {
    ($shape:expr, $n:ident => $body:expr) => {
        $crate::common::shape::with_type!($shape, [32 64 128 256], $n => $body)
    };
}

#[cfg(debug_assertions)]
macro_rules! with_measured {
    ($shape:expr, $n:ident => $body:expr) => { $crate::common::shape::with_type!($shape, [32], $n => $body) };
}
pub(crate) use with_measured;

#[cfg(test)]
mod tests {
    use super::*;
    use clap::ValueEnum;

    #[test]
    fn a_label_is_that_of_one_shape() {
        for layout in Layout::ALL {
            for &index in Index::value_variants() {
                for slots in if layout == Layout::OneLine { [39; 2] } else { [32, 256] } {
                    let shape = Shape { layout, slots, index };
                    assert_eq!(Shape::from_label(&shape.label()), Some(shape));
                }
            }
        }
        for wrong in
            ["", "linear", "linear 512", "linear 512 nowhere", "one_line 512 volatile", "linear 512 volatile 3"]
        {
            assert_eq!(Shape::from_label(wrong), None, "{wrong}");
        }
    }
}
