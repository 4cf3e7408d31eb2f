"""What every framework's training to accuracy shares."""
