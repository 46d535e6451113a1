"""Numbers of training runs, from what the runs themselves wrote down."""
