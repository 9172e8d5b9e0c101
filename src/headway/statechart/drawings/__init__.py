"""Charts as Graphviz, Mermaid and Markdown tables."""
