"""Texts of the pages and the file about the consolidated report, in each language."""

HEADERS = {
    "en": ("branch", "customer", "name", "month", "currency", "IVA rate", "documents", "net", "IVA", "total"),
    "es": ("sucursal", "cliente", "nombre", "mes", "moneda", "alícuota", "comprobantes", "neto", "IVA", "total"),
}
WORDS = {
    "en": {
        "title": "Sales of all branches",
        "kept nothing": "No file was written.",
        "do rest": "Ask for it again: it reads the branches as they are then.",
    },
    "es": {
        "title": "Ventas de todas las sucursales",
        "kept nothing": "No se escribió ningún archivo.",
        "do rest": "Pedilo de nuevo: lee las sucursales como estén en ese momento.",
    },
}
