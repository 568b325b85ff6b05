// Wait for the end of a job from Node: PGHOST=… PGDATABASE=… PGUSER=… node follow.js TENANT JOB
"use strict";
const { Client } = require("pg");

async function main(tenant, job) {
  const client = new Client();
  await client.connect();
  try {
    const { rows } = await client.query("SELECT outcome, result, error FROM turno.wait($1, $2, 30)", [tenant, job]);
    if (rows.length === 0) {
      console.log(`The tenant has no job ${job}.`);
    } else {
      const { outcome, result, error } = rows[0];
      console.log(outcome ?? "still open", JSON.stringify(error ?? result ?? ""));
    }
  } finally {
    await client.end();
  }
}

main(...process.argv.slice(2));
