"""Make corpora of what others published: rounds of MLPerf Training, and the tables of llm-foundry and torchtitan."""
