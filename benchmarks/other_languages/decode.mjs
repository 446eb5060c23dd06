// Reads {"name": "text of a message"} from stdin, and writes {"name": nanoseconds} to stdout: what JSON.parse and the
// rules of JSON-RPC 2.0 cost for the message, from its bytes. The minimum of many samples counts.

import { readFileSync } from "node:fs";

const SAMPLES = 300;
const SAMPLE_NANOSECONDS = 1_000_000;

function isId(id) {
  return id === null || typeof id === "string" || typeof id === "number";
}

// Return the message, or null if it breaks a rule. A duplicate member cannot be seen in what JSON.parse returns.
function check(message) {
  if (typeof message !== "object" || message === null || message.jsonrpc !== "2.0") return null;
  const { id, method, params, result, error } = message;
  if (id !== undefined && !isId(id)) return null;
  if (method !== undefined) {
    if (typeof method !== "string" || result !== undefined || error !== undefined) return null;
    if (params !== undefined && (typeof params !== "object" || params === null)) return null;
    return message;
  }
  if (id === undefined || (result === undefined) === (error === undefined)) return null;
  if (error !== undefined) {
    if (typeof error !== "object" || error === null) return null;
    if (!Number.isInteger(error.code) || typeof error.message !== "string") return null;
  }
  return message;
}

let last; // so that no call is optimized away

function sample(bytes, repeats) {
  const begin = process.hrtime.bigint();
  for (let at = 0; at < repeats; at++) last = check(JSON.parse(bytes.toString("utf8")));
  return Number(process.hrtime.bigint() - begin);
}

function measure(text) {
  const bytes = Buffer.from(text, "utf8");
  let repeats = 1;
  while (sample(bytes, repeats) < SAMPLE_NANOSECONDS) repeats *= 2;
  let best = Infinity;
  for (let round = 0; round < SAMPLES; round++) best = Math.min(best, sample(bytes, repeats) / repeats);
  if (last === null) throw new Error(`refused: ${text}`);
  return best;
}

const texts = JSON.parse(readFileSync(0, "utf8"));
const found = Object.fromEntries(Object.entries(texts).map(([name, text]) => [name, measure(text)]));
process.stdout.write(JSON.stringify(found));
