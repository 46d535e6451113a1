"""One bounded training run of GPT-2, and its log and metric files."""
