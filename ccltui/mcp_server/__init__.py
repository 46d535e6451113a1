"""Server of the Model Context Protocol: an agent reads traces through tools, over stdio."""
