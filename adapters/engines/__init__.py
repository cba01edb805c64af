"""Inference engines by their metrics pages: one table an engine, a fast page parser, and the scraper."""
