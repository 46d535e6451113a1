"""Read text of files: compression, bounded reads, JSON side files and YAML."""
