"""The model of the protocol in `model/`, searched by SPIN: its promises hold, and fail without each guard."""
