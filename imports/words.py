"""Texts of the pages about imports, in each language."""

TABLE_NAMES = {
    "en": {"customers": "Customers", "products": "Products", "orders": "Orders"},
    "es": {"customers": "Clientes", "products": "Productos", "orders": "Pedidos"},
}
WORDS = {
    "en": {
        "title": "Import",
        "kept": ("{n} line was read and stays so.", "{n} lines were read and stay so."),
        "kept nothing": "Nothing was imported.",
        "do rest": "Go on with the rest: lines already read are not read again.",
        "do mend": "Import the customers or products that the reasons name, then retry their lines.",
        "do lasting": "Correct the file by the reasons and upload it again.",
        "happened some": ("{n} line was refused.", "{n} lines were refused."),
        "items": "Its lines",
        "items failed": "Refused",
        "items done": "Read",
        "no items failed": "No line was refused.",
        "no items done": "No line was read.",
        "item": "Line",
    },
    "es": {
        "title": "Importación",
        "kept": ("{n} línea se leyó y queda así.", "{n} líneas se leyeron y quedan así."),
        "kept nothing": "No se importó nada.",
        "do rest": "Seguí con el resto: lo leído no se vuelve a leer.",
        "do mend": "Importá los clientes o productos que nombran los motivos y reintentá esas líneas.",
        "do lasting": "Corregí en el archivo lo que dicen los motivos y subilo de nuevo.",
        "happened some": ("{n} línea no se importó.", "{n} líneas no se importaron."),
        "items": "Sus líneas",
        "items failed": "Con error",
        "items done": "Leídas",
        "no items failed": "Ninguna línea tuvo errores.",
        "no items done": "No se leyó ninguna línea.",
        "item": "Línea",
    },
}
