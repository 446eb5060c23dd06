// The suite imports `globSync` from `fs`, which Node 20 lacks, for a command that is not run here.
import { register } from "node:module";

const shim =
  'export * from "node:fs"; export { default } from "node:fs";' +
  'export function globSync() { throw new Error("needs Node 22"); }';
const hook = `
const shim = ${JSON.stringify("data:text/javascript," + encodeURIComponent(shim))};
export async function resolve(name, context, next) {
  const isSuite = name === "fs" && /\\/conformance(-[0-9.]+)?\\/dist\\//.test(context.parentURL ?? "");
  return isSuite ? { url: shim, shortCircuit: true } : next(name, context);
}`;
register("data:text/javascript," + encodeURIComponent(hook));
