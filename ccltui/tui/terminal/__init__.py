"""Terminal output: screen model, writer, escape sequences, Textual driver."""
