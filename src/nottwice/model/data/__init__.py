"""Plain data: how records are made and checked, and how foreign text is shown."""
