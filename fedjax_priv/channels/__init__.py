"""What happens to messages on their way."""
