"""The report of a job as one page: sections, pictures, and their HTML and Markdown."""
