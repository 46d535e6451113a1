"""The compiled scanner of Kineto traces, and the numbering of texts it shares."""
