//! The graphs that are measured; `bench/tbb` has the same.

/// The width of the layered graph.
pub(crate) const WIDTH: u32 = 1_000;

#[derive(Clone, Copy)]
pub(crate) enum Shape {
    /// One after the other.
    Chain,
    /// One, then all, then one.
    Fan,
    /// Everyone has two behind it.
    Tree,
    /// Layers of a thousand, each node behind three of the layer before.
    Layered,
}

impl Shape {
    pub(crate) fn named(name: &str) -> Result<Shape, String> {
        match name {
            "chain" => Ok(Shape::Chain),
            "fan" => Ok(Shape::Fan),
            "tree" => Ok(Shape::Tree),
            "layered" => Ok(Shape::Layered),
            other => Err(format!("no such shape: {other}")),
        }
    }

    /// The inputs of a node, of so many, given to `add` one by one.
    pub(crate) fn inputs(self, node: u32, nodes: u32, mut add: impl FnMut(u32)) {
        match self {
            Shape::Chain if node > 0 => add(node - 1),
            Shape::Fan if node == nodes - 1 => (1..node).for_each(add),
            Shape::Fan if node > 0 => add(0),
            Shape::Tree if node > 0 => add((node - 1) / 2),
            Shape::Layered if node >= WIDTH => {
                let (layer, place) = (node / WIDTH - 1, node % WIDTH);
                for step in [0, 1, 7] {
                    add(layer * WIDTH + (place + step) % WIDTH);
                }
            }
            _ => {}
        }
    }
}
