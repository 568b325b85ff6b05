"""Take each guard away in turn and see its test fail: a promise whose test passes without its guard is not kept."""
