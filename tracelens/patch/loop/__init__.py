"""What is known of one training loop: its sites, its loader, its guards, who looks at its results, who changes what."""
