// Enqueue a job from Node, in the transaction of other writes: PGHOST=… PGDATABASE=… PGUSER=… node enqueue.js
"use strict";
const { Client } = require("pg");

async function enqueue(client, tenant, type, payload, key = null) {
  const enqueued = await client.query(
    "SELECT job_id FROM turno.enqueue(tenant => $1, type => $2, payload => $3, key => $4)",
    [tenant, type, JSON.stringify(payload), key],
  );
  return enqueued.rows[0].job_id;
}

async function main() {
  const client = new Client();
  await client.connect();
  try {
    await client.query("BEGIN");
    await client.query("INSERT INTO suc0001.sales (month, total) VALUES ('2026-06', 100)");
    const job = await enqueue(client, "suc0001", "monthly_report", { month: "2026-06" }, "report-2026-06");
    await client.query("COMMIT"); // with a ROLLBACK neither the sale nor the job is there
    console.log(job);
  } finally {
    await client.end();
  }
}

main();
