"""A client for programs that submit jobs over HTTP; with the standard library alone, for one tenant and one user.

client = Client("https://turno.example", tenant="suc0001", token=read_token)
job = client.submit("batch_invoicing", {"order_ids": [10248]}, key="june-batch")
job = client.wait(job, timeout=60)
"""

from turno.client.client import Client
from turno.client.errors import ClientError, NotEnded, Refused, Unavailable
from turno.client.job import Job

__all__ = ["Client", "ClientError", "Job", "NotEnded", "Refused", "Unavailable"]
