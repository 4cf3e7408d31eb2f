"""When steps end, which of them are warm-up, and which are measured."""
