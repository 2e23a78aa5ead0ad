//! A plan in the language of Graphviz.

use std::fmt::Write;

use crate::node::Kind;
use crate::plan::Plan;

fn quoted(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

/// The plan for `dot -Tsvg`: boxes are functions, ellipses coroutines, components fan out, plain text is given.
pub fn dot<V>(plan: &Plan<V>) -> String {
    let mut text = String::from("digraph plan {\n  rankdir=LR;\n  node [fontname=\"sans-serif\"];\n");
    for (node, name) in (0u32..).zip(plan.names()) {
        let Some((kind, inputs)) = plan.node(node) else { continue };
        let shape = match kind {
            Kind::Cpu => "box",
            Kind::Task => "ellipse",
            Kind::Map => "component",
            Kind::Input => "plaintext",
        };
        let bold = if plan.is_output(node) { " penwidth=2" } else { "" };
        let _ = writeln!(text, "  n{node} [label=\"{}\" shape={shape}{bold}];", quoted(&name.to_string()));
        for input in inputs {
            let _ = writeln!(text, "  n{input} -> n{node};");
        }
    }
    text.push_str("}\n");
    text
}
