"""SQL, one file a table or two. Plain statements; which schema they meet is the session's affair."""
