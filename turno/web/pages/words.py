"""Every phrase of Turno's pages in every language; a pair is for one and for many, `{n}` the number.

The words for a job's state are those of `turno.jobs.label`, the same as in the API and on the command line.
"""

from collections.abc import Mapping

from turno.web.pages.language import Language

Said = str | tuple[str, str]

# A phrase may be overlaid by an application's, and by one for a job's type: `kept batch_invoicing` in place of `kept`.
Words = Mapping[str, Mapping[Language, Said]]

WORDS: Words = {
    "home": {"en": "Jobs", "es": "Trabajos"},
    "back": {"en": "Back to the jobs", "es": "Volver a los trabajos"},
    "no jobs": {"en": "No jobs yet.", "es": "Todavía no hay trabajos."},
    "key search": {"en": "search", "es": "buscar"},
    "key choose": {"en": "choose the row, or open the job", "es": "elegir la fila, o abrir el trabajo"},
    "motto": {
        "en": "Press once and leave. The work goes on and tells you when it is done.",
        "es": "Apretá una vez y andate tranquilo. El trabajo sigue y te avisa cuando termina.",
    },
    "demo help": {"en": "On this machine only.", "es": "Solo en esta máquina."},
    "notice replayed": {
        "en": "This had been started already; nothing was started twice.",
        "es": "Esto ya había empezado; no se empezó nada dos veces.",
    },
    # The frame
    "skip": {"en": "Skip to the content", "es": "Saltar al contenido"},
    "branch": {"en": "Branch", "es": "Sucursal"},
    "change branch": {"en": "Change", "es": "Cambiar"},
    "other language": {"en": "Español", "es": "English"},
    "sign out": {"en": "Sign out", "es": "Salir"},
    "notifications": {"en": "Notifications", "es": "Avisos"},
    "unread": {"en": ("{n} unread", "{n} unread"), "es": ("{n} sin leer", "{n} sin leer")},
    "keys": {"en": "Keyboard", "es": "Teclado"},
    "key next": {"en": "next row", "es": "fila siguiente"},
    "key previous": {"en": "previous row", "es": "fila anterior"},
    "key help": {"en": "show these keys", "es": "mostrar estas teclas"},
    "close": {"en": "Close", "es": "Cerrar"},
    "live": {"en": "Live", "es": "En vivo"},
    "polling": {"en": "Updated every few seconds", "es": "Se actualiza cada pocos segundos"},
    "offline": {"en": "No connection; trying again", "es": "Sin conexión; reintentando"},
    # Signing in
    "sign in": {"en": "Sign in", "es": "Entrar"},
    "token": {"en": "Token", "es": "Token"},
    "token help": {
        "en": "Paste the token that your administrator gave you.",
        "es": "Pegá el token que te dio tu administrador.",
    },
    "token refused": {
        "en": "This token cannot be used: it is damaged, expired or meant for another service. Ask for a new one.",
        "es": "Este token no sirve: está dañado, vencido o es de otro servicio. Pedí uno nuevo.",
    },
    "not over https": {
        "en": "Nobody can sign in over an unencrypted connection. Open this page with https://; if you did, tell your "
        "administrator: the server does not trust the proxy in front of it.",
        "es": "No se puede entrar por una conexión sin cifrar. Abrí esta página con https://; si ya lo hiciste, "
        "avisale a tu administrador: el servidor no confía en el proxy que tiene delante.",
    },
    "token too long": {
        "en": "This token is too long for a browser's cookie; use it with the API.",
        "es": "Este token es demasiado largo para una cookie; usalo con la API.",
    },
    "demo": {"en": "Enter the demo", "es": "Entrar a la demo"},
    "or": {"en": "or with a token", "es": "o con un token"},
    "signed out": {"en": "You are signed out.", "es": "Saliste de la sesión."},
    # Jobs
    "jobs": {"en": "Jobs", "es": "Trabajos"},
    "show": {"en": "Show", "es": "Mostrar"},
    "filter": {"en": "Filter", "es": "Filtrar"},
    "show all": {"en": "All", "es": "Todos"},
    "show open": {"en": "Open", "es": "Abiertos"},
    "show completed": {"en": "Done", "es": "Listos"},
    "show failed": {"en": "Failed", "es": "Fallidos"},
    "show cancelled": {"en": "Cancelled", "es": "Cancelados"},
    "no other jobs": {"en": "No other jobs yet.", "es": "Todavía no hay otros trabajos."},
    "no jobs shown": {"en": "No job fits this filter.", "es": "Ningún trabajo cumple este filtro."},
    "older": {"en": "Older", "es": "Anteriores"},
    "newest": {"en": "Newest", "es": "Más nuevos"},
    "next page": {"en": "Next page", "es": "Página siguiente"},
    "first page": {"en": "First page", "es": "Primera página"},
    "details": {"en": "Details", "es": "Detalle"},
    "whole job": {"en": "The whole job", "es": "El trabajo completo"},
    "cancel": {"en": "Cancel", "es": "Cancelar"},
    "retry failed": {
        "en": ("Retry the failed one", "Retry just those {n}"),
        "es": ("Reintentar el que falló", "Reintentar solo esos {n}"),
    },
    "retry rest": {"en": "Go on with the rest", "es": "Seguir con el resto"},
    "count": {"en": "{done} of {total}", "es": "{done} de {total}"},
    "failed count": {"en": ("{n} failed", "{n} failed"), "es": ("{n} con error", "{n} con error")},
    "progress of": {"en": "Progress", "es": "Avance"},
    "per second": {"en": "{rate} per second", "es": "{rate} por segundo"},
    "ends in": {"en": "about {time} left", "es": "faltan unos {time}"},
    "said running": {"en": "{what}: {count}.", "es": "{what}: {count}."},
    "said now": {"en": "{what}: {state}. {count}.", "es": "{what}: {state}. {count}."},
    "waiting": {"en": "Waiting", "es": "En espera"},
    "scheduled": {"en": "Scheduled", "es": "Programado"},
    "retrying": {"en": "Retrying", "es": "Reintento"},
    "needs review": {"en": "Needs review", "es": "A revisar"},
    "running": {"en": "Running", "es": "En curso"},
    "cancelling": {"en": "Cancelling", "es": "Cancelando"},
    "done": {"en": "Done", "es": "Listo"},
    "done, some failed": {"en": "Done, {n} failed", "es": "Listo, {n} con error"},
    "not done, all failed": {"en": "Not done, {n} failed", "es": "Sin hacer, {n} con error"},
    "failed": {"en": "Failed", "es": "Falló"},
    "cancelled": {"en": "Cancelled", "es": "Cancelado"},
    "expired": {"en": "Expired", "es": "Vencido"},
    "starts": {"en": "starts {when}", "es": "empieza {when}"},
    "tries again": {"en": "tries again {when}", "es": "reintenta {when}"},
    # One job
    "created": {"en": "Asked for", "es": "Pedido"},
    "started": {"en": "Started", "es": "Empezó"},
    "finished": {"en": "Ended", "es": "Terminó"},
    "worked": {"en": "Worked for", "es": "Trabajó"},
    "attempts": {"en": "Attempts", "es": "Intentos"},
    "asked by": {"en": "By", "es": "Por"},
    "continues": {"en": "Continues", "es": "Continúa"},
    "continued by": {"en": "Continued by", "es": "Continuado por"},
    "an earlier job": {"en": "an earlier job", "es": "un trabajo anterior"},
    "a later job": {"en": "a later job", "es": "un trabajo posterior"},
    "what happened": {"en": "What happened", "es": "Qué pasó"},
    "what was kept": {"en": "What was kept", "es": "Qué quedó hecho"},
    "what to do": {"en": "What to do", "es": "Qué hacer"},
    "for operators": {"en": "For operators", "es": "Para operadores"},
    "happened crash": {
        "en": "The process that did the work was lost, several times over.",
        "es": "El proceso que hacía el trabajo se perdió varias veces.",
    },
    "happened cancel": {"en": "It was cancelled.", "es": "Fue cancelado."},
    "waits for a worker": {
        "en": "No worker that is running can take it. It waits for one; an operator can start it.",
        "es": "Ningún proceso en marcha puede tomarlo. Espera a uno; un operador puede iniciarlo.",
    },
    "reason": {"en": "Reason", "es": "Motivo"},
    "history": {"en": "History", "es": "Historia"},
    # Notifications
    "new": {"en": "New", "es": "Nuevo"},
    "read all": {"en": "Mark all as read", "es": "Marcar todo como leído"},
    "no notifications": {
        "en": "Nothing yet. When a job ends, you read it here.",
        "es": "Nada todavía. Cuando termina un trabajo, lo leés acá.",
    },
    # Notices after a form
    "notice quota": {
        "en": "You have as many jobs open as you may. Wait for one to end, or cancel one.",
        "es": "Ya tenés todos los trabajos abiertos que podés tener. Esperá que termine uno, o cancelá uno.",
    },
    "notice ended": {
        "en": "The job had ended already; nothing was changed.",
        "es": "El trabajo ya había terminado; no se cambió nada.",
    },
    "notice not_retryable": {
        "en": "There is nothing left of this job to do.",
        "es": "De este trabajo no queda nada por hacer.",
    },
    "notice done": {"en": "Done within the request.", "es": "Hecho en el momento."},
    "notice refused": {"en": "The work could not be done as asked.", "es": "El trabajo no se pudo hacer así."},
    # Problems
    "problem": {"en": "This did not work", "es": "Esto no funcionó"},
    "try again": {"en": "Try again", "es": "Probar de nuevo"},
    "pass on": {"en": "Pass on this reference:", "es": "Pasá esta referencia:"},
    "problem busy": {
        "en": "This branch is busy just now. What you had started goes on; try again in a few seconds.",
        "es": "La sucursal está ocupada en este momento. Lo que habías empezado sigue; probá en unos segundos.",
    },
    "problem 429": {
        "en": "This was asked for too often. Wait a few seconds, then try again.",
        "es": "Se pidió demasiadas veces. Esperá unos segundos y probá de nuevo.",
    },
    "problem 400": {
        "en": "The address or the form is not complete. Go back and try again.",
        "es": "La dirección o el formulario están incompletos. Volvé e intentá de nuevo.",
    },
    "problem 403": {
        "en": "The form was not sent by this page, or your session changed meanwhile. Open the page again and repeat.",
        "es": "El formulario no lo envió esta página, o tu sesión cambió. Abrí la página de nuevo y repetí.",
    },
    "problem 404": {
        "en": "There is nothing here that you may see.",
        "es": "Acá no hay nada que puedas ver.",
    },
    "problem 500": {
        "en": "The fault is ours and was logged. What you had started goes on.",
        "es": "La falla es nuestra y quedó registrada. Lo que habías empezado sigue.",
    },
    "problem 503": {
        "en": "The database cannot be reached just now. What you had started goes on; try again in a few seconds.",
        "es": "No se llega a la base de datos. Lo que habías empezado sigue; probá en unos segundos.",
    },
    # Times
    "just now": {"en": "just now", "es": "recién"},
    "under a second": {"en": "under a second", "es": "menos de un segundo"},
    "seconds ago": {"en": ("{n} second ago", "{n} seconds ago"), "es": ("hace {n} segundo", "hace {n} segundos")},
    "minutes ago": {"en": ("{n} minute ago", "{n} minutes ago"), "es": ("hace {n} minuto", "hace {n} minutos")},
    "hours ago": {"en": ("{n} hour ago", "{n} hours ago"), "es": ("hace {n} hora", "hace {n} horas")},
    "days ago": {"en": ("{n} day ago", "{n} days ago"), "es": ("hace {n} día", "hace {n} días")},
    "seconds ahead": {"en": ("in {n} second", "in {n} seconds"), "es": ("en {n} segundo", "en {n} segundos")},
    "minutes ahead": {"en": ("in {n} minute", "in {n} minutes"), "es": ("en {n} minuto", "en {n} minutos")},
    "hours ahead": {"en": ("in {n} hour", "in {n} hours"), "es": ("en {n} hora", "en {n} horas")},
    "days ahead": {"en": ("in {n} day", "in {n} days"), "es": ("en {n} día", "en {n} días")},
    # Reasons by what is stored: words of Turno itself, or, below, an error's class, whose own words English shows.
    "reason no attempts left": {
        "en": "The work met a fault and gave up after its last attempt.",
        "es": "El trabajo encontró una falla y abandonó tras el último intento.",
    },
    "reason failed for good": {
        "en": "The work cannot be done as it is; trying again would not help.",
        "es": "El trabajo no se puede hacer así como está; reintentarlo no serviría.",
    },
    "reason expired": {
        "en": "It was to start by a certain time and did not.",
        "es": "Debía empezar antes de cierta hora y no empezó.",
    },
    "reason cancelled by its user": {"en": "Its user cancelled it.", "es": "Lo canceló quien lo pidió."},
    "reason cancelled by an operator": {"en": "An operator cancelled it.", "es": "Lo canceló un operador."},
    "reason cancelled on request": {
        "en": "It was asked to stop and did.",
        "es": "Se le pidió que parara, y paró.",
    },
    "reason rescheduled by its handler": {
        "en": "It goes on later by itself.",
        "es": "Sigue más tarde por sí solo.",
    },
    "reason handed back by a stopping worker": {
        "en": "Its worker was stopped; another one goes on.",
        "es": "Se detuvo el proceso que lo hacía; sigue otro.",
    },
    "reason its worker was stopped": {
        "en": "Its worker was stopped; another one goes on.",
        "es": "Se detuvo el proceso que lo hacía; sigue otro.",
    },
    "reason its worker ended unexpectedly": {
        "en": "Its worker ended unexpectedly; another one goes on.",
        "es": "El proceso que lo hacía terminó de improviso; sigue otro.",
    },
    "reason its tenant's data was locked, or the database had no room": {
        "en": "The branch's data was locked, or the database had no room; it waits a moment.",
        "es": "Los datos de la sucursal estaban bloqueados, o la base no tenía lugar; espera un momento.",
    },
    "reason the database refused to record how it went": {
        "en": "The database refused to record how it went.",
        "es": "La base de datos no dejó anotar cómo le fue.",
    },
    "reason its ticket was missing": {
        "en": "It had lost its turn and waits again.",
        "es": "Había perdido su turno y espera de nuevo.",
    },
    "reason its worker never heard of its claim": {
        "en": "It was handed out, but nobody got it; it waits again.",
        "es": "Se entregó, pero nadie lo recibió; espera de nuevo.",
    },
    "reason its worker could not reach the database for too long": {
        "en": "Its worker was cut off from the database; another one goes on.",
        "es": "El proceso que lo hacía quedó sin base de datos; sigue otro.",
    },
    "reason lost: its worker was not heard of any more": {
        "en": "Its worker was not heard of any more.",
        "es": "No se supo más del proceso que lo hacía.",
    },
    "reason the tenant's login was refused": {
        "en": "The branch's database session was refused.",
        "es": "No se pudo entrar a la base de datos de la sucursal.",
    },
    "reason did not stop when it was cancelled": {
        "en": "It did not stop when it was cancelled, and was ended.",
        "es": "No paró cuando se canceló, y se lo terminó.",
    },
    "reason a job of its group did not stop when it was cancelled": {
        "en": "Another job that ran with it was cancelled and ended; it goes on.",
        "es": "Se canceló y terminó otro trabajo que corría con él; este sigue.",
    },
    "reason out of memory": {"en": "It ran out of memory.", "es": "Se quedó sin memoria."},
    "reason time limit of": {
        "en": "It took longer than the {number} s it may.",
        "es": "Tardó más que los {number} s permitidos.",
    },
    "reason a transaction was open for more than": {
        "en": "It kept the database busy for more than {number} s at a time.",
        "es": "Ocupó la base de datos por más de {number} s seguidos.",
    },
    "reason killed by SIGKILL": {
        "en": "The system ended its process, perhaps for want of memory.",
        "es": "El sistema terminó su proceso, quizás por falta de memoria.",
    },
    "reason exited with status": {
        "en": "Its process left without finishing (status {number}).",
        "es": "Su proceso salió sin terminar (estado {number}).",
    },
    "unexpected": {
        "en": "Something unexpected went wrong. An operator can find out what by the reference {reference}.",
        "es": "Pasó algo inesperado. Un operador puede ver qué fue con la referencia {reference}.",
    },
    "unexpected unnamed": {
        "en": "Something unexpected went wrong. An operator can find out what.",
        "es": "Pasó algo inesperado. Un operador puede ver qué fue.",
    },
    "error InvalidPayload": {"en": "{message}", "es": "Lo pedido no es válido para este trabajo: {message}"},
    "error UnknownJobType": {
        "en": "{message}",
        "es": "Acá nadie sabe hacer este tipo de trabajo: avisá a un operador.",
    },
    "error EffectInDoubt": {
        "en": "{message}",
        "es": "Puede que ya se haya hecho afuera; se averigua antes de repetirlo.",
    },
    # A job with items
    "kept": {
        "en": ("{n} item was done and stays so.", "{n} items were done and stay so."),
        "es": ("{n} parte se hizo y queda así.", "{n} partes se hicieron y quedan así."),
    },
    "kept nothing": {"en": "Nothing was done.", "es": "No se hizo nada."},
    "happened some": {
        "en": ("{n} item could not be done.", "{n} items could not be done."),
        "es": ("{n} parte no se pudo hacer.", "{n} partes no se pudieron hacer."),
    },
    "items": {"en": "Its items", "es": "Sus partes"},
    "items failed": {"en": "Failed", "es": "Con error"},
    "items done": {"en": "Done", "es": "Hechas"},
    "item": {"en": "Item", "es": "Parte"},
    "result": {"en": "Result", "es": "Resultado"},
    "no items failed": {"en": "No item failed.", "es": "Ninguna parte falló."},
    "no items done": {"en": "No item was done.", "es": "No se hizo ninguna parte."},
    "do rest": {
        "en": "Go on with the rest: what is done is not done again.",
        "es": "Seguí con el resto: lo hecho no se vuelve a hacer.",
    },
    "do mend": {
        "en": "Mend what the reasons below name, then retry just those items.",
        "es": "Corregí lo que dicen los motivos de abajo y reintentá solo esas partes.",
    },
}
