"""One bounded training run of GPT-2, and the files that tell what it did."""
