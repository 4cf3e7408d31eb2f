"""What a device could do, what it does at a batch size, and what energy that takes."""
