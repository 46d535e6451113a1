"""JSON Schemas of the documents that commands print, made from the types of these."""
