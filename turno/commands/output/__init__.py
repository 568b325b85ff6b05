"""What commands print: tables, bars, errors."""
