"""Parts of the picture of Overview: the page, its metrics, and the tables of one metric."""
