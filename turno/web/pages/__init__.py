"""The kernel of pages, rendered by the server: visits, frames, forms, sign-in and problems."""
