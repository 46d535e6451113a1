"""JSON Schemas of what the commands print as JSON: one file a document, `ccltui schema NAME`."""
