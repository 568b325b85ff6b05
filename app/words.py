"""What this application says on the pages, in every language, on top of Turno's words or in their place."""

from turno.pages import Words

WORDS: Words = {
    "home": {"en": "Invoicing", "es": "Facturación"},
    "back": {"en": "Back to invoicing", "es": "Volver a facturación"},
    "key search": {"en": "search the orders", "es": "buscar pedidos"},
    "key choose": {"en": "choose the order, or open the job", "es": "elegir el pedido, o abrir el trabajo"},
    "demo help": {
        "en": "Three branches with real orders, on this machine only.",
        "es": "Tres sucursales con pedidos reales, solo en esta máquina.",
    },
    "orders": {"en": "Orders to invoice", "es": "Pedidos por facturar"},
    "orders count": {"en": ("{n} order", "{n} orders"), "es": ("{n} pedido", "{n} pedidos")},
    "net": {"en": "net", "es": "neto"},
    "search": {"en": "Search", "es": "Buscar"},
    "search help": {"en": "Customer or order number", "es": "Cliente o número de pedido"},
    "search again": {"en": "Show all", "es": "Ver todos"},
    "invoice all": {
        "en": ("Invoice it", "Invoice all {n}"),
        "es": ("Facturarlo", "Facturar los {n}"),
    },
    "invoice found": {
        "en": ("Invoice the {n} found", "Invoice the {n} found"),
        "es": ("Facturar el encontrado", "Facturar los {n} encontrados"),
    },
    "invoice chosen": {"en": "Invoice chosen", "es": "Facturar elegidos"},
    "invoice some": {
        "en": ("Invoice {n} chosen", "Invoice {n} chosen"),
        "es": ("Facturar {n} elegido", "Facturar {n} elegidos"),
    },
    "point of sale": {"en": "Point of sale", "es": "Punto de venta"},
    "issuer registered": {"en": "VAT registered", "es": "Resp. inscripto"},
    "issuer monotributo": {"en": "Monotributo", "es": "Monotributo"},
    "choose": {"en": "Choose order {order}", "es": "Elegir el pedido {order}"},
    "choose page": {"en": "Choose all on this page", "es": "Elegir todos los de esta página"},
    "order": {"en": "Order", "es": "Pedido"},
    "ordered on": {"en": "Date", "es": "Fecha"},
    "customer": {"en": "Customer", "es": "Cliente"},
    "lines": {"en": "Lines", "es": "Renglones"},
    "net amount": {"en": "Net amount", "es": "Importe neto"},
    "no orders": {
        "en": "Every order is invoiced. New ones appear here as they are entered.",
        "es": "Todos los pedidos están facturados. Los nuevos aparecen acá a medida que se cargan.",
    },
    "no orders found": {
        "en": "No order to invoice matches “{text}”.",
        "es": "Ningún pedido por facturar coincide con «{text}».",
    },
    "orders later": {
        "en": "You can leave this page: the batch goes on. The orders that remain are listed when it has ended.",
        "es": "Podés cerrar esta página: el lote sigue. Los pedidos que queden aparecen cuando termine.",
    },
    "totals": {"en": "Invoiced so far", "es": "Facturado hasta ahora"},
    "letter": {"en": "Letter", "es": "Letra"},
    "invoices": {"en": "Invoices", "es": "Facturas"},
    "IVA": {"en": "IVA", "es": "IVA"},
    "total": {"en": "Total", "es": "Total"},
    "no invoices": {"en": "Nothing is invoiced yet.", "es": "Todavía no hay nada facturado."},
    "no jobs": {
        "en": "No jobs yet. Invoice some orders and the job appears here.",
        "es": "Todavía no hay trabajos. Facturá algunos pedidos y el trabajo aparece acá.",
    },
    "type batch_invoicing": {"en": "Invoicing", "es": "Facturación"},
    "kept batch_invoicing": {
        "en": ("{n} order was invoiced and stays so.", "{n} orders were invoiced and stay so."),
        "es": ("{n} pedido se facturó y queda así.", "{n} pedidos se facturaron y quedan así."),
    },
    "kept nothing batch_invoicing": {"en": "Nothing was invoiced.", "es": "No se facturó nada."},
    "do rest batch_invoicing": {
        "en": "Go on with the rest: what is invoiced is not invoiced again.",
        "es": "Seguí con el resto: lo facturado no se vuelve a facturar.",
    },
    "do mend batch_invoicing": {
        "en": "Mend what the reasons below name, then retry just those orders.",
        "es": "Corregí lo que dicen los motivos de abajo y reintentá solo esos pedidos.",
    },
    "happened some batch_invoicing": {
        "en": ("{n} order could not be invoiced.", "{n} orders could not be invoiced."),
        "es": ("{n} pedido no se pudo facturar.", "{n} pedidos no se pudieron facturar."),
    },
    "items batch_invoicing": {"en": "Its orders", "es": "Sus pedidos"},
    "items failed batch_invoicing": {"en": "Failed", "es": "Con error"},
    "items done batch_invoicing": {"en": "Invoiced", "es": "Facturados"},
    "result batch_invoicing": {"en": "Invoice", "es": "Factura"},
    "no items failed batch_invoicing": {"en": "No order failed.", "es": "Ningún pedido falló."},
    "no items done batch_invoicing": {
        "en": "No order is invoiced by this job.",
        "es": "Este trabajo no facturó ningún pedido.",
    },
    "item batch_invoicing": {"en": "Order", "es": "Pedido"},
    "notice replayed": {
        "en": "This batch had been started already; nothing was started twice.",
        "es": "Este lote ya había empezado; no se empezó nada dos veces.",
    },
    "notice cut": {
        "en": "A batch takes 10,000 orders. The others stay in the list for the next one.",
        "es": "Un lote toma 10.000 pedidos. Los otros quedan en la lista para el próximo.",
    },
    "notice none": {"en": "Choose at least one order first.", "es": "Primero elegí al menos un pedido."},
    "error AuthorityUnreachable": {"en": "{message}", "es": "No se llega a la autoridad fiscal."},
    "error AuthorityUnclear": {"en": "{message}", "es": "La autoridad fiscal no respondió con claridad."},
    "error AuthorityRefused": {"en": "{message}", "es": "La autoridad fiscal lo rechazó: {message}"},
    "error UnknownInvoice": {"en": "{message}", "es": "No existe la factura {key} en esta sucursal."},
    "error UnknownPointOfSale": {
        "en": "{message}",
        "es": "Ese punto de venta no existe: elegí uno de esta sucursal, o registralo primero.",
    },
    "error UnknownOrder": {
        "en": "{message}",
        "es": "No hay ningún pedido {key} en esta sucursal: revisá el número, o cargá el pedido primero.",
    },
    "error EmptyOrder": {
        "en": "{message}",
        "es": "El pedido {key} no tiene renglones para facturar: cargá lo vendido y facturalo de nuevo.",
    },
    "error AlreadyInvoiced": {
        "en": "{message}",
        "es": "El pedido {key} ya tenía su factura: no se emitió otra.",
    },
}
